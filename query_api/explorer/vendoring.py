"""Copy the libraries of the explorer from npm into ``page/vendor``: ``make vendor`` (needs npm).

``vendor.json`` records for each library its name, version, license, the checksum of the npm package, and the SHA-256 of
each file. A test compares the files with it. ``page/package.json`` pins the versions.
"""

from __future__ import annotations

import hashlib
import json
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any, Final, NamedTuple

PAGE: Final = Path(__file__).parent / "page"


class Library(NamedTuple):
    """One package of npm. ``files`` maps names in ``page/vendor`` to files of the package."""

    name: str
    files: dict[str, str]


LIBRARIES: Final = (
    Library("preact", {"preact.js": "dist/preact.mjs", "preact-hooks.js": "hooks/dist/hooks.mjs"}),
    Library("htm", {"htm.js": "dist/htm.module.js", "htm-preact.js": "preact/index.module.js"}),
    Library("@preact/signals", {"signals.js": "dist/signals.module.js"}),
    Library("@preact/signals-core", {"signals-core.js": "dist/signals-core.module.js"}),
    Library("uplot", {"uplot.js": "dist/uPlot.esm.js", "uplot.css": "dist/uPlot.min.css"}),
)


def copy_libraries() -> list[dict[str, Any]]:
    """Copy all files and return what ``vendor.json`` says of them."""
    lock = json.loads((PAGE / "package-lock.json").read_text())["packages"]
    with tempfile.TemporaryDirectory() as folder:
        for name in ("package.json", "package-lock.json"):
            (Path(folder) / name).write_bytes((PAGE / name).read_bytes())
        npm = shutil.which("npm") or sys.exit("npm is needed to copy the libraries.")
        subprocess.run(  # noqa: S603 - npm of this machine, with fixed arguments
            [npm, "ci", "--ignore-scripts", "--no-audit", "--no-fund"], cwd=folder, check=True
        )
        modules = Path(folder) / "node_modules"
        licenses = [f"{library.name}\n\n{(modules / library.name / 'LICENSE').read_text()}" for library in LIBRARIES]
        (PAGE / "vendor" / "licenses.txt").write_text(("\n" + "-" * 80 + "\n\n").join(licenses))
        return [_copy(library, modules, lock) for library in LIBRARIES]


def _copy(library: Library, modules: Path, lock: dict[str, Any]) -> dict[str, Any]:
    package = modules / library.name
    locked = lock[f"node_modules/{library.name}"]
    sha256 = {}
    for target, source in library.files.items():
        content = _without_source_map((package / source).read_bytes())
        (PAGE / "vendor" / target).write_bytes(content)
        sha256[target] = hashlib.sha256(content).hexdigest()
    return {
        "name": library.name,
        "version": locked["version"],
        "license": locked["license"],
        "integrity": locked["integrity"],
        "files": library.files,
        "sha256": sha256,
    }


def _without_source_map(content: bytes) -> bytes:
    """Drop the comment that names a source map, because the map is not copied."""
    lines = content.splitlines(keepends=True)
    return b"".join(line for line in lines if not line.startswith(b"//# sourceMappingURL="))


def main() -> None:
    """Copy the libraries and write ``vendor.json``."""
    copied = copy_libraries()
    (PAGE / "vendor" / "vendor.json").write_text(json.dumps(copied, indent=2) + "\n")
    for library in copied:
        sys.stdout.write(f"{library['name']} {library['version']} ({library['license']})\n")


if __name__ == "__main__":
    main()
