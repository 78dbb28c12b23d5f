#!/usr/bin/env bash
# Install the real servers that are compared by hand (tests/real, marker `more`): about 2 GB and five minutes,
# all of it below this folder. Needs node and npm in PATH; packaging/setup.sh's find_node puts them there.
# There is no lock file: 1,200 packages of others change too often to be worth 500 kB here.
set -euo pipefail
cd "$(dirname "$0")"

done_already() { # FOLDER FILE...: whether what these files list was installed into that folder
    local folder=$1
    shift
    [ "$(cat "$folder/.installed" 2>/dev/null)" = "$(sha256sum "$@")" ]
}

if ! done_already node_modules package.json; then
    echo "installing the npm servers of tests/servers/more" >&2
    authorities=/etc/ssl/certs/ca-certificates.crt
    if [ -z "${NODE_EXTRA_CA_CERTS:-}" ] && [ -r "$authorities" ]; then
        export NODE_EXTRA_CA_CERTS=$authorities
    fi
    npm install --no-package-lock --loglevel=error </dev/null >/dev/null
    sha256sum package.json >node_modules/.installed
fi

for line in mcp1 mcp2; do
    list=requirements-$line.txt venv=.venv/$line
    done_already "$venv" "$list" && continue
    echo "installing the servers of $list" >&2
    "${PYTHON:-python3}" -m venv "$venv"
    "$venv/bin/python" -m pip install -qq --disable-pip-version-check -r "$list" </dev/null >&2
    sha256sum "$list" >"$venv/.installed"
done
