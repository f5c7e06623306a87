#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Runs the checks of tests/vm/checks in guests: the runner of `make test-vm`.
#
# usage: tests/vm/run.sh [NAME]...        all checks, or those named
#
# A check says in its header what it wants (see README.md); those that want the same share one boot. When a check brings
# the machine down, it has failed, and the rest of its group goes on in a new one. Lanes run at the same time, each with one
# machine after the other.
set -euo pipefail

here=$(cd "$(dirname "$0")" && pwd -P)
repo=$(cd "$here/../.." && pwd -P)
export BUILD=${BUILD:-$repo/build}
# Value of a field of a check's header, or a default.
field() {
    local value
    value=$(sed -n "s/^# $2: *\([a-z0-9]*\).*/\1/p" "$1" | head -n 1)
    echo "${value:-$3}"
}

# Properties that decide in which machine a check runs.
machine_of() {
    echo "$(field "$1" kernel stable) $(field "$1" net none) $(field "$1" cpus 2) $(field "$1" mem 1024) $(field "$1" pclmul no) $(field "$1" image none)"
}

choose_checks() {
    local name
    checks=()
    if [ $# -eq 0 ]; then
        checks=("$here"/checks/*.sh)
        return
    fi
    for name; do
        [ -e "$here/checks/$name.sh" ] || { echo "run.sh: no check '$name' in $here/checks" >&2; exit 2; }
        checks+=("$here/checks/$name.sh")
    done
}

# Checks in an image install the packages, as they are built now. VM_DEBS=keep: as they were built before.
build_debs() {
    local log=$shared/deb.log options="noopt noautodbgsym"
    [ "${VM_DEBS:-build}" = build ] || return 0
    echo "building the packages"
    # Of the objects that `make all` has built: the checks are about the packages.
    env DEB_BUILD_OPTIONS="$options" DEB_OBJECTS="$BUILD" "$repo/vendor/deb.sh" > "$log" 2>&1 || { tail -n 30 "$log"; return 1; }
}

# Boots one machine for all of "${pending[@]}". In the background and waited for, so that a signal is acted upon at once.
boot_once() {
    local kernel=$1 net=$2 cpus=$3 mem=$4 pclmul=$5 image=$6 limit=30 file options
    for file in "${pending[@]}"; do limit=$((limit + $(field "$file" timeout 60) + 15)); done
    options=(--kernel "$kernel" --cpus "$cpus" --mem "$mem" --pclmul "$pclmul" --image "$image" --timeout "$limit")
    [ "$net" = none ] || options+=(--net "$net")
    rm -rf "$results"
    mkdir -p "$results"
    [ "$image" = none ] || build_debs || return 0
    "$here/vm" run "${options[@]}" -- "$here/guest/run-checks" "$results" "${pending[@]}" &
    vm_pid=$!
    wait "$vm_pid" || true
    vm_pid=
}

# Counts what finished, blames the check that was under way, and leaves in `pending` what was not reached.
settle() {
    local file name verdict culprit left=()
    culprit=$(cat "$results/started" 2> /dev/null || true)
    touch "$results/verdicts"
    for file in "${pending[@]}"; do
        name=$(basename "$file" .sh)
        verdict=$(sed -n "s/ $name\$//p" "$results/verdicts")
        if [ -z "$verdict" ] && [ -n "$culprit" ] && [ "$name" != "$culprit" ]; then
            left+=("$file")
            continue
        fi
        case $verdict in
            ok)   passed=$((passed + 1)) ;;
            skip) skipped=$((skipped + 1)) ;;
            FAIL) failed=$((failed + 1)) ;;
            *)    failed=$((failed + 1))
                  echo "FAIL $name (the machine did not survive, or did not start)"
                  tail -n 30 "$results/$name.log" 2> /dev/null | sed 's/^/    /' || true ;;
        esac
    done
    pending=("${left[@]}")
}

# Runs the checks of one lane; the counts go to file $2. A signal that ends this also ends the machine.
run_lane() {
    local lane=$1 counts=$2 machine machines file
    passed=0 failed=0 skipped=0 vm_pid=
    results=$shared/lane$lane
    trap '[ -z "$vm_pid" ] || { kill -TERM "$vm_pid" 2> /dev/null; wait "$vm_pid"; }; exit 143' TERM INT
    mapfile -t machines < <(for file in "${checks[@]}"; do
        [ "$(field "$file" lane 1)" != "$lane" ] || machine_of "$file"
    done | sort -u)
    for machine in "${machines[@]}"; do
        pending=()
        for file in "${checks[@]}"; do
            [ "$(field "$file" lane 1) $(machine_of "$file")" != "$lane $machine" ] || pending+=("$file")
        done
        while [ ${#pending[@]} -gt 0 ]; do
            # shellcheck disable=SC2086  # six words
            boot_once $machine
            settle
        done
    done
    echo "$passed $failed $skipped" > "$counts"
}

clean_up() {
    trap '' INT TERM
    [ ${#lane_pids[@]} -eq 0 ] || kill -TERM "${lane_pids[@]}" 2> /dev/null || true
    wait
    rm -rf "$shared"
}

choose_checks "$@"
make -s -C "$here"
shared=$repo/build/vm/out/checks.$$
lane_pids=()
trap clean_up EXIT
trap 'exit 130' INT
trap 'exit 143' TERM
mkdir -p "$shared"
mapfile -t lanes < <(for file in "${checks[@]}"; do field "$file" lane 1; done | sort -u)
for lane in "${lanes[@]}"; do
    run_lane "$lane" "$shared/counts.$lane" &
    lane_pids+=($!)
done
# A lane that does not get as far as its counts has failed.
for pid in "${lane_pids[@]}"; do wait "$pid" || true; done
lane_pids=()
sum=(0 0 0)
for lane in "${lanes[@]}"; do
    read -r p f s < "$shared/counts.$lane" || p=0 f=1 s=0
    sum=($((sum[0] + p)) $((sum[1] + f)) $((sum[2] + s)))
done
echo "vm: ${sum[0]} passed, ${sum[1]} failed, ${sum[2]} skipped"
[ "${sum[1]}" -eq 0 ]
