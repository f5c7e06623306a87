#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# install.sh install|uninstall: puts what was built into $DESTDIR, or removes it again. Called by `make install` and
# `make uninstall`, which set BUILD, DESTDIR, PREFIX, LIBDIR, UNITDIR, PYDIR and VERSION.
#
# The configuration is installed only where there is none, and removed only if it was not changed.
set -euo pipefail
cd "$(dirname "$0")/../.."

# MODE SOURCE DESTINATION. Templates say /usr where PREFIX belongs, @LIBDIR@ and @VERSION@.
list_files() {
	local file
	echo "755 $BUILD/sluice $PREFIX/sbin/sluice"
	echo "755 $BUILD/sluice-agent $PREFIX/sbin/sluice-agent"
	echo "755 $BUILD/datagram $PREFIX/bin/sluice-datagram"
	echo "644 $BUILD/sluice.bpf.o $PREFIX/lib/bpf/sluice.bpf.o"
	for file in user/service/*.service; do echo "template $file $UNITDIR/${file##*/}"; done
	for file in user/service/*.sysusers; do echo "644 $file $PREFIX/lib/sysusers.d/$(basename "$file" .sysusers).conf"; done
	for file in user/service/*.tmpfiles; do echo "644 $file $PREFIX/lib/tmpfiles.d/$(basename "$file" .tmpfiles).conf"; done
	echo "644 user/service/sluice.logrotate /etc/logrotate.d/sluice"
	for file in prometheus-alerts.yml grafana-dashboard.json; do echo "644 user/service/$file $PREFIX/share/sluice/$file"; done
	for file in README.md user/docs/*.md; do echo "page $file $PREFIX/share/doc/sluice/${file##*/}"; done
	for file in user/docs/*.png bench/results/batch.svg; do echo "644 $file $PREFIX/share/doc/sluice/${file##*/}"; done
	echo "644 user/cli/completion/sluice $PREFIX/share/bash-completion/completions/sluice"
	for file in "$BUILD"/man/*.[1-8]; do echo "644 $file $PREFIX/share/man/man${file##*.}/${file##*/}"; done
	for file in include/sluice/*.h; do echo "644 $file $PREFIX/include/sluice/${file##*/}"; done
	for file in "$BUILD"/libsluice-*.a; do echo "644 $file $LIBDIR/${file##*/}"; done
	for file in "$BUILD"/libsluice-*.so.*; do
		echo "644 $file $LIBDIR/${file##*/}"
		echo "link ${file##*/} $LIBDIR/$(basename "${file%.so.*}").so"
	done
	for file in user/sdk/*/*.pc; do echo "template $file $LIBDIR/pkgconfig/${file##*/}"; done
	for file in "$BUILD"/python/sluice/*; do [ -d "$file" ] || echo "644 $file $PYDIR/${file##*/}"; done
}

put() {
	local mode=$1 source=$2 to=$DESTDIR$3
	install -d "${to%/*}"
	case $mode in
	link) ln -sf "$source" "$to" ;;
	template)
		sed "s,/usr/sbin/,$PREFIX/sbin/,g; s,^prefix=/usr\$,prefix=$PREFIX,; s,@LIBDIR@,$LIBDIR,g; s,@VERSION@,$VERSION,g" "$source" >"$to"
		chmod 644 "$to"
		;;
	page) # the folder of the documents is flat
		sed -E 's,\]\((user/docs|bench/results)/,](,g' "$source" >"$to"
		chmod 644 "$to"
		;;
	*) install -m "$mode" "$source" "$to" ;;
	esac
}

# Packages make the account by sysusers.d and the folders by tmpfiles.d.
make_account() {
	[ -z "$DESTDIR" ] || return 0
	id sluice >/dev/null 2>&1 || useradd --system --user-group --no-create-home --shell /usr/sbin/nologin sluice
	install -d -o sluice -g sluice -m 755 /run/sluice
	install -d -o sluice -g adm -m 2750 /var/log/sluice
	ldconfig
}

configuration=etc/sluice/sluice.conf
install_all() {
	local mode from to
	while read -r mode from to; do put "$mode" "$from" "$to"; done < <(list_files)
	make_account
	install -d -m 755 "$DESTDIR/etc/sluice/conf.d"
	[ -e "$DESTDIR/$configuration" ] || install -m 644 user/service/sluice.conf "$DESTDIR/$configuration"
}

uninstall_all() {
	local to folder
	while read -r _ _ to; do rm -f "$DESTDIR$to"; done < <(list_files)
	rm -rf "${DESTDIR:?}$PYDIR/__pycache__"
	if cmp -s user/service/sluice.conf "$DESTDIR/$configuration"; then
		rm -f "$DESTDIR/$configuration"
	elif [ -e "$DESTDIR/$configuration" ]; then
		echo "uninstall: $DESTDIR/$configuration was changed, and stays"
	fi
	for folder in "$PREFIX"/{include/sluice,share/doc/sluice} "$PYDIR" /etc/sluice/conf.d /etc/sluice; do
		rmdir "$DESTDIR$folder" 2>/dev/null || true
	done
	[ -n "$DESTDIR" ] || ldconfig
}

case ${1:-} in
install) install_all ;;
uninstall) uninstall_all ;;
*) echo "usage: install.sh install|uninstall" >&2 && exit 2 ;;
esac
