#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# What the README says under "Put it in front of a server you have" works as it stands there, but for the interface's name
# and the account, which is of those that this machine has.
. "$(dirname "$0")/../lib.sh"

arena
mkdir "$D/www" && echo 'a server you have' >"$D/www/index.html" && chmod -R a+rX "$D/www"
gw /usr/bin/python3 -m http.server -d "$D/www" --bind 127.0.0.1 8000 >"$D/server.log" 2>&1 </dev/null &
pid_of[server]=$!
within 30 gw bash -c 'exec 3<>/dev/tcp/127.0.0.1/8000' 2>/dev/null || say_failed "the server does not start"
sed -n '/^## Put it in front/,/^## /p' "$here/../../README.md" | sed -n '/^```sh$/,/^```$/p' | grep -v '^```' >"$D/commands"
check "there are two commands" [ "$(grep -c '\.conf' "$D/commands")" = 2 -a "$(grep -c '^sudo sluice run -c app.conf$' "$D/commands")" = 1 ]
sed -i "s/\"eth0\"/\"$GIF\"/; s/^sudo sluice/exec \"\$SLUICE\"/; /^exec/i echo 'user = $RUN_AS' >>app.conf" "$D/commands"
export SLUICE
: >"$D/gw.log"
nsenter --net="/run/netns/$G" --wdns="$D" bash "$D/commands" >"$D/gw.log" 2>&1 </dev/null &
gateway_pid=$!
within 30 is_ready
says() { cat "$D/gw.log"; grep -q '^ready$' "$D/gw.log"; }
check "the gateway starts" says
baseline=$(stat_sum frames_free)
served() { [ "$(cl curl -sS -m 10 "http://$V4/")" = 'a server you have' ]; }
check "and the server is behind it" within 20 served
finish
