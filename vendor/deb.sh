#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Builds the Debian packages of the tracked files into $BUILD/deb: what `make deb` runs. BUILD defaults to build.
# Two builds of one commit are equal to the byte: the time of the files is that of the commit.
# DEB_OBJECTS=DIR takes the objects of that build of these files, for trials of the packaging.
set -euo pipefail
cd "$(dirname "$0")/.."

out=${BUILD:-build}/deb
version=$(sed -n 's/^#define SL_VERSION "\(.*\)"/\1/p' user/cli/cli.h)
grep -q "^sluice ($version) " vendor/debian/changelog || {
	echo "deb: found version $version in user/cli/cli.h; allowed: that of vendor/debian/changelog" >&2
	exit 1
}
SOURCE_DATE_EPOCH=$(git log -1 --format=%ct)
DEB_BUILD_OPTIONS="parallel=$(nproc) ${DEB_BUILD_OPTIONS:-}"
export SOURCE_DATE_EPOCH DEB_BUILD_OPTIONS
# The caller's own options are for other builds.
objects=${DEB_OBJECTS:+$(cd "$DEB_OBJECTS" && pwd)}
unset BUILD CFLAGS CPPFLAGS LDFLAGS MAKEFLAGS MFLAGS MAKELEVEL DESTDIR PREFIX LIBDIR UNITDIR

rm -rf "$out"
tree=$out/sluice-$version
mkdir -p "$tree"
git ls-files -z | xargs -0 cp --parents --no-dereference --preserve=mode,timestamps -t "$tree"
mv "$tree/vendor/debian" "$tree/debian"
if [ -n "$objects" ]; then
	mkdir "$tree/build"
	# Not the Python package, whose libraries are linked for their place, and not what tests made.
	find "$objects" -mindepth 1 -maxdepth 1 \( -type f -o -type l -o -name obj -o -name pic -o -name gen -o -name lib \
		-o -name man \) -exec cp -a --reflink=auto -t "$tree/build" {} +
fi
(cd "$tree" && dpkg-buildpackage --no-sign --build=binary ${objects:+--no-pre-clean})
echo "deb: packages in $out:"
find "$out" -maxdepth 1 -name '*.deb' -printf '  %f\n' | sort
