#!/usr/bin/env bash
# Install the two referees (tests/conformance/test_referees.py, marker `more`) into a virtual environment here:
# half a minute, 130 MB.
set -euo pipefail
cd "$(dirname "$0")"

stamp=$(sha256sum requirements.txt)
[ "$(cat .venv/.installed 2>/dev/null)" = "$stamp" ] && exit
"${PYTHON:-python3}" -m venv .venv
.venv/bin/python -m pip install -qq --disable-pip-version-check -r requirements.txt </dev/null >&2
printf '%s\n' "$stamp" >.venv/.installed
