#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Paths that a backend may read in another way than the routes do: refused, made plain, or left as they are.
. "$(dirname "$0")/../lib.sh"

arena
backend echo echo
config() {
	gateway_config <<EOC
interface $GIF { }
listener v4 { address = "$V4" port = 8080 }
pool echo { batch { bound = 10s } backend a { endpoint = "shm://$D/echo.sock" } }
route "/public" { reply = 200 body = "public" }
route "/admin" { reply = 200 body = "admin" }
route "/echo" { pool = echo }
route "/" { reply = 200 body = "root" }
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

config ''
gateway_start
for how in --http1.1 --http2-prior-knowledge; do
	check "$how: plain paths" eval "says public /public $how && says public /public/a.b/c..d/ $how && says admin /admin/%20%C3%A4 $how && says root /publicx $how && says public '/public?x=/../admin' $how"
	for path in $devious; do
		check "$how: $path is refused" says 400 "$path" $how
	done
done
check "with a body" says 400 /echo/../admin --http1.1 -d body
check "and then a plain one on the same connection" eval 'cl curl -sS --path-as-is --max-time 10 --http1.1 "http://$V4:8080/public/../admin" "http://$V4:8080/admin" | grep -q admin$'
check "they are counted" eval '[ "$(metric "sluice_exchanges_total{worker=\"0\",outcome=\"path\"}")" -eq 28 ]'

config 'limits { path = normalise }'
check "reload" reload 1
for how in --http1.1 --http2-prior-knowledge; do
	for path in /public/../admin /public/%2e%2e/admin /public/.%2E/admin //admin /%61dmin /./admin; do
		check "$how: $path is /admin" says admin "$path" $how
	done
	check "$how: what cannot be made plain" eval "says 400 '/public/..;/admin' $how && says 400 /public%2f..%2fadmin $how && says 400 /.. $how && says 400 /a%zz $how"
done

config 'limits { path = raw }'
check "reload" reload 2
check "as they are" eval 'says public /public/../admin && says root /public%2f..%2fadmin && says root //admin && says root /%61dmin'
finish
