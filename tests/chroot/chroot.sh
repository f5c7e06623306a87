#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Debian 13 in a folder of its own, with what builds sluice for x86-64 and for arm64 (multiarch).
#
#   chroot.sh make              makes build/chroot/trixie unless it is there and current; prints its path
#   chroot.sh run OUT COMMAND   runs a shell command in it, as root, from the root of this repository
#
# In the chroot the repository is /sluice-source, read-only; /out is build/chroot/OUT, and /other/NAME is build/chroot/NAME.
# Mounts, /tmp, /run and processes are the command's own: they end with it. Needs root and mmdebstrap.
set -euo pipefail

here=$(cd "$(dirname "$0")" && pwd -P)
repo=$(cd "$here/../.." && pwd -P)
cache=$repo/build/chroot
root=$cache/trixie
list=$repo/vendor/packages.txt

die() { echo "chroot.sh: $*" >&2; exit 1; }

# The packages of the list's sections with these titles.
section() { sed -nE "/^# ($1)\$/,/^\$/{/^[a-z]/p}" "$list" | sed -E 's/[ #].*//'; }

# All names of the list, for whatever they are: each must exist in this release.
all_names() { sed -nE 's/^([a-z][^ ]*).*/\1/p' "$list"; }

# Besides building: the test framework, and what tests of unit, stack and bpf start.
native() {
	section 'Building|Libraries'
	printf '%s\n' check libsubunit-dev binutils ethtool iproute2 mount openssl procps util-linux xdp-tools
}
# libipsec-mb exists for x86-64 only; a compiler and an interpreter run here.
foreign() {
	section Libraries | grep -vxE 'libipsec-mb-dev|protobuf-c-compiler|python3-dev' | sed 's/$/:arm64/'
	printf '%s\n' libpython3-dev:arm64 check:arm64 libsubunit-dev:arm64 gcc-aarch64-linux-gnu qemu-user
}

# The mirror that this machine already uses for Debian, and the proxy on the way to it.
mirror() {
	# shellcheck disable=SC2016  # apt expands these
	apt-get indextargets --format '$(LABEL)|$(COMPONENT)|$(SITE)' 'Created-By: Packages' |
		awk -F'|' '$1 == "Debian" && $2 == "main" { print $3; exit }'
}
proxies() { apt-config dump --format '%f "%v";%n' Acquire | grep -iE '^Acquire::[a-z]+::proxy' || true; }

# Debian 13's archive is signed with keys of Debian 12 too. A mount namespace takes the mounts of an interrupted run with
# it, so that none is left to remove files through.
make_chroot() {
	local new=$root.new site missing keyring=/usr/share/keyrings/debian-archive-keyring.gpg
	site=$(mirror)
	[ -n "$site" ] || die "no Debian mirror among this machine's apt sources: add one, run apt-get update, and try again"
	[ -r $keyring ] || die "$keyring is missing: apt-get install debian-archive-keyring"
	command -v mmdebstrap >/dev/null || die "mmdebstrap is missing: run \`make deps\`"
	rm -rf --one-file-system "$new"
	proxies >"$cache/apt.conf"
	unshare --mount --propagation private mmdebstrap --quiet --mode=root --variant=apt --architectures=amd64,arm64 --keyring=$keyring \
		--aptopt="$cache/apt.conf" --aptopt='APT::Install-Recommends "false"' --aptopt='Acquire::Retries "3"' \
		--dpkgopt=force-unsafe-io --dpkgopt='path-exclude=/usr/share/man/*' --dpkgopt='path-exclude=/usr/share/doc/*' \
		--include="$( (native; foreign) | paste -sd,)" \
		--customize-hook="chroot \"\$1\" apt-cache pkgnames >'$cache/names'" \
		trixie "$new" "$site" >"$cache/log" 2>&1 || { tail -n 20 "$cache/log" >&2; die "trixie was not made"; }
	missing=$(all_names | sort -u | comm -23 - <(sort -u "$cache/names"))
	[ -z "$missing" ] || die "trixie has no" $missing
	echo "$wanted" >"$new/made-of"
	rm -rf --one-file-system "$root"
	mv "$new" "$root"
}

# Runs in a mount namespace of its own; the process that calls it ends with the command.
enter() {
	local out=$1 dir
	mount --bind "$root" "$root"
	mkdir -p "$root"/{sluice-source,out,other} "$cache/$out"
	mount --bind "$repo" "$root/sluice-source"
	mount -o remount,bind,ro "$root/sluice-source"
	mount --bind "$cache/$out" "$root/out"
	mount --bind "$cache" "$root/other"
	mount -t proc proc "$root/proc"
	for dir in sys dev; do mount --rbind "/$dir" "$root/$dir"; done
	for dir in tmp run; do mount -t tmpfs tmpfs "$root/$dir"; done
	cd "$root"
	pivot_root . .
	exec env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root LC_ALL=C.UTF-8 bash -c \
		"umount -l . && cd /sluice-source || exit; $2"
}

case ${1:-} in
make)
	wanted=$( (cat "$here/chroot.sh"; native; foreign; all_names) | sha256sum | cut -d' ' -f1)
	mkdir -p "$cache"
	# Two callers at once: one makes it, the other waits and then finds it.
	exec {lock}>"$cache/lock"
	flock "$lock"
	[ "$(cat "$root/made-of" 2>/dev/null)" = "$wanted" ] || make_chroot
	echo "$root"
	;;
run)
	[ $# -eq 3 ] || die "usage: chroot.sh run OUT COMMAND"
	"$0" make >/dev/null
	exec unshare --mount --pid --fork --kill-child --propagation private "$0" enter "$2" "$3"
	;;
enter) enter "$2" "$3" ;;
*) die "usage: chroot.sh make | run OUT COMMAND" ;;
esac
