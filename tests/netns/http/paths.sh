#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Paths that a backend may read in another way than the routes do: passed on where all readings lead to one route, refused,
# made plain, or left as they are.
. "$(dirname "$0")/../lib.sh"

arena
backend echo echo
config() {
	gateway_config <<EOC
interface $GIF { }
listener v4 { address = "$V4" port = 8080 }
pool echo { batch { max_latency = 10s } backend a { endpoint = "shm://$D/echo.sock" } }
route "/public" { respond { status = 200 body = "public" } }
route "/admin" { respond { status = 200 body = "admin" } }
route "/echo" { pool = echo }
route "/sent" { pool = echo strip_prefix = no }
route "/strict" { respond { status = 200 body = "strict" } request_path = refuse }
route "/%7Eme" { respond { status = 200 body = "me" } }
route "/ä" { respond { status = 200 body = "umlaut" } }
route "/" { respond { status = 200 body = "root" } }
$1
EOC
}
reload() { gw "$SLUICE" reload >"$D/said" && cat "$D/said" && within 30 eval '[ "$(grep -c "reload: in force" "$D/gw.log")" -eq '"$1"' ]'; }
# says WANT PATH [CURL-OPTION...]: the body, or the status where it is no 200
says() {
	local want=$1 path=$2 got
	shift 2
	got=$(cl curl -sS --path-as-is --max-time 10 -w '\n%{http_code}' "$@" "http://$V4:8080$path")
	case $got in
	*$'\n200') got=${got%$'\n'*} ;;
	*) got=${got##*$'\n'} ;;
	esac
	echo "$path: found $got, expected $want"
	[ "$got" = "$want" ]
}
devious='/public/../admin /public/%2e%2e/admin /public/.%2E/admin /public/./x //admin /public//x /%61dmin /public/..;/admin /public%2f..%2fadmin /public%5c..%5cadmin /.. /a%zz /a%'

# Where they lead out of the route that they name.
outside='/public/../admin /public/%2e%2e/admin /public/.%2E/admin //admin /%61dmin/../public /public/..;/admin /public%2f..%2fadmin /public%5c..%5cadmin /.. /public/../.. /a%zz /a% /a%00 /admin%2f..%2fpublic /.//admin /public%2fx /strict//x /echo/x/../y /%ff%fe/../admin'

config ''
gateway_start
for how in --http1.1 --http2-prior-knowledge; do
	check "$how: plain paths" eval "says public /public $how && says public /public/a.b/c..d/ $how && says admin /admin/%20%C3%A4 $how && says root /publicx $how && says public '/public?x=/../admin' $how"
	for path in $outside; do
		check "$how: $path is refused" says 400 "$path" $how
	done
	for path in /public/./x /public//x /public/a%2fb /public/x/../y /public/x%5Cy /%70ublic '/public/"<>' /public/ä; do
		check "$how: $path stays within its route" says public "$path" $how
	done
	check "$how: letters that are encoded" eval "says admin /%61dmin $how && says me /~me/x $how && says me /%7eme $how && says umlaut /%C3%A4 $how && says umlaut /ä/x $how"
	for path in '/sent/@a%2fb' /sent/./Packages /sent//x /sent/%7Eu/%41 '/sent/"<>' '/sent/x/../y'; do
		check "$how: $path reaches the backend as it was sent" eval "cl curl -sS --path-as-is --max-time 10 $how 'http://$V4:8080$path' | grep -qF '$path'"
	done
	check "$how: and what is behind a prefix" eval "cl curl -sS --path-as-is --max-time 10 $how 'http://$V4:8080/%65cho//a%2fb' | grep -qF ' //a%2fb'"
done
# curl encodes such bytes.
check_py "bytes of UTF-8 are passed on as they are, others refused" <<'PY'
from raw import *
for target, status in ((b"/sent/\xc3\xa4?\xe4\"<>", 200), (b"/sent/\xe4", 400), (b"/sent/\xc0\xaf", 400)):
    r = ask(b"GET " + target + b" HTTP/1.1\r\nHost: a\r\n\r\n")
    expect(repr(target), (r.status, target in r.body), (status, status == 200))
PY
check "with a body" says 400 /echo/../admin --http1.1 -d body
check "and then a plain one on the same connection" eval 'cl curl -sS --path-as-is --max-time 10 --http1.1 "http://$V4:8080/public/../admin" "http://$V4:8080/admin" | grep -q admin$'
check "they are counted" eval '[ "$(metric "sluice_exchanges_total{worker=\"0\",outcome=\"path\"}")" -eq 42 ]'

config 'request_path = refuse'
check "reload" reload 1
for how in --http1.1 --http2-prior-knowledge; do
	check "$how: plain paths" eval "says public /public $how && says admin /admin/%20%C3%A4 $how && says root /publicx $how"
	for path in $devious; do
		check "$how: $path is refused" says 400 "$path" $how
	done
done

config 'request_path = normalise'
check "reload" reload 2
for how in --http1.1 --http2-prior-knowledge; do
	for path in /public/../admin /public/%2e%2e/admin /public/.%2E/admin //admin /%61dmin /./admin; do
		check "$how: $path is /admin" says admin "$path" $how
	done
	check "$how: what cannot be made plain" eval "says 400 '/public/..;/admin' $how && says 400 /public%2f..%2fadmin $how && says 400 /.. $how && says 400 /a%zz $how"
done

config 'request_path = raw'
check "reload" reload 3
check "as they are" eval 'says public /public/../admin && says root /public%2f..%2fadmin && says root //admin && says admin /%61dmin && says root /a%zz'
finish
