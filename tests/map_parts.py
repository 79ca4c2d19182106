"""A made-up damage map with everything that a report tells, and an audit of it."""

from html.parser import HTMLParser
from typing import Any

import numpy as np
import shapely

from pu_geo.records import DamageMap, Grid

NO_CLOSE = {"meta", "img", "br", "rect", "path", "polygon", "polyline"}
TRIAGE = ("confirmed", "flagged", "flagged", "below", "below", "below", "below", "not_assessed")
BINARY = {"confirmed": "damaged", "flagged": "damaged", "below": "not_flagged", "not_assessed": "not_assessed"}
GRID = Grid("EPSG:32633", "", (0.5, 0.0, 500_000.0, 0.0, -0.5, 4_600_000.0), 1000, 800, 0.5)
EVIL = "<script>alert(1)</script><img src='http://example.org/x.png' onerror=\"alert(2)\">&\u202e\ud800\x07"


def made_up_map(n: int = 80, **metadata: object) -> DamageMap:
    """Squares of 8 m; of eight, one is confirmed, two are flagged, four are below the threshold, one was not assessed."""
    place = np.random.default_rng(0).uniform((500_005, 4_599_605), (500_485, 4_599_985), (n, 2))
    triage = [TRIAGE[i % len(TRIAGE)] for i in range(n)]
    columns: dict[str, Any] = {
        "triage": triage, "damage_binary": [BINARY[value] for value in triage],
        "not_assessed_reason": ["cloud" if value == "not_assessed" else None for value in triage],
        "label": ["damaged" if value == "confirmed" else None for value in triage],
        "label_source": ["set" if value == "confirmed" else None for value in triage],
        "score": [None if value == "not_assessed" else 0.5 for value in triage],
    }  # fmt: skip
    same = {
        "score_type": "linear", "p_damaged": None, "pre_image_id": "pre-1", "pre_date": "2024-01-02", "post_image_id": "post-1",
        "post_date": "2024-02-03", "post_gsd_m": 0.5, "run_at": "2024-02-04T05:06:07Z", "source_footprint": "osm", "labelled_at": None,
    }  # fmt: skip
    columns |= {name: [value] * n for name, value in same.items()}
    told: dict[str, object] = {
        "title": "Damage map: Made up", "run_id": "ranker-1", "method": "ranker", "n_positive_clicks": 200, "threshold": 0.4,
        "disclaimer": "Preliminary damage map from satellite or aerial imagery; not field-validated.",
        "estimate": {
            "N": n, "confirmed": 10, "estimate": None, "low": None, "high": None, "method": "not enough to estimate", "audit_state": None,
            "words": "10 buildings are confirmed damaged. How many there are in all is not known yet: not enough to estimate, 3 checks.",
        },
        "run_warnings": [], "made_with": "PU-Geo 1", "product_version": "v3", "threshold_origin": "person", "audit_id": "no accuracy assessment",
        "trained_on_labels_up_to_event": 3, "labels_up_to_event": 12, "bands_why": "", "audit": None,
        "cannot_say": ["Preliminary, not field-validated."], "sha256": {"post-1": "ab" * 32},
    }  # fmt: skip
    boxes = shapely.box(place[:, 0], place[:, 1], place[:, 0] + 8, place[:, 1] + 8)
    return DamageMap([f"b{i}" for i in range(n)], list(shapely.to_wkb(boxes)), columns, GRID.crs, told | metadata)


def estimate(value: float | None, low: float | None, high: float | None, words: str = "") -> dict[str, Any]:
    return {"value": value, "low": low, "high": high, "words": words}


NOT_ENOUGH = estimate(None, None, None, "not enough: 3 checks; 10 are needed.")


def audited_map(n: int = 80, **metadata: object) -> DamageMap:
    """The same with what the audit of `made_up_audit` says of the number damaged."""
    told = {"N": n, "confirmed": 10, "estimate": 33, "low": 21, "high": 58, "audit_state": "reduced"}
    told |= {"words": "14 of 55 random checks found damage."}
    return made_up_map(n, **{"estimate": told, "audit": made_up_audit(), **metadata})


def made_up_audit() -> dict[str, Any]:
    """An audit of 60 checks; precision could not be estimated at the third of five thresholds."""
    curve: list[dict[str, Any]] = [{"threshold": at, "flagged": 9, "n_checks": 9} for at in (0.0, 0.25, 0.5, 0.75, 1.0)]
    for row in curve:
        at = row["threshold"]
        row |= {"precision": estimate(at, at / 2, 1.0), "recall": estimate(1 - at, 0.0, 1.0)}
    curve[2]["precision"] = NOT_ENOUGH
    here = {"threshold": 0.4, "flagged": 30, "n_checks": 21, "precision": estimate(0.7, 0.5, 0.85), "recall": NOT_ENOUGH}
    return {
        "n_drawn": 60, "n_answered": 55, "n_counted": 50, "state": "reduced",
        "words": "The check was left unfinished: of 60 random checks the first 50 count.", "total": estimate(33.4, 21.0, 58.0, "14 of 55 random checks found damage."),
        "at_threshold": here, "curve": curve, "agreement": {"n": 12, "share": 0.75, "kappa": 0.5},
    }  # fmt: skip


def made_up_areas(n: int = 20) -> list[dict[str, object]]:
    """Areas 0, 1, ... with ever fewer flagged buildings; in the last one nothing was assessed."""
    rows: list[dict[str, object]] = [
        {
            "name": f"Area {i}", "pcode": f"P{i:03}", "buildings_total": 100 + i, "assessed": 90, "not_assessed": 10 + i,
            "flagged": 50 - i, "confirmed": 3, "est_damaged": 20.4, "low": 11, "high": 32, "pct": 22.7,
            "post_date": "2024-02-03",
        }
        for i in range(n)
    ]  # fmt: skip
    unknown = dict.fromkeys(("flagged", "confirmed", "est_damaged", "low", "high", "pct"))
    rows[-1] = {**rows[-1], "assessed": 0, "not_assessed": 100 + n - 1, **unknown}
    return rows


class Reader(HTMLParser):
    """Collects tags with their attributes and the text that a person sees; tags must be closed in order."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.words: list[str] = []
        self.open: list[str] = []
        self.feed(page)
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag not in NO_CLOSE:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        if tag not in NO_CLOSE:
            assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if "style" not in self.open:
            self.words.append(data)

    @property
    def seen(self) -> str:
        return " ".join(" ".join(self.words).split())
