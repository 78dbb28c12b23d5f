#!/usr/bin/env bash
# From a fresh machine to two agents that share one real server. Everything stays in this folder (.venv and
# tests/servers/node_modules) and in a temporary one; your own configuration is not touched.
set -euo pipefail
cd "$(dirname "$0")/.."
. packaging/setup.sh

extras='[systemd]'
if ! install_packages; then
    extras=''
    say "going on without systemd-python: mcpd then speaks to systemd by itself, without structured journal fields"
fi
make_venv

wanted=$(cat pyproject.toml; printf '%s' "$extras")
wanted=$(printf '%s' "$wanted" | sha256sum)
if ! .venv/bin/python -c 'import mcpd, mcpctl' 2>/dev/null \
    || [ "$(cat .venv/.try-installed 2>/dev/null)" != "$wanted" ]; then
    say "installing mcpd and mcpctl into .venv"
    if ! pip_install -e ".$extras"; then
        [ -n "$extras" ] || exit 1
        say "cannot build systemd-python (above); going on without it, so without structured journal fields"
        pip_install -e .
    fi
    printf '%s\n' "$wanted" >.venv/.try-installed
fi
find_node 20
tests/servers/install.sh

exec .venv/bin/python -I packaging/demo.py
