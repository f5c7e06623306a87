#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Redirects: what the client asked for goes into where it is sent, and nothing that would lead it astray.
. "$(dirname "$0")/../lib.sh"

arena
gateway_config <<EOC
interface $GIF { }
listener v4 { address = "$V4" port = 8080 }
route "/" { redirect = "https://{host}{path}" }
route "/old" { redirect = "http://new.example/at{path}" respond { status = 301 } }
route "/" { host = {"fixed.example"} redirect = "https://other.example/" respond { status = 302 } }
EOC
gateway_start
# leads WANT PATH [CURL-OPTION...]: status and Location
leads() {
	local want=$1 path=$2 got
	shift 2
	got=$(cl curl -sS --path-as-is --max-time 10 -o /dev/null -w '%{http_code} %header{location}' "$@" "http://$V4:8080$path")
	echo "$path: found $got, expected $want"
	[ "$got" = "$want" ]
}
for how in --http1.1 --http2-prior-knowledge; do
	check "$how: with its path and query" leads '308 https://a.example/x/y?q=1&r=%20' '/x/y?q=1&r=%20' $how -H 'Host: a.example'
	check "$how: without the port" leads '308 https://a.example/' / $how -H 'Host: a.example:8080'
	check "$how: an address of IPv6" leads '308 https://[2001:db8::1]/' / $how -H 'Host: [2001:db8::1]:8080'
	check "$how: another status, another host" leads '301 http://new.example/at/old/x' /old/x $how -H 'Host: a.example'
	check "$how: by host" leads '302 https://other.example/' /x $how -H 'Host: fixed.example'
	check "$how: HEAD" leads '308 https://a.example/h' /h $how -H 'Host: a.example' -I
done
check "a POST with a body" leads "308 https://a.example/up" /up --http1.1 -H "Host: a.example" -d body
check "no host, no place to lead to" leads '400 ' / --http1.0 -H 'Host:'
check "they are counted" eval '[ "$(metric "sluice_exchanges_total{worker=\"0\",outcome=\"host\"}")" -eq 1 ]'
# refused FILE WANT: what the check of a configuration says
refused() {
	printf '%s\n' "interface $GIF { }" "listener v4 { address = \"$V4\" port = 8080 }" "$1" >"$D/bad.conf"
	"$SLUICE" check -c "$D/bad.conf" >"$D/said" 2>&1 && return 1
	cat "$D/said"
	grep -qF -- "$2" "$D/said"
}
check "a redirect that a path could bend" refused 'route "/" { redirect = "{path}" }' 'allowed: a text that begins with http:// or https://'
check "an unknown part" refused 'route "/" { redirect = "https://{method}/" }' 'allowed: a text that begins with'
check "a status that leads nowhere" refused 'route "/" { redirect = "https://a/" respond { status = 304 } }' 'allowed: 301, 302, 303, 307 or 308'
check "with a pool" refused 'pool p { backend a { endpoint = "shm:///run/x.sock" } } route "/" { redirect = "https://a/" pool = p }' 'allowed: one of pool, respond and redirect'
finish
