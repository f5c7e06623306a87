#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# image: bookworm
# mem: 1536
# timeout: 900
# lane: 3
# The packages on a Debian 12 machine with systemd, from `apt install` to `apt purge`, as an operator uses them.
set -uo pipefail
debs=$BUILD/deb
D=$(mktemp -d)
conf=/etc/sluice/sluice.conf
address=192.0.2.1
export DEBIAN_FRONTEND=noninteractive

# --- what checks are made of ---

passed=0 failed=0
check() {
    local what=$1
    shift
    if "$@" > "$D/said" 2>&1 < /dev/null; then
        passed=$((passed + 1))
        echo "ok   $what (at $SECONDS s)"
    else
        failed=$((failed + 1))
        echo "FAIL $what (at $SECONDS s)"
        tail -n 25 "$D/said" | sed 's/^/     | /'
        journalctl --no-pager --output cat --lines 12 --unit sluice --unit sluice-agent@web --unit web | sed 's/^/     journal | /'
    fi
}
within() {
    local until=$((SECONDS + $1))
    shift
    until "$@"; do
        [ $SECONDS -lt $until ] || return 1
        sleep 0.3
    done
}
fails() { ! "$@"; }
client() { ip netns exec client "$@"; }
get() { client curl -s --max-time 10 "http://$address$1"; }
answers() { [ "$(get "$1" | tee /dev/stderr)" = "$2" ]; }
works() { get / | grep -q 'sluice works'; }
property() { systemctl show --property "$1" --value "${2:-sluice}"; }
logged() { journalctl --no-pager --output cat --unit sluice --since "@$since" | grep "$@"; }
mark() { since=$(date +%s); }
main_pid() { property MainPID; }
gateway_pid() { pgrep -u sluice -P "$(main_pid)" -o; }
install_debs() { apt-get install -y -q --no-install-recommends -o Dpkg::Options::=--force-confdef "$@"; }

interface_up() {
    ip netns add client
    ip link add lan0 type veth peer name eth0 netns client
    ip addr add $address/24 dev lan0
    ip -n client addr add 192.0.2.2/24 dev eth0
    ip -n client link set lo up
    ip -n client link set eth0 up
    ip link set lan0 up
}

# --- installing ---

# The commands of the README, line N of its block.
readme() { sed -n '/^## Install it/,/^## Run it/p' "$VM_REPO/README.md" | sed -n '/^```sh/,/^```$/p' | grep -v '^[#`]' | sed "$1!d; s/sudo //g"; }
run_readme() {
    local line
    line=$(readme "$1")
    [ -n "$line" ] && (cd "$debs" && eval "$line")
}
mark
check "README: apt installs the gateway" run_readme 1
check "apt installs the other packages" install_debs "$debs"/python3-sluice_*.deb "$debs"/libsluice-backend1_*.deb "$debs"/libsluice-client1_*.deb "$debs"/sluice-agent_*.deb
check "the service is enabled" systemctl is-enabled sluice
check "it has not failed" fails systemctl is-failed sluice
check "it is not started, as no interface is named" fails systemctl is-active sluice
check "and says so" logged "names no interface"
check "no demo program is installed" fails ls /usr/bin/sluice-echo /usr/bin/sluice-score
check "backends may listen in the runtime folder" test "$(stat -c '%U %a' /run/sluice)" = "sluice 755"
check "systemd finds the unit hardened enough" eval 'systemd-analyze security --threshold=35 --no-pager sluice'

# --- mistakes, and an interface that is late ---

