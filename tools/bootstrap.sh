#!/bin/sh
# Makes .venv from a lock file, once: `tools/bootstrap.sh runtime` or `tools/bootstrap.sh dev`.
# `tools/bootstrap.sh docs` makes .venv-docs, which only builds the documentation site.
set -eu
cd "$(dirname "$0")/.."
want=${1:-runtime}
venv=.venv
[ "$want" != docs ] || venv=.venv-docs
lock=requirements/$want.txt

die() {
    echo "anabranch: $1" >&2
    exit 1
}

find_python() {
    for candidate in ${PYTHON:-python3 python3.13 python3.12 python3.11 python3.10 python3.14}; do
        if "$candidate" -c 'import sys; sys.exit(not (3, 10) <= sys.version_info[:2] <= (3, 14))' 2>/dev/null; then
            command -v "$candidate"
            return
        fi
    done
}

java_version() {
    if [ -n "${JAVA_HOME:-}" ]; then java=$JAVA_HOME/bin/java; else java=java; fi
    "$java" -version 2>&1 | sed -n 's/.* version "\(1\.\)\{0,1\}\([0-9]*\).*/\2/p' | head -n 1
}

java_found=$(java_version || true)
[ "$want" = docs ] || [ "${java_found:-0}" -ge 17 ] ||
    die "install Java 17 or newer (for example the package openjdk-17-jre-headless), or set JAVA_HOME to one"

if [ -x $venv/bin/python ] && cmp -s "$lock" "$venv/$want.lock"; then
    exit 0
fi

if ! [ -x $venv/bin/python ]; then
    python=$(find_python)
    [ -n "$python" ] || die "install Python 3.10 to 3.14, or name one: make PYTHON=/path/to/python3"
    echo "Making $venv with $("$python" --version) ..." >&2
    "$python" -m venv $venv >/dev/null 2>&1 || {
        rm -rf $venv
        die "$python cannot make a virtual environment; install its venv module (for example the package python3-venv)"
    }
fi

echo "Installing from $lock (once) ..." >&2
pip="$venv/bin/python -m pip --disable-pip-version-check --quiet --quiet"
$pip install --require-hashes --requirement "$lock" || die "the packages in $lock could not be installed; see the message above"
[ "$want" = docs ] || $pip install --no-deps --no-build-isolation --editable . || die "the package itself could not be installed"
cp "$lock" "$venv/$want.lock"
if [ "$want" = dev ]; then
    cp requirements/runtime.txt $venv/runtime.lock # dev holds everything that runtime does
fi
