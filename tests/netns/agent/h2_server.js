// SPDX-License-Identifier: Apache-2.0
// A stock server of HTTP/2 without TLS for the agent's tests: node h2_server.js PORT-OR-PATH
//
//   /head     says what it was asked, a line for each field in order
//   /sum      the sha256 of the body
//   /bytes?N  so many bytes
//   /slow?MS  answers after a while
//   /most     how many of those there were at a time, at the most, and how many connections
const http2 = require('http2'), crypto = require('crypto'), fs = require('fs');
const at = process.argv[2];
const server = http2.createServer();
let slow = 0, mostSlow = 0, conns = 0;
server.on('session', () => conns++);
server.on('stream', (stream, headers, flags, raw) => {
	const [path, query] = headers[':path'].split('?');
	const sum = crypto.createHash('sha256');
	stream.on('data', (d) => sum.update(d));
	const say = (body) => {
		stream.respond({ ':status': 200, 'content-length': Buffer.byteLength(body) });
		stream.end(body);
	};
	stream.on('end', () => {
		let body = 'no such path: ' + path;
		if (path === '/slow') {
			mostSlow = Math.max(mostSlow, ++slow);
			setTimeout(() => { slow--; say('slow'); }, Number(query));
			return;
		}
		if (path === '/most') {
			body = `${mostSlow} ${conns}`;
		} else if (path === '/head') {
			body = '';
			for (let i = 0; i < raw.length; i += 2) body += `${raw[i]}: ${raw[i + 1]}\n`;
		} else if (path === '/sum') {
			body = sum.digest('hex');
		} else if (path === '/bytes') {
			body = Buffer.alloc(Number(query), '0123456789abcdef');
		}
		say(body);
	});
});
server.listen(isNaN(at) ? at : { port: Number(at), host: '127.0.0.1' }, () => {
	if (isNaN(at)) fs.chmodSync(at, 0o666);
	console.log('listening');
});