sed -i 's/^#interface .*/interface "lan0" { }/' $conf
echo 'access_log { file = "/var/log/sluice/access.log" }' > /etc/sluice/conf.d/log.conf
echo 'liste { }' > /etc/sluice/conf.d/wrong.conf
mark
check "a start with a mistake fails" fails systemctl start sluice
check "its status says why in one line" eval 'property StatusText | tee /dev/stderr | grep -qE "^/etc/sluice/[a-z./]+:[0-9]+: found .*allowed: "'
rm /etc/sluice/conf.d/wrong.conf
mark
systemctl restart --no-block sluice
check "an interface that is not there yet is named" within 60 logged 'found no interface "lan0"'
check "the start is tried again, and again" within 60 eval 'property ActiveState; [ "$(property ActiveState)" != failed ] && [ "$(logged -c "found no interface")" -ge 3 ]'
interface_up
check "later it is there, and the service starts" within 120 systemctl is-active --quiet sluice
check "the first request is answered" within 20 works
check "README: run it as a service" run_readme 2
check "README: look at it" run_readme 3
check "the gateway runs as its account" eval '[ -n "$(gateway_pid)" ]'

# --- backends ---

cat > /usr/local/lib/upper.py << 'END'
import sluice

def handle(batch):
    for request in batch:
        request.reply(bytes(request.body).upper() or b"UPPER")

sluice.Backend("shm:///run/sluice/upper.sock", handle).run()
END
printf '%s\n' '[Service]' 'User=sluice' 'ExecStart=/usr/bin/python3 /usr/local/lib/upper.py' > /etc/systemd/system/upper.service
mkdir -p /srv/web /etc/sluice/agent
echo from-a-server > /srv/web/page
systemd-run --quiet --unit web --working-directory=/srv/web python3 -m http.server --bind 127.0.0.1 8000
echo 'OPTIONS=--listen shm:///run/sluice/web.sock --to http://127.0.0.1:8000' > /etc/sluice/agent/web
systemctl daemon-reload
systemctl start upper sluice-agent@web
check "an agent runs as a unit" systemctl is-active sluice-agent@web
cat > /etc/sluice/conf.d/pools.conf << 'END'
pool upper { backend a { endpoint = "shm:///run/sluice/upper.sock" } }
route "/upper" { pool = upper }
pool web { backend a { endpoint = "shm:///run/sluice/web.sock" } }
route "/page" { pool = web }
END
mark
check "reload" systemctl reload sluice
check "a backend that is a unit of its own answers" within 20 answers /upper UPPER
lists_page() { get /page | grep 'href="page"'; }
check "a server behind the agent's unit answers" within 20 lists_page
echo 'route "/x" { pool = nosuch }' > /etc/sluice/conf.d/wrong.conf
check "reload reports that it was refused" fails systemctl reload sluice
check "and why, in the log" within 30 logged "found pool = \"nosuch\""
check "the gateway serves on" answers /upper UPPER
rm /etc/sluice/conf.d/wrong.conf

# --- restarts and crashes ---

