#!/usr/bin/env bash
# Install the pinned npm packages into node_modules beside this file; nothing happens when they are there.
# Needs node and npm in PATH.
set -euo pipefail
cd "$(dirname "$0")"

stamp=$(sha256sum package.json package-lock.json .npmrc | sha256sum)
if [ "$(cat node_modules/.installed 2>/dev/null)" != "$stamp" ]; then
    echo "installing the npm servers of tests/servers" >&2
    # Node knows its own authorities only; those that a company adds are in the system's bundle.
    authorities=/etc/ssl/certs/ca-certificates.crt
    if [ -z "${NODE_EXTRA_CA_CERTS:-}" ] && [ -r "$authorities" ]; then
        export NODE_EXTRA_CA_CERTS=$authorities
    fi
    npm ci --loglevel=error </dev/null >/dev/null
    printf '%s\n' "$stamp" >node_modules/.installed
fi
