#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Puts a stock Debian kernel under build/vm/kernel/NAME, ready to boot. It is unpacked there, never installed.
#
#   kernel.sh stable|newer      prints the directory, which then holds
#       version                 what uname -r will say
#       vmlinux                 uncompressed: entered directly (PVH), which spares seconds of emulated firmware and unpacking
#       lib/modules/VERSION     all its modules, with modules.dep
#       initrd                  busybox, guest/init and the few modules that reach the root file system
#
# A kernel stays as it was first fetched; remove its directory to get the archive's present one.
set -euo pipefail

here=$(cd "$(dirname "$0")" && pwd -P)
cache=$(cd "$here/../.." && pwd -P)/build/vm
arch=$(dpkg --print-architecture)
# Modules between the kernel and its root; modprobe loads the others once that root is there.
boot_modules=(virtio_pci 9pnet_virtio 9p overlay)
# The same for a root that is an image.
image_modules=(virtio_blk ext4)

die() { echo "kernel.sh: $*" >&2; exit 1; }

# The suites are named here rather than taken from the machine, so that a check means the same kernel everywhere.
suite_of() {
    case $1 in
        stable) echo bookworm ;;
        newer)  echo trixie-backports ;;
        *)      die "unknown kernel '$1': expected stable or newer" ;;
    esac
}

# The mirror that this machine already uses for Debian, whichever that is.
mirror() {
    # shellcheck disable=SC2016  # apt expands these
    apt-get indextargets --format '$(LABEL)|$(COMPONENT)|$(SITE)' 'Created-By: Packages' |
        awk -F'|' '$1 == "Debian" && $2 == "main" { print $3; exit }'
}

# apt with sources, lists and cache of its own: the machine's stay as they are.
setup_apt() {
    local suite=$1 dir=$2 site keyring=/usr/share/keyrings/debian-archive-keyring.gpg
    site=$(mirror)
    [ -n "$site" ] || die "no Debian mirror among this machine's apt sources: add one, run apt-get update, and try again"
    [ -r "$keyring" ] || die "$keyring is missing: apt-get install debian-archive-keyring"
    mkdir -p "$dir/lists/partial" "$dir/cache/archives/partial"
    echo "deb [signed-by=$keyring] $site $suite main" > "$dir/sources.list"
    apt_options=(-o "Dir::Etc::SourceList=$dir/sources.list" -o Dir::Etc::SourceParts=/dev/null
                 -o "Dir::State::Lists=$dir/lists" -o "Dir::Cache=$dir/cache" -o APT::Sandbox::User=root
                 -o APT::Architectures::="$arch" -o Acquire::Languages=none -o Acquire::Retries=3)
}

depends_of() { apt-cache "${apt_options[@]}" depends "$1" | sed -n 's/^ *Depends: //p'; }

# The boot protocol's header (Linux: Documentation/arch/x86/boot.rst) says where in the image the compressed kernel is:
# number of 512-byte setup sectors at 0x1f1, offset and length of the payload at 0x248 and 0x24c. Its last 4 bytes are a size.
unpack_kernel() {
    local image=$1 sectors offset length
    sectors=$(od -An -tu1 -j $((0x1f1)) -N 1 "$image")
    offset=$(od -An -tu4 -j $((0x248)) -N 4 "$image")
    length=$(od -An -tu4 -j $((0x24c)) -N 4 "$image")
    dd if="$image" of="$image.payload" bs=1M iflag=skip_bytes,count_bytes status=none \
        skip=$(((sectors + 1) * 512 + offset)) count=$((length - 4))
    xz -dc "$image.payload" 2> /dev/null || zstd -dcq "$image.payload" || die "$image: expected a kernel packed by xz or zstd"
}

# Newer packages split the image into three, on which linux-image-VERSION then depends.
fetch() {
    local suite=$1 dir=$2 image version
    setup_apt "$suite" "$dir/apt"
    timeout 300 apt-get "${apt_options[@]}" -qq update || die "cannot fetch the package lists of $suite"
    image=$(depends_of "linux-image-$arch" | grep -m1 '^linux-image-[0-9]') || die "$suite has no linux-image-$arch"
    version=${image#linux-image-}
    mapfile -t parts < <(depends_of "$image" | grep -Fx -e "linux-base-$version" -e "linux-binary-$version" -e "linux-modules-$version")
    mkdir -p "$dir/debs" "$dir/root"
    (cd "$dir/debs" && timeout 600 apt-get "${apt_options[@]}" -qq download "$image" "${parts[@]}") ||
        die "cannot download $image from $suite"
    for deb in "$dir"/debs/*.deb; do dpkg-deb -x "$deb" "$dir/root"; done

    # Newer packages have everything under /usr, the image among the modules.
    mkdir -p "$dir/lib/modules"
    unpack_kernel "$(find "$dir/root" -type f -name 'vmlinuz*' | head -n 1)" > "$dir/vmlinux"
    mv "$(find "$dir/root" -type d -path "*/lib/modules/$version")" "$dir/lib/modules/"
    depmod -b "$dir" "$version"
    echo "$version" > "$dir/version"
    rm -rf "$dir/apt" "$dir/debs" "$dir/root"
}

# insmod of busybox knows neither dependencies nor xz: the modules go in unpacked, in the loading order that file $1 has.
add_modules() {
    local order=$tree/modules/$1 module path
    shift
    for module; do
        modprobe -d "$dir" -S "$version" --show-depends "$module"
    done | sed -n 's/^insmod \(.*[^ ]\) *$/\1/p' | awk '!seen[$0]++' | while read -r path; do
        module=$(basename "${path%%.ko*}").ko
        case $path in
            *.xz) xz -dc "$path" > "$tree/modules/$module" ;;
            *)    cp "$path" "$tree/modules/$module" ;;
        esac
        echo "$module" >> "$order"
    done
}

make_initrd() {
    local dir=$1 version tree
    version=$(cat "$dir/version")
    tree=$dir/initrd.d
    rm -rf "$tree"
    mkdir -p "$tree"/{bin,modules,proc,dev,host,image,rw,root}
    cp "$(command -v busybox)" "$tree/bin/busybox"
    cp "$here/guest/init" "$tree/init"
    chmod 755 "$tree/init"
    add_modules order "${boot_modules[@]}"
    add_modules order.image "${image_modules[@]}"
    (cd "$tree" && find . | busybox cpio -o -H newc 2>/dev/null | gzip -1) > "$dir/initrd.new"
    mv "$dir/initrd.new" "$dir/initrd"
    rm -rf "$tree"
}

name=${1:?usage: kernel.sh stable|newer}
suite=$(suite_of "$name")
dir=$cache/kernel/$name
mkdir -p "$cache/kernel"

# Two callers at once: one fetches, the other waits and then finds it there.
exec {lock}> "$cache/kernel/$name.lock"
flock "$lock"
if [ ! -e "$dir/version" ]; then
    echo "kernel.sh: fetching the $name kernel ($suite), once" >&2
    rm -rf "$dir" "$dir.new"
    fetch "$suite" "$dir.new" >&2
    mv "$dir.new" "$dir"
fi
if [ "$here/guest/init" -nt "$dir/initrd" ] || [ "$here/kernel.sh" -nt "$dir/initrd" ]; then
    make_initrd "$dir"
fi
echo "$dir"
