#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# `make install` and `make uninstall` into a DESTDIR, with two prefixes, and `make wheel`: what is installed runs from where it
# is, and all of it is removed, but for a configuration that was changed. No namespace is needed.
. "$(dirname "$0")/../lib.sh"

ROOT=$(cd "$here/../.." && pwd -P)
# put PREFIX TARGET: into $D/root.
put() { make -s -C "$ROOT" BUILD="$BUILD" PREFIX="$1" DESTDIR="$D/root" "$2"; }
files_left() { find "$D/root" ! -type d -printf '/%P\n'; }
# The installed library names itself, and the page of the command is there.
is_complete() {
	local prefix=$D/root$1
	"$prefix/sbin/sluice" version && ("$prefix/sbin/sluice-agent" 2>&1 | grep -q "allowed: --listen") && "$prefix/bin/sluice-datagram" --help >/dev/null &&
		[ -s "$prefix/share/man/man8/sluice.8" ] && [ -s "$prefix/lib/bpf/sluice.bpf.o" ] &&
		[ -s "$prefix/include/sluice/backend.h" ] && [ -e "$prefix/lib/libsluice-backend.so" ] &&
		[ -s "$prefix/share/man/man3/libsluice-client.3" ] && [ -s "$prefix/lib/pkgconfig/libsluice-client.pc" ]
}
# links_with PREFIX LIBRARY FUNCTION: by what pkg-config says.
links_with() {
	local prefix=$D/root$1 flags
	flags=$(PKG_CONFIG_PATH=$prefix/lib/pkgconfig pkg-config --define-variable=prefix="$prefix" \
		--define-variable=libdir="$prefix/lib" --cflags --libs "libsluice-$2") || return 1
	# shellcheck disable=SC2086
	echo "int main(void) { return !$3; }" | gcc -include "sluice/$2.h" -x c - -o "$D/linked" $flags &&
		LD_LIBRARY_PATH=$prefix/lib "$D/linked"
}
imports_from() { (cd / && PYTHONPATH=$1 PYTHONDONTWRITEBYTECODE=1 /usr/bin/python3 -c 'import sluice; print(sluice.Backend, sluice.__file__)'); }

for prefix in /usr /opt/sluice; do
	check "make install PREFIX=$prefix" put "$prefix" install
	check "$prefix: programs run, files are there" is_complete "$prefix"
	check "$prefix: a backend in C links with its library" links_with "$prefix" backend sl_backend_open
	check "$prefix: a client in C links with its library" links_with "$prefix" client sl_rpc_client_open
	check "$prefix: Python imports the package" imports_from "$(dirname "$(find "$D/root$prefix" -path '*-packages/sluice' -type d)")"
	check "$prefix: units start the installed programs" eval \
		'! grep -h ^ExecStart= $(find "$D/root" -name "*.service") | grep -v "^ExecStart=$prefix/sbin/"'
	check "make uninstall PREFIX=$prefix" put "$prefix" uninstall
	check "$prefix: nothing is left" [ -z "$(files_left)" ]
	check "$prefix: nor folders of its own" [ -z "$(find "$D/root" -regex '.*/[^/]*c[^/]*/sluice')" ]
done

check "make install once more" put /usr install
echo "# changed" >>"$D/root/etc/sluice/sluice.conf"
check "make install over a changed configuration" put /usr install
check "keeps it" grep -qx "# changed" "$D/root/etc/sluice/sluice.conf"
check "make uninstall says that it stays" eval 'put /usr uninstall | grep -q "sluice.conf was changed, and stays"'
check "and removes all else" [ "$(files_left)" = /etc/sluice/sluice.conf ]

check "make wheel" make -s -C "$ROOT" BUILD="$BUILD" wheel
wheel=$(tail -n 1 "$D/out")
check "its path is printed" [ -s "$wheel" ]
check "it is a package that Python unpacks" python3 -m zipfile -e "$wheel" "$D/site"
check "and imports, library and all" imports_from "$D/site"
exit_with_counts
