# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash disable=SC2154 # D and G are the arena's
# Servers of others, unchanged, in the gateway's namespace: nginx, Apache, Python, Node, gunicorn, uvicorn at ports 8001 to 8006.
# The first three serve $D/www, the others tell what they got. Sourced behind `arena`.

mkdir -p "$D/www" && chmod 777 "$D" "$D/www"
head -c 3000000 /dev/urandom >"$D/www/large"
head -c 1000 /dev/urandom >"$D/www/small"
: >"$D/www/empty"
printf ok >"$D/www/cookies"
echo '<p>hello' >"$D/www/index.html"
mkdir "$D/www/sub" "$D/www/put"
chmod -R a+rX "$D/www" && chmod 777 "$D/www/put"

cat >"$D/app.py" <<'PY'
import hashlib
piece = bytes(range(256)) * 256

def case(path, fields):
    """What a path asks for: status, fields, body; None: it is another's."""
    name = path.rsplit("/", 1)[-1]
    if name == "no-content":
        return 204, [("x-a", "b")], b""
    if name == "moved":
        return 302, [("location", "/elsewhere?y=%20"), ("content-length", "0")], b""
    if name == "cookies":
        return 200, [("set-cookie", "a=1; Path=/"), ("set-cookie", "b=2; HttpOnly"), ("content-length", "2")], b"ok"
    if name == "fresh":
        if fields.get("if-none-match") == '"v1"':
            return 304, [("etag", '"v1"')], b""
        return 200, [("etag", '"v1"'), ("content-length", "5")], b"fresh"
    if name == "range":
        first, last = map(int, fields["range"][len("bytes="):].split("-"))
        part = piece[first:last + 1]
        return 206, [("content-range", f"bytes {first}-{last}/{len(piece)}"), ("content-length", str(len(part)))], part
    return None

def wsgi(env, start):
    body = env["wsgi.input"].read(int(env.get("CONTENT_LENGTH") or 0))
    fields = {"if-none-match": env.get("HTTP_IF_NONE_MATCH"), "range": env.get("HTTP_RANGE")}
    if answer := case(env["PATH_INFO"], fields):
        start(f"{answer[0]} X", answer[1])
        return [answer[2] if env["REQUEST_METHOD"] != "HEAD" else b""]
    if env["PATH_INFO"].endswith("/parts"):
        start("200 OK", [("Content-Type", "text/plain"), ("Set-Cookie", "a=1"), ("Set-Cookie", "b=2")])
        return [b"part %d\n" % i for i in range(1000)]
    if env["PATH_INFO"].endswith("/bytes"):
        n = int(env["QUERY_STRING"])
        start("200 OK", [("Content-Length", str(n))])
        return [piece] * (n >> 16) + [piece[: n & 65535]]
    start("200 OK", [("Content-Type", "text/plain")])
    return [hashlib.sha256(body).hexdigest().encode(), b" ", env["HTTP_HOST"].encode(), b" ", env["QUERY_STRING"].encode()]

async def asgi(scope, receive, send):
    if scope["type"] != "http":
        return
    h, more = hashlib.sha256(), True
    while more:
        m = await receive()
        h.update(m.get("body", b""))
        more = m.get("more_body", False)
    host = dict(scope["headers"])[b"host"]
    if answer := case(scope["path"], {k.decode(): v.decode() for k, v in scope["headers"]}):
        fields = [(k.encode(), v.encode()) for k, v in answer[1]]
        await send({"type": "http.response.start", "status": answer[0], "headers": fields})
        await send({"type": "http.response.body", "body": answer[2]})
        return
    if scope["path"].endswith("/parts"):
        await send({"type": "http.response.start", "status": 200, "headers": [(b"set-cookie", b"a=1"), (b"set-cookie", b"b=2")]})
        for i in range(1000):
            await send({"type": "http.response.body", "body": b"part %d\n" % i, "more_body": True})
        await send({"type": "http.response.body"})
        return
    if scope["path"].endswith("/bytes"):
        n = int(scope["query_string"])
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", str(n).encode())]})
        for _ in range(n >> 16):
            await send({"type": "http.response.body", "body": piece, "more_body": True})
        await send({"type": "http.response.body", "body": piece[: n & 65535]})
        return
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-type", b"text/plain")]})
    await send({"type": "http.response.body", "body": h.hexdigest().encode() + b" " + host + b" " + scope["query_string"]})
