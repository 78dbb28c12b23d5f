#!/usr/bin/env bash
# The official conformance suite against mcpd: tests/conformance/run.sh [PART...] [REVISION...]; --help says more.
# The exit code is 0 only when every scenario passed; the last line counts them.
set -euo pipefail
cd "$(dirname "$0")/../.."
. packaging/setup.sh

install_project dev -r tests/servers/requirements.txt
find_node 22
tests/servers/install.sh suite

exec .venv/bin/python -m tests.conformance.run "$@"
