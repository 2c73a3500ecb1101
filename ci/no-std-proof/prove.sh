#!/usr/bin/env bash
# Builds the freestanding program as it should build, and poisoned as it must not.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"

OUT=${1:-target}
mkdir -p "$OUT"

build() { cargo build --quiet --target-dir "$OUT" "$@"; }

# must_fail WANTED COMMAND…: the command fails, and says why in the words wanted.
must_fail() {
    local wanted=$1 log=$OUT/poisoned.log
    shift
    if "$@" >"$log" 2>&1; then
        echo "passed, but must fail: $*" >&2
        return 1
    fi
    if ! grep -qE "$wanted" "$log"; then
        echo "failed for another reason than \`$wanted\`: $*" >&2
        cat "$log" >&2
        return 1
    fi
}

link_release() {
    cc -O1 -static -Wl,--gc-sections start.c "$OUT/release/libno_std_proof.a" -o "$OUT/program"
}

build
echo "zcore builds without std and alloc"
must_fail 'E0152' build --features poison-std
echo "the check for std can fail"
must_fail 'no global memory allocator found' build --features poison-alloc
echo "the check for alloc can fail"

build --release
link_release
echo "the release build links without a panic"
build --release --features poison-panic
must_fail 'zcore_can_panic' link_release
echo "the check for panics can fail"
