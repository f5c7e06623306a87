#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# run.sh debian13 | arm64: builds in a chroot of Debian 13 and runs tests there. The last line counts them.
#   debian13  gcc 14 without a warning, as packagers build; install; unit, stack and bpf tests
#   arm64     cross build with OpenSSL's ciphers without a warning; unit tests in qemu-user
set -u
here=$(cd "$(dirname "$0")" && pwd -P)
layer=${1:?usage: run.sh debian13 | arm64}
log=$(mktemp) || exit 1
trap 'rm -f "$log"' EXIT
passed=0 failed=0
jobs=$(nproc)

# Unit programs that depend on the processor: atomics, layouts, alignment, signs of char, other libraries. The other rooms
# are plain C above these; compiling them for arm64 is their test.
FOR_ARM64='base|batch|config|http|rpc|sdk|tools|wire|worker|xio|front/test_tls_record|front/test_http1_parse|front/test_h2_frames'

# Programs of these that fail in qemu-user 10 or take too long there, and why.
cannot_be_emulated() {
	cat <<-'END'
		rpc/test_arq       passes, and takes 100 s of processor time: integers in a simulation, no atomics
		sdk/test_datagram  getsockopt(IP_MTU) gives ENOPROTOOPT
		sdk/test_share     a second of real time, in which a client must read, passes within a test
	END
}

in_chroot() { "$here/chroot.sh" run "$layer" "$1"; }

# check TEXT COMMAND: one test, a command in the chroot.
check() {
	local start=$SECONDS
	if in_chroot "$2" >"$log" 2>&1; then
		passed=$((passed + 1))
		printf 'ok   %-48s %3ds\n' "$1" $((SECONDS - start))
	else
		failed=$((failed + 1))
		printf 'FAIL %-48s %3ds\n' "$1" $((SECONDS - start))
		grep -vE '^  (CC|AR|LD|BPF) ' "$log" | tail -n 40 | sed 's/^/     | /'
	fi
}

# programs TEXT COMMAND: prints what it says, and adds up its lines of counts.
programs() {
	local p f status start=$SECONDS
	in_chroot "$2" 2>&1 | tee "$log" | grep -vE '^  (CC|AR|LD|BPF) '
	status=${PIPESTATUS[0]}
	read -r p f < <(sed -nE 's/^.*: ([0-9]+) passed, ([0-9]+) failed, .* skipped$/\1 \2/p' "$log" |
		awk -v status="$status" '{ p += $1; f += $2; n++ } END { print p + 0, f ? f : status != 0 || !n }')
	echo "$1: $p passed, $f failed, $((SECONDS - start)) s"
	passed=$((passed + p)) failed=$((failed + f))
}

end() {
	echo "$layer: $passed passed, $failed failed, 0 skipped"
	[ $failed -eq 0 ]
	exit
}

start=$SECONDS
"$here/chroot.sh" make >/dev/null || { failed=1; end; }
echo "chroot: $((SECONDS - start)) s"

# A packager's flags, which must neither be lost nor replace ours.
common="-j$jobs BUILD=/out DEV=1 CFLAGS='-O1 -g1 -Werror' CPPFLAGS=-DPACKAGER=1 LDFLAGS=-Wl,--build-id=sha1"
case $layer in
debian13)
	check "builds with gcc 14 and no warning" "make $common all netns-tools"
	check "is hardened, whatever the packager's flags" "tests/support/hardening.sh /out/sluice"
	check "contains no path of the build" '! grep -F /sluice-source /out/sluice /out/sluice.bpf.o /out/libsluice-backend.so'
	check "installs, and runs from there" "make $common install DESTDIR=/tmp/root && /tmp/root/usr/sbin/sluice version &&
		python3 -c 'import sys; sys.path.insert(0, \"/tmp/root/usr/lib/python3/dist-packages\"); import sluice'"
	programs "unit, stack, bpf" "make $common -k test-unit test-stack test-bpf"
	;;
arm64)
	common="$common CC=aarch64-linux-gnu-gcc AR=aarch64-linux-gnu-ar SLUICE_HOST=/other/debian13/sluice"
	"$here/chroot.sh" run debian13 "make -j$jobs BUILD=/out DEV=1 CFLAGS='-O1 -g1 -Werror' CPPFLAGS=-DPACKAGER=1 \
		LDFLAGS=-Wl,--build-id=sha1 /out/sluice" >"$log" 2>&1 || { cat "$log"; failed=1; end; }
	check "is built across, with no warning" "make $common all"
	check "runs, with OpenSSL for records of TLS" "qemu-aarch64 /out/sluice version && qemu-aarch64 /out/sluice doctor | grep 'protected by OpenSSL'"
	check "a worker's last look is ordered after it arms" \
		"aarch64-linux-gnu-objdump -d --disassemble=sl_handover_arm /out/obj/user/net/handover.o | grep -w dmb"
	mapfile -t tests < <(cd "$here/../unit" && ls -- */test_*.c | sed 's/\.c$//' | grep -E "^($FOR_ARM64)" |
		grep -vxFf <(cannot_be_emulated | awk '{ print $1 }'))
	bins=${tests[*]/#//out/tests/unit/}
	check "builds unit tests" "make $common $bins"
	programs unit "SL_TEST_RUNNER=qemu-aarch64 tests/support/run_bins.sh unit $bins"
	;;
*)
	echo "run.sh: found $layer; allowed: debian13, arm64"
	exit 2
	;;
esac
end
