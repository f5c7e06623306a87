#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Makes the root file system of a Debian machine with systemd, once, and prints the path of its image.
#
#   image.sh bookworm    build/vm/image/bookworm-HASH.ext4; HASH is that of this script and of vendor/image-packages.txt
#
# Guests mount it read-only under an overlay. Remove build/vm/image to get the archive's present packages.
set -euo pipefail

here=$(cd "$(dirname "$0")" && pwd -P)
repo=$(cd "$here/../.." && pwd -P)
cache=$repo/build/vm/image
suite=${1:?usage: image.sh bookworm}
list=$repo/vendor/image-packages.txt

die() { echo "image.sh: $*" >&2; exit 1; }

# The mirror that this machine already uses for Debian.
mirror() {
    # shellcheck disable=SC2016  # apt expands these
    apt-get indextargets --format '$(LABEL)|$(COMPONENT)|$(SITE)' 'Created-By: Packages' |
        awk -F'|' '$1 == "Debian" && $2 == "main" { print $3; exit }'
}

# Services that have nothing to do in a machine that lives for minutes; emulated, they take most of its start.
idle_units=(apt-daily.timer apt-daily-upgrade.timer dpkg-db-backup.timer e2scrub_all.timer e2scrub_reap.service fstrim.timer
            getty@tty1.service serial-getty@ttyS0.service logrotate.timer modprobe@.service systemd-timesyncd.service
            systemd-pcrphase.service systemd-pcrphase-sysinit.service systemd-update-utmp.service
            systemd-update-utmp-runlevel.service systemd-binfmt.service systemd-hwdb-update.service
            sys-kernel-debug.mount sys-kernel-tracing.mount systemd-remount-fs.service systemd-journal-flush.service
            systemd-networkd.service systemd-networkd.socket systemd-logind.service systemd-random-seed.service
            systemd-resolved.service apparmor.service)

make_tree() {
    local packages unit
    packages=$(sed -E 's/#.*//' "$list" | xargs | tr ' ' ',')
    # A tar, not a folder: in a folder a run that was cut short would leave mounts.
    mmdebstrap --quiet --mode=root --variant=minbase --include="$packages" \
        --aptopt='Acquire::Languages "none"' --dpkgopt='path-exclude=/usr/share/locale/*' \
        --dpkgopt='path-exclude=/usr/share/doc/*' --dpkgopt='path-exclude=/usr/share/man/*' \
        "$suite" "$work/root.tar" "$site" > "$work/log" 2>&1 || { tail -n 20 "$work/log" >&2; die "mmdebstrap failed"; }
    mkdir "$work/root"
    tar -C "$work/root" -xf "$work/root.tar" --exclude='./dev/*'
    rm -rf "$work"/root/var/lib/apt/lists/* "$work"/root/var/cache/apt/*.bin "$work/root/etc/machine-id"
    echo sluice-vm > "$work/root/etc/hostname"
    : > "$work/root/etc/fstab"
    echo uninitialized > "$work/root/etc/machine-id"
    mkdir -p "$work"/root/{host,rw} "$work/root/etc/systemd/system/multi-user.target.wants"
    for unit in "${idle_units[@]}"; do ln -sf /dev/null "$work/root/etc/systemd/system/$unit"; done
    cp "$here/guest/command.service" "$work/root/etc/systemd/system/"
    ln -s ../command.service "$work/root/etc/systemd/system/multi-user.target.wants/"
}

mkdir -p "$cache"
hash=$(cat "$0" "$list" "$here/guest/command.service" | sha256sum | cut -c 1-12)
image=$cache/$suite-$hash.ext4
# Two callers at once: one makes it, the other waits and then finds it there.
exec {lock}> "$cache/$suite.lock"
flock "$lock"
if [ ! -e "$image" ]; then
    echo "image.sh: making the image of $suite, once" >&2
    site=$(mirror)
    [ -n "$site" ] || die "no Debian mirror among this machine's apt sources: add one, run apt-get update, and try again"
    work=$(mktemp -d "$cache/work.XXXXXX")
    trap 'rm -rf --one-file-system "$work"' EXIT
    make_tree
    truncate -s 1G "$work/image"
    mke2fs -q -t ext4 -O ^has_journal -d "$work/root" "$work/image"
    find "$cache" -maxdepth 1 -name "$suite-*.ext4" -delete
    mv "$work/image" "$image"
fi
echo "$image"
