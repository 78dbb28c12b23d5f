#!/usr/bin/env bash
# Install what the tests need and run them all: packaging/test.sh [arguments of pytest]
# Exit codes are pytest's (5, no test ran, included); 2 as well when packages are missing that only root can install.
set -euo pipefail
cd "$(dirname "$0")/.."
. packaging/setup.sh

install_packages
make_venv

wanted=$(cat pyproject.toml tests/servers/requirements.txt | sha256sum)
if [ "$(cat .venv/.tests-installed 2>/dev/null)" != "$wanted" ]; then
    say "installing mcpd and what its tests need into .venv"
    pip_install -e '.[dev,systemd]' -r tests/servers/requirements.txt
    printf '%s\n' "$wanted" >.venv/.tests-installed
fi
find_node 22
tests/servers/install.sh

status=0
.venv/bin/python -m pytest "$@" || status=$?
if ! [ -d ../shared/faults ]; then
    say "left out: the fault cases and benchmarks of ../shared, which is not beside this checkout"
fi
exit "$status"
