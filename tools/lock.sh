#!/bin/sh
# Renews the lock files from pyproject.toml; needs `uv` (users of the lock files do not).
set -eu
cd "$(dirname "$0")/.."
compile() {
    uv pip compile --quiet --universal --python-version 3.10 --no-header --no-annotate \
        --no-emit-index-url --no-emit-find-links --generate-hashes "$@"
}
compile pyproject.toml requirements/build.in --output-file requirements/runtime.txt
compile pyproject.toml requirements/build.in --extra dev --constraint requirements/runtime.txt \
    --output-file requirements/dev.txt
compile requirements/docs.in --output-file requirements/docs.txt
