#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Installs the packages of vendor/packages*.txt that are missing; quiet and quick when none is.
#   vendor/install.sh --list   prints what is missing, installs nothing
set -euo pipefail
cd "$(dirname "$0")"

# "PACKAGE", "PACKAGE unless COMMAND" (not wanted where the command came from elsewhere), or "PACKAGE on ARCHITECTURE".
arch=$(dpkg --print-architecture)
mapfile -t wanted < <(sed -E 's/#.*//' packages*.txt | while read -r package word command; do
	[ -n "$package" ] || continue
	case $word in
	unless) command -v "$command" >/dev/null && continue ;;
	on) [ "$command" = "$arch" ] || continue ;;
	esac
	echo "$package"
done | sort -u)
mapfile -t missing < <(
	dpkg-query -W -f '${Package} ${db:Status-Status}\n' "${wanted[@]}" 2>/dev/null |
		sed -n 's/ installed$//p' | sort -u | comm -13 - <(printf '%s\n' "${wanted[@]}"))
[ ${#missing[@]} -gt 0 ] || exit 0
if [ "${1:-}" = --list ]; then
	printf '%s\n' "${missing[@]}"
	exit 0
fi
if [ "$(id -u)" -ne 0 ]; then
	echo "deps: missing: ${missing[*]}"
	echo "deps: run \`sudo make deps\` to install them"
	exit 1
fi

# Servers among the packages are for tests, which start them as they need them: not now, not as services.
policy=/usr/sbin/policy-rc.d
if [ ! -e $policy ]; then
	trap 'rm -f $policy' EXIT
	printf '#!/bin/sh\nexit 101\n' >$policy
	chmod 755 $policy
fi
log=$(mktemp)
install_missing() {
	DEBIAN_FRONTEND=noninteractive apt-get install -y -q --no-install-recommends "${missing[@]}" >"$log" 2>&1
}
echo "deps: installing ${missing[*]}"
if ! install_missing; then
	echo "deps: updating the package lists"
	apt-get update -q >"$log" 2>&1 || { tail -n 20 "$log"; exit 1; }
	install_missing || { tail -n 20 "$log"; echo "deps: not installed, see above"; exit 1; }
fi
rm -f "$log"
echo "deps: installed ${#missing[@]} packages"