PY
cat >"$D/app.js" <<'JS'
const http = require('http'), crypto = require('crypto');
http.createServer((rq, rs) => {
	const h = crypto.createHash('sha256');
	rq.on('data', (d) => h.update(d));
	rq.on('end', () => {
		const [path, query] = rq.url.split('?'), name = path.split('/').pop();
		const say = (status, fields, body) => { rs.writeHead(status, fields); rs.end(body); };
		if (name === 'no-content') return say(204, { 'X-A': 'b' });
		if (name === 'moved') return say(302, { Location: '/elsewhere?y=%20' });
		if (name === 'cookies') return say(200, { 'Set-Cookie': ['a=1; Path=/', 'b=2; HttpOnly'] }, 'ok');
		if (name === 'fresh') {
			const same = rq.headers['if-none-match'] === '"v1"';
			return say(same ? 304 : 200, same ? { ETag: '"v1"' } : { ETag: '"v1"', 'Content-Length': 5 }, same ? undefined : 'fresh');
		}
		if (name === 'range') {
			const [first, last] = rq.headers.range.slice('bytes='.length).split('-').map(Number);
			const all = Buffer.alloc(65536);
			for (let i = 0; i < all.length; i++) all[i] = i & 255;
			return say(206, { 'Content-Range': `bytes ${first}-${last}/${all.length}` }, all.subarray(first, last + 1));
		}
		if (path.endsWith('/parts')) {
			rs.setHeader('Set-Cookie', ['a=1', 'b=2']);
			for (let i = 0; i < 1000; i++) rs.write(`part ${i}\n`);
			rs.end();
		} else if (path.endsWith('/bytes')) {
			const n = Number(query), all = Buffer.alloc(n);
			for (let i = 0; i < n; i++) all[i] = i & 255;
			rs.setHeader('Content-Length', n);
			rs.end(all);
		} else {
			rs.end(`${h.digest('hex')} ${rq.headers.host} ${query || ''}`);
		}
	});
}).listen(8004, '127.0.0.1');
JS
cat >"$D/nginx.conf" <<CONF
daemon off; worker_processes 1; pid $D/nginx.pid; error_log $D/nginx.err;
events { worker_connections 1024; }
http { access_log off; client_body_temp_path $D/nb; proxy_temp_path $D/np; fastcgi_temp_path $D/nf; uwsgi_temp_path $D/nu;
	scgi_temp_path $D/ns; server { listen 127.0.0.1:8001; root $D/www; location /nginx/ { alias $D/www/; autoindex on; dav_methods PUT; client_max_body_size 64m; }
	location = /nginx/no-content { add_header X-A b; return 204; }
	location = /nginx/moved { absolute_redirect off; return 302 /elsewhere?y=%20; }
	location = /nginx/cookies { add_header Set-Cookie "a=1; Path=/"; add_header Set-Cookie "b=2; HttpOnly"; return 200 ok; } } }
CONF
cat >"$D/apache.conf" <<CONF
ServerName apache.test
Listen 127.0.0.1:8002
PidFile $D/apache.pid
ErrorLog $D/apache.err
DefaultRuntimeDir $D
LoadModule mpm_event_module /usr/lib/apache2/modules/mod_mpm_event.so
LoadModule authz_core_module /usr/lib/apache2/modules/mod_authz_core.so
LoadModule alias_module /usr/lib/apache2/modules/mod_alias.so
LoadModule dir_module /usr/lib/apache2/modules/mod_dir.so
LoadModule headers_module /usr/lib/apache2/modules/mod_headers.so
LoadModule dav_module /usr/lib/apache2/modules/mod_dav.so
LoadModule dav_fs_module /usr/lib/apache2/modules/mod_dav_fs.so
DavLockDB $D/put.lock
Redirect 204 /apache/no-content
Redirect 302 /apache/moved /elsewhere?y=%20
<Location /apache/no-content>
	Header always set X-A b
</Location>
<Location /apache/cookies>
	Header add Set-Cookie "a=1; Path=/"
	Header add Set-Cookie "b=2; HttpOnly"
</Location>
Alias /apache $D/www
<Directory $D/www>
	Require all granted
</Directory>
<Directory $D/www/put>
	Dav On
</Directory>
CONF

serve() {
	local name=$1 port=$2
	shift 2
	nsenter --net="/run/netns/$G" --wdns="$D" "$@" >"$D/$name.out" 2>&1 </dev/null &
	pid_of[$name]=$!
	within 30 gw bash -c "exec 3<>/dev/tcp/127.0.0.1/$port" 2>/dev/null || { cp "$D/$name.out" "$D/out"; say_failed "$name does not start"; }
}
serve nginx 8001 nginx -c "$D/nginx.conf"
serve apache 8002 apache2 -D FOREGROUND -f "$D/apache.conf"
mkdir "$D/python" && ln -s ../www "$D/python/python"
serve python 8003 /usr/bin/python3 -m http.server -d "$D/python" --bind 127.0.0.1 8003
serve node 8004 node "$D/app.js"
serve gunicorn 8005 gunicorn -k gthread --threads 8 --chdir "$D" -b 127.0.0.1:8005 app:wsgi
serve uvicorn 8006 uvicorn --app-dir "$D" --host 127.0.0.1 --port 8006 app:asgi

# Their pools and routes, for the configuration: /NAME goes to the server of that name.
server_pools() {
	local s i=0
	for s in nginx apache python node gunicorn uvicorn; do
		i=$((i + 1))
		printf 'pool %s { backend a { endpoint = "http://127.0.0.1:800%d" } }\nroute "/%s" { pool = %s }\n' $s $i $s $s
	done
}
