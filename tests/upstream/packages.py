"""Caches of launchers as npm 11 and uv 0.13 leave them, with packages that do not exist."""

from __future__ import annotations

import json
from pathlib import Path


def npx_cache(home: Path, version: str, integrity: str = "sha512-own", left_pad: str = "1.3.0") -> Path:
    """A folder of npx's cache for `npx files`."""
    folder = home / ".npm" / "_npx" / "15b07286cbcc3329"
    (folder / "node_modules" / ".bin").mkdir(parents=True, exist_ok=True)
    packages = {
        "": {"dependencies": {"files": f"^{version}"}},
        "node_modules/files": {"version": version, "resolved": "https://r/files.tgz", "integrity": integrity},
        "node_modules/left-pad": {"version": left_pad, "integrity": f"sha512-{left_pad}"},
    }
    (folder / "package.json").write_text(json.dumps({"dependencies": {"files": f"^{version}"}}))
    (folder / "package-lock.json").write_text(json.dumps({"lockfileVersion": 3, "packages": packages}))
    return folder


def environment(
    folder: Path, version: str, code: str = "sha256=own", depends: str = "1.0.0", installer: str = "uv"
) -> Path:
    """A virtual environment with the distribution `files`, its script and one that it depends on."""
    (folder / "bin").mkdir(parents=True, exist_ok=True)
    (folder / "pyvenv.cfg").write_text("home = /usr/bin\n")
    packages = folder / "lib" / "python3.11" / "site-packages"
    for old in packages.glob("*.dist-info/*"):
        old.unlink()
    for old in packages.glob("*.dist-info"):
        old.rmdir()
    for name, its in (("files", version), ("depends", depends)):
        info = packages / f"{name}-{its}.dist-info"
        info.mkdir(parents=True)
        (info / "RECORD").write_text(
            f"../../../bin/{name},sha256={folder.name},200\n{name}/__init__.py,{code},3\n"
            f"{name}/__pycache__/__init__.cpython-311.pyc,,\n{info.name}/INSTALLER,sha256={installer},2\n"
            f"{info.name}/RECORD,,\n"
        )
        (info / "INSTALLER").write_text(installer)
    (packages / f"files-{version}.dist-info" / "entry_points.txt").write_text(
        "[console_scripts]\nfiles = files:main\n"
    )
    return folder