cat > "$D/load.py" << 'END'
# Connects and asks until told to end; prints how each request ended, and in how many stretches some failed.
import collections, os, socket, sys
ends, stretches, failing = collections.Counter(), 0, False
while not os.path.exists(sys.argv[2]):
    try:
        with socket.create_connection((sys.argv[1], 80), timeout=10) as s:
            s.sendall(b"GET /upper HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
            reply = b""
            while part := s.recv(4096):
                reply += part
        end = reply.split(b" ")[1].decode() if reply.startswith(b"HTTP/1.1 ") else "closed without reply"
    except OSError as e:
        end = type(e).__name__
    stretches += end != "200" and not failing
    failing = end != "200"
    ends[end] += 1
print(stretches, *(f"{n}x{end.replace(' ', '-')}" for end, n in sorted(ends.items())))
END
socket_of_backend=$(stat -c %i /run/sluice/upper.sock)
client python3 "$D/load.py" $address "$D/enough" > "$D/load" &
load=$!
sleep 2
mark
check "restart under load" timeout 60 systemctl restart sluice
check "it serves again" within 20 answers /upper UPPER
sleep 1
touch "$D/enough"
wait $load
echo "     requests beside the restart: stretches of failures, then counts: $(cat "$D/load")"
# A client sees the time without listener: connections refused or reset, and none that hangs or gets an error. The drain
# closes the connection whose request is still on its way when it begins: at most one, as the client has one at a time.
check "requests failed in one stretch at most, and only for want of a listener" eval 'cat "$D/load"; grep -qE "^[01] .*[0-9]+x200" "$D/load" && ! grep -qE "TimeoutError|timeout|x50[0-9]|([2-9]|[0-9][0-9])xclosed-without" "$D/load"'
before=$(main_pid)
kill -SEGV "$(gateway_pid)"
check "a gateway that crashes is started again by its supervisor" within 20 answers /upper UPPER
check "which is the same process" test "$(main_pid)" = "$before"
check "the log says of what it died" logged "died of signal 11"
check "the backend's socket is the same after restart and crash" test "$(stat -c %i /run/sluice/upper.sock)" = "$socket_of_backend"
mark
kill -KILL "$(main_pid)"
check "a supervisor that is killed is started again by systemd" within 30 answers /upper UPPER
check "and it is another process" test "$(main_pid)" != "$before"
echo 'pool gone { backend a { endpoint = "shm:///run/sluice/gone.sock" } } route "/gone" { pool = gone }' > /etc/sluice/conf.d/gone.conf
check "a start with a pool whose backend is missing does not hang" timeout 60 systemctl restart sluice
check "the other pools are served" within 20 answers /upper UPPER
check "the status names the pool" within 20 eval 'property StatusText | tee /dev/stderr | grep -q gone'
rm /etc/sluice/conf.d/gone.conf

# --- logs, upgrade, removal ---

works
check "the access log is written" within 10 test -s /var/log/sluice/access.log
logrotate -f /etc/logrotate.d/sluice
check "logrotate rotates it" test -s /var/log/sluice/access.log.1
written() { works && [ -s /var/log/sluice/access.log ]; }
check "the new file is written" within 20 written
check "and is the account's" test "$(stat -c %U:%G:%a /var/log/sluice/access.log)" = sluice:adm:640

next=$D/next
dpkg-deb -R "$debs"/sluice_*.deb "$next"
sed -i 's/^Version: .*/&+next/' "$next/DEBIAN/control"
echo '# a newer default' >> "$next/etc/sluice/sluice.conf"
dpkg-deb -b -Znone "$next" "$D/sluice_next.deb" > /dev/null
check "upgrade to the next version" install_debs "$D/sluice_next.deb"
check "it is installed" eval 'dpkg-query -W sluice | grep -q +next'
check "the configuration that was changed is kept" grep -q '^interface "lan0"' $conf
check "the new one lies beside it" test -e $conf.dpkg-dist
check "the service runs after it" within 20 answers /upper UPPER

check "the kernel has killed nothing for a system call" eval '! dmesg | grep "type=1326"'
check "the gateway refused none of its own system calls" eval '! journalctl --no-pager -o cat -u sluice | grep "refused system call"'

systemctl stop upper sluice-agent@web web
rm -rf /etc/systemd/system/upper.service /usr/local/lib/upper.py /etc/sluice/conf.d/*.conf /etc/sluice/agent/web
check "purge" apt-get purge -y -q sluice sluice-agent python3-sluice libsluice-backend1 libsluice-client1
left() { find / -xdev -name '*sluice*' -not -path '/tmp/*' -not -path '/sys/*' -not -path '/host/*'; ls -d /run/sluice /sys/fs/bpf/sluice; getent passwd sluice; } 2> /dev/null
check "nothing is left of it" eval 'left; [ -z "$(left)" ]'
check "no program is left on the interface" eval 'ip link show lan0 | tee /dev/stderr | grep -vq xdp && ! ip link show lan0 | grep -q xdp'

ip link del lan0
ip netns del client
rm -rf "$D"
echo "service: $passed passed, $failed failed"
[ $failed -eq 0 ]
