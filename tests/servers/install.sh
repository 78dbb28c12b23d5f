#!/usr/bin/env bash
# Install the pinned npm packages into node_modules beside this file; nothing happens when they are there.
# Needs node and npm in PATH.
set -euo pipefail
cd "$(dirname "$0")"

stamp=$(sha256sum package.json package-lock.json .npmrc | sha256sum)
if [ "$(cat node_modules/.installed 2>/dev/null)" != "$stamp" ]; then
    echo "installing the npm servers of tests/servers" >&2
    npm ci --silent </dev/null >&2
    printf '%s\n' "$stamp" >node_modules/.installed
fi
