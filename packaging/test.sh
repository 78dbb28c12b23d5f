#!/usr/bin/env bash
# Install what the tests need and run them all: packaging/test.sh [arguments of pytest]
# The exit code is pytest's (5 when no test ran), or another than 0 when something cannot be installed.
set -euo pipefail
cd "$(dirname "$0")/.."
. packaging/setup.sh

install_project dev -r tests/servers/requirements.txt
# People and agents in tmux are part of the table of who may widen (tests/e2e/test_authority.py).
command -v tmux >/dev/null || install_debian tmux || say "without tmux some tests are left out"
find_node 22
tests/servers/install.sh

status=0
.venv/bin/python -m pytest "$@" || status=$?
if ! [ -d ../shared/faults ]; then
    say "left out: the fault cases and benchmarks of ../shared, which is not beside this checkout"
fi
exit "$status"
