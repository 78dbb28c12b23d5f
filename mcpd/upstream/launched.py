"""What a launcher (npx, uvx, pipx, docker) has started, as far as its cache tells without a network (n09).

The command line stays the same when a package gets a new version; what runs is found by the processes that
came of it: a folder of npx's cache, a virtual environment, an image. Of it the package that was asked for
is told apart, by version and by the hashes that its installer has written down; what that depends on
changes too often to mean anything. It is no proof against a program that hides: what runs could as well
show other processes than its own.

Everything here blocks for some milliseconds; nothing is changed.
"""

from __future__ import annotations

import glob
import hashlib
import json
import os
import subprocess
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from mcpd import files
from mcpd.config.accepted import Launched
from mcpd.config.spec import Server

#: Launchers whose work can be looked at, by where it lies: npx's cache, a virtual environment, an image.
NODE = frozenset({"npx", "npm"})
PYTHON = frozenset({"uvx", "uv", "pipx"})
IMAGES = frozenset({"docker", "podman"})

#: Bytes of one file: a lock of a thousand packages has half a megabyte.
MAX_FILE = 8 << 20
#: Seconds that docker may take to say which image a name stands for now.
ASK = 3.0

_CACHE = "/_npx/"

#: Options of `docker run` that take no value (docker 28, podman 5); every other one does.
_FLAGS = frozenset(
    {
        *("--detach", "--disable-content-trust", "--env-host", "--http-proxy", "--init", "--interactive"),
        *("--no-healthcheck", "--no-hosts", "--oom-kill-disable", "--privileged", "--publish-all", "--quiet"),
        *("--read-only", "--read-only-tmpfs", "--replace", "--rm", "--rmi", "--sig-proxy", "--tls-verify"),
        *("--tty", "--use-api-socket"),
    }
)
_SHORT_FLAGS = "ditPq"


def is_known(server: Server) -> bool:
    """Whether this is a launcher whose work can be looked at."""
    return _name(server) in NODE | PYTHON | IMAGES


def find(server: Server, argvs: Iterable[Sequence[str]], env: Mapping[str, str]) -> Launched | None:
    """What came of the server's command: `argvs` are the command lines of its processes. None where that
    cannot be told. A place is ("npx", folder), ("python", environment, script) or ("image", name)."""
    if _name(server) in IMAGES:
        image = image_of(server.args)
        return again(server, ("image", image), env) if image else None
    look = _in_cache if _name(server) in NODE else _in_environment
    for argv in argvs:
        for number, word in enumerate(argv[:3]):
            place = look(word, argv[number + 1 :]) if word.startswith("/") else None
            found = again(server, place, env) if place is not None else None
            if found is not None:
                return found
    return None


def again(server: Server, place: Sequence[str], env: Mapping[str, str]) -> Launched | None:
    """What is at a place now; None where nothing is, or it cannot be read."""
    try:
        match place:
            case ["npx", folder]:
                return _npx(Path(folder))
            case ["python", folder, script]:
                return _python(Path(folder), script)
            case ["image", image]:
                return _image(server, image, env)
    except (OSError, ValueError, RecursionError, files.Unfit, subprocess.SubprocessError):
        return None
    return None


def _name(server: Server) -> str:
    return os.path.basename(server.command)


def _in_cache(word: str, after: Sequence[str]) -> tuple[str, ...] | None:
    before, cache, inside = word.partition(_CACHE)
    return ("npx", before + _CACHE + inside.partition("/")[0]) if cache else None


def _in_environment(word: str, after: Sequence[str]) -> tuple[str, ...] | None:
    """The environment that a command lies in, which may be its interpreter; the launcher's own is none."""
    folder, script = os.path.dirname(os.path.dirname(word)), os.path.basename(word)
    if script.startswith("python") and after:
        script = os.path.basename(after[0])
    if script in PYTHON or not os.path.isfile(os.path.join(folder, "pyvenv.cfg")):
        return None
    return ("python", folder, script)


