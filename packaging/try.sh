#!/usr/bin/env bash
# From a fresh machine to two agents that share one real server. Everything stays in this folder (.venv and
# tests/servers/node_modules) and in a temporary one; your own configuration is not touched.
set -euo pipefail
cd "$(dirname "$0")/.."
. packaging/setup.sh

install_project ''
find_node 20
tests/servers/install.sh

exec .venv/bin/python -I packaging/demo.py
