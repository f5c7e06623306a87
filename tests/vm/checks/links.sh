#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# kernel: stable
# timeout: 300
# Bonds, active-backup and 802.3ad: the gateway refuses them and names their members. On the members it serves, and a
# connection goes on while the active member loses its carrier, a member leaves, and a member comes back. Tags of VLANs that
# this kernel does not show are warned of by doctor and log; with the offload off they are served.
set -euo pipefail
dir=$(mktemp -d)
chmod 755 "$dir"
pid=

clean_up() {
    [ -z "$pid" ] || kill -KILL "$pid" 2> /dev/null || true
    ip netns delete gw 2> /dev/null || true
    ip netns delete cl 2> /dev/null || true
    rm -rf "$dir"
}
trap clean_up EXIT

fail() {
    tail -n 10 "$dir"/*.log
    gw curl -s -m 5 http://127.0.0.1:9900/metrics | grep -E '^sluice_[a-z_]*(reset|rst|drop|closed|evict|nexthop|resend)[^ ]* [1-9]' || true
    echo "links: $*"
    exit 1
}

# within SECONDS COMMAND...
within() {
    local end=$((SECONDS + $1))
    shift
    until "$@"; do [ "$SECONDS" -lt "$end" ] || return 1; sleep 0.3; done
}
gw() { nsenter --net=/run/netns/gw "$@"; }
cl() { nsenter --net=/run/netns/cl "$@"; }
sluice() { gw "$BUILD/sluice" "$@"; }

# s0 and s1 are in bond0, active-backup; s2 and s3 in bond1, 802.3ad. p0 to p3 are the other ends.
modprobe -a bonding bridge veth 8021q
ip netns add gw
ip netns add cl
{
    echo "link add bond0 type bond mode active-backup miimon 100"
    echo "link add bond1 type bond mode 802.3ad miimon 100 lacp_rate fast"
    for i in 0 1 2 3; do
        echo "link add s$i type veth peer name p$i netns cl"
        echo "link set s$i master bond$((i / 2))"
    done
    echo "link add tagged type veth peer name tags netns cl"
    printf 'link set %s up\n' lo s0 s1 s2 s3 bond0 bond1 tagged
    echo "addr add 10.99.0.1/24 dev bond0"
    echo "addr add 10.99.1.1/24 dev bond1"
    echo "link add link tagged name tagged.100 type vlan id 100"
    echo "link set tagged.100 up"
    echo "addr add 10.99.2.1/24 dev tagged.100"
} | ip -n gw -batch -
{
    echo "link add br0 type bridge"
    echo "link add bond1 type bond mode 802.3ad miimon 100 lacp_rate fast"
    printf 'link set %s master br0\n' p0 p1
    printf 'link set %s master bond1\n' p2 p3
    printf 'link set %s up\n' p0 p1 p2 p3 br0 bond1 tags
    echo "addr add 10.99.0.2/24 dev br0"
    echo "addr add 10.99.1.2/24 dev bond1"
    echo "link add link tags name tags.100 type vlan id 100"
    echo "link set tags.100 up"
    echo "addr add 10.99.2.2/24 dev tags.100"
} | ip -n cl -batch -

# config INTERFACE...
config() {
    printf 'user = root\nadmin { address = "127.0.0.1" port = 9900 }\n'
    printf 'interface %s\n' "$@"
    printf 'listener l { port = 8080 local = no }\nroute "/" { respond { status = 200 body = "hello\\n" } }\n'
}

for bond in bond0 bond1; do
    config "$bond {}" > "$dir/gw.conf"
    ! sluice run -c "$dir/gw.conf" > "$dir/gw.log" 2>&1 || fail "serves $bond"
    grep -q "interface $bond is a bond.*serve its members instead: s[02], s[13]" "$dir/gw.log" ||
        fail "the refusal of $bond does not name its members"
done
sluice doctor bond1 > "$dir/doctor.log" || true # the bond is a fault
grep -q "a bond, on whose queues no packet arrives; serve its members: s2, s3" "$dir/doctor.log" || fail "doctor has no members"

config "s0 {}" "s1 {}" "s2 {}" "s3 {}" "tagged { vlan = 100 }" > "$dir/gw.conf"
hidden="interface tagged: vlan = 100, but the interface strips VLAN tags"
sluice doctor tagged > "$dir/doctor.log" || true
grep -q "rxvlan is on" "$dir/doctor.log" || fail "doctor does not warn of hidden tags"
nsenter --net=/run/netns/gw "$BUILD/sluice" run -c "$dir/gw.conf" > "$dir/gw.log" 2>&1 &
pid=$!
within 60 grep -q '^ready$' "$dir/gw.log" || fail "not ready"
grep -q "$hidden.*ethtool -K tagged rxvlan off" "$dir/gw.log" || fail "the log does not warn of hidden tags"

cat > "$dir/keep.py" << 'END'
"""Requests on one connection to each address, until told to end; their numbers are in files."""
import http.client, os, sys, threading, time
folder = sys.argv[1]

def keep(address):
    c, n = http.client.HTTPConnection(address, 8080, timeout=100), 0
    while not os.path.exists(folder + "/end"):
        c.request("GET", "/")
        assert c.getresponse().read() == b"hello\n" and (n == 0 or c.sock is first)
        first, n = c.sock, n + 1
        with open(folder + "/new." + address, "w") as f:
            f.write(str(n))
        os.rename(folder + "/new." + address, folder + "/count." + address)
        time.sleep(0.1)
    with open(folder + "/kept." + address, "w"):
        pass

for a in sys.argv[2:]:
    threading.Thread(target=keep, args=(a,)).start()
END

count() { cat "$dir/count.$1" 2> /dev/null || echo 0; }
reaches() { [ "$(count "$1")" -ge "$2" ]; }
# goes_on ADDRESS TEXT
goes_on() {
    local more
    more=$(($(count "$1") + 3))
    within 60 reaches "$1" "$more" || fail "$1: no replies $2"
}
uses() { gw grep -q "Currently Active Slave: $1" /proc/net/bonding/bond0; }
# Both ends of so many members are in the aggregate: collecting and distributing.
aggregated() { [ "$(gw cat /proc/net/bonding/bond1 | grep -c 'port state: 6[13]')" -eq "$1" ]; }

within 60 aggregated 4 || fail "802.3ad does not aggregate: $(gw cat /proc/net/bonding/bond1)"
nsenter --net=/run/netns/cl /usr/bin/python3 "$dir/keep.py" "$dir" 10.99.0.1 10.99.1.1 > "$dir/keep.log" 2>&1 &
keep=$!
goes_on 10.99.0.1 "on the members of bond0"
goes_on 10.99.1.1 "on the members of bond1"

active=1
if uses s0; then active=0; fi
other=$((1 - active))
ip -n cl link set "p$active" down
ip -n cl link set p2 down
within 30 uses "s$other" || fail "the bond has not failed over"
goes_on 10.99.0.1 "when the active member has lost its carrier"
goes_on 10.99.1.1 "when a member has lost its carrier"
ip -n cl link set "p$active" up
ip -n cl link set p2 up
ip -n gw link set "s$other" nomaster
within 30 uses "s$active" || fail "the bond has not gone back to s$active"
within 60 aggregated 4 || fail "the member is not aggregated again"
ip -n gw link set s3 nomaster
goes_on 10.99.0.1 "when a member has left"
goes_on 10.99.1.1 "when a member has left"
touch "$dir/end"
wait "$keep" || fail "the client"
[ -e "$dir/kept.10.99.0.1" ] && [ -e "$dir/kept.10.99.1.1" ] || fail "a connection has ended"

# A veth has no tags of its own: it hands over what its other end has not written into the packet.
asks() { cl curl -s --max-time "$1" http://10.99.2.1:8080/ > "$dir/asked.log"; }
! asks 2 || fail "a packet is served whose tag is out of band"
gw ethtool -K tagged rxvlan off
cl ethtool -K tags txvlan off
within 30 asks 5 || fail "no reply by VLAN 100"
sluice doctor tagged > "$dir/doctor.log" || true
! grep -q "rxvlan is on" "$dir/doctor.log" || fail "doctor warns although rxvlan is off"
kill "$pid"
wait "$pid" || fail "the gateway ended with status $?"
pid=
