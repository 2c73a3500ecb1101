#!/usr/bin/env bash
# Installs what ci/run needs and this machine lacks, at the pinned version. Safe to run again.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

DENY=0.20.2
TYPOS=1.52.0
TOOLS=$PWD/target/tools

has_version() { # COMMAND… VERSION
    local version=${*: -1}
    [[ $("${@:1:$#-1}" --version 2>/dev/null) == *" $version"* ]]
}

apt() {
    [[ $(id -u) == 0 ]] && command -v apt-get >/dev/null || {
        echo "missing Debian packages: $*; install them and run again" >&2
        return 1
    }
    apt-get update -qq
    DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "$@" >/dev/null
}

command -v cc >/dev/null || apt build-essential
command -v python3 >/dev/null || apt python3 python3-venv

for component in rustfmt clippy; do
    cargo "${component/rustfmt/fmt}" --version >/dev/null 2>&1 || rustup component add "$component"
done

if ! PATH="$TOOLS/bin:$PATH" has_version typos "$TYPOS"; then
    echo "installing typos $TYPOS"
    if ! python3 -m venv --clear "$TOOLS/venv" 2>/dev/null; then
        apt python3-venv
        python3 -m venv --clear "$TOOLS/venv"
    fi
    "$TOOLS/venv/bin/pip" install --quiet --disable-pip-version-check "typos==$TYPOS"
    mkdir -p "$TOOLS/bin"
    ln -sf "$TOOLS/venv/bin/typos" "$TOOLS/bin/typos"
fi

if ! has_version cargo deny "$DENY"; then
    echo "installing cargo-deny $DENY from source; this takes some minutes"
    cargo install --quiet --locked "cargo-deny@$DENY"
fi