def _npx(folder: Path) -> Launched | None:
    """The packages that npx was asked for, from its `package.json` and the lock beside it (npm 7 to 11)."""
    wanted = _json(folder / "package.json").get("dependencies")
    lock = folder / "package-lock.json"
    if not lock.exists():
        lock = folder / "node_modules" / ".package-lock.json"
    installed = _json(lock).get("packages")
    if not isinstance(wanted, dict) or not isinstance(installed, dict):
        return None
    told = []
    for name in sorted(wanted):
        entry = installed.get(f"node_modules/{name}")
        if not isinstance(entry, dict):
            return None
        # What comes from elsewhere than a registry has no hash, but a commit in its address.
        proof = entry.get("integrity") or entry.get("resolved") or ""
        told.append((name, str(entry.get("version", "")), str(proof)))
    return _found(("npx", str(folder)), told) if told else None


def _python(folder: Path, script: str) -> Launched | None:
    """The distribution that has the script, from the records of its installer (PEP 376, PEP 427); where none
    has, all that there are."""
    infos = sorted(glob.glob(f"{glob.escape(str(folder))}/lib/python*/site-packages/*.dist-info"))
    own = [info for info in infos if script in _scripts(Path(info))]
    told = [(*_distribution(info), _record(Path(info))) for info in own or infos]
    return _found(("python", str(folder), script), told) if told else None


def _distribution(info: str) -> tuple[str, str]:
    name, _, version = os.path.basename(info).removesuffix(".dist-info").rpartition("-")
    return name, version


def _scripts(info: Path) -> set[str]:
    """The commands that a distribution installs."""
    try:
        lines = files.read_own(info / "entry_points.txt", MAX_FILE).decode().splitlines()
    except (FileNotFoundError, UnicodeDecodeError):
        return set()
    return {line.partition("=")[0].strip() for line in lines if "=" in line}


def _record(info: Path) -> str:
    """What the installer wrote down of the files that came with the distribution; what it made itself differs
    from one environment to the next."""
    lines = files.read_own(info / "RECORD", MAX_FILE).decode(errors="replace").splitlines()
    made = ("INSTALLER", "REQUESTED", "RECORD", "uv_cache.json")
    return "\n".join(
        sorted(
            line
            for line in lines
            if not line.startswith("../")
            and os.path.basename(line.partition(",")[0]) not in made
            and ".pyc," not in line
        )
    )


def image_of(args: Sequence[str]) -> str:
    """The image that `docker run ARGS` names; empty where none can be made out."""
    words = iter(args)
    for word in words:  # "run", also as "container run"
        if word == "run":
            break
        if word != "container":
            return ""
    for word in words:
        if not word.startswith("-"):
            return word
        if word.startswith("--"):
            valued = "=" not in word and word not in _FLAGS
        else:
            # Several may stand together; one that takes a value ends them, and may have it attached.
            valued = len(word[1:].lstrip(_SHORT_FLAGS)) == 1
        if valued:
            next(words, "")
    return ""


def _image(server: Server, image: str, env: Mapping[str, str]) -> Launched | None:
    """The id of an image is the digest of its configuration, which has those of its layers (OCI 1.1)."""
    asked = subprocess.run(
        [server.executable or server.command, "image", "inspect", "--format", "{{.Id}}", image],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        timeout=ASK,
        env=dict(env),
        check=True,
    )
    told = asked.stdout.decode(errors="replace").strip()
    return _found(("image", image), [(image, told[:80])]) if told else None


def _found(place: tuple[str, ...], told: Sequence[tuple[str, ...]]) -> Launched:
    digest = hashlib.sha256(json.dumps(told).encode()).hexdigest()
    words = ", ".join(" ".join(filter(None, each[:2])) for each in told[:3])
    # A package says its name and version itself, and these go to logs and terminals.
    plain = "".join(sign if sign.isprintable() else "?" for sign in words[:300])
    return Launched(place, digest, plain)


def _json(path: Path) -> dict[str, Any]:
    """Raises OSError, ValueError and files.Unfit."""
    value = json.loads(files.read_own(path, MAX_FILE))
    if not isinstance(value, dict):
        raise ValueError(f"{path} is no JSON object")
    return value
