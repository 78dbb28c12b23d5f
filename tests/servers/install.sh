#!/usr/bin/env bash
# Install the pinned npm packages of one list into its node_modules; nothing happens when they are there.
#     tests/servers/install.sh [suite|more]     without a name: the servers that every test run needs
# Needs node and npm in PATH.
set -euo pipefail
cd "$(dirname "$0")/${1:-.}"

stamp=$(sha256sum package.json package-lock.json .npmrc | sha256sum)
if [ "$(cat node_modules/.installed 2>/dev/null)" != "$stamp" ]; then
    echo "installing the npm packages of tests/servers${1:+/$1}" >&2
    # Node knows its own authorities only; those that a company adds are in the system's bundle.
    authorities=/etc/ssl/certs/ca-certificates.crt
    if [ -z "${NODE_EXTRA_CA_CERTS:-}" ] && [ -r "$authorities" ]; then
        export NODE_EXTRA_CA_CERTS=$authorities
    fi
    npm ci --loglevel=error </dev/null >/dev/null
    printf '%s\n' "$stamp" >node_modules/.installed
fi
