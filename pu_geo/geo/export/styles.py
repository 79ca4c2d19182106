"""One style for exported damage maps, as QGIS (QML) and KML write it.

Colors distinct to color-blind eyes (Okabe-Ito), the same as on the Annotate screen.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from xml.sax.saxutils import quoteattr


@dataclass(frozen=True)
class Style:
    """How buildings with one value of a column are drawn.

    Attributes:
        color: of the fill, "#rrggbb".
        opacity: of the fill, 0..1.
        is_hatched: lines in `color` over nothing, for what is not known.
    """

    value: str
    label: str
    color: str
    opacity: float = 0.85
    is_hatched: bool = False


OUTLINE = "#333333"
STYLES = (
    Style("confirmed", "Confirmed by a person", "#D55E00"),
    Style("flagged", "Flagged by score", "#E69F00"),
    Style("high_precision", "Flagged, high precision", "#E69F00"),
    Style("high_recall", "Not flagged, above the threshold of high recall", "#F0E442"),
    Style("below", "Not flagged (no proof of an intact building)", "#B4B4B4", 0.6),
    Style("not_assessed", "Not assessed", "#8a8a8a", 1.0, is_hatched=True),
)


TYPE_STYLES = (
    Style("yes", "Yes, by a person or by score", "#882255"),
    Style("no", "No (no proof that it is absent)", "#B4B4B4", 0.6),
    Style("unknown", "Unknown", "#8a8a8a", 1.0, is_hatched=True),
)
"""Of the columns that say whether a building has a damage type."""


def qml(attribute: str = "triage", styles: Sequence[Style] = STYLES) -> str:
    """Return a QGIS style: one fill for each value of a column."""
    categories = "".join(
        f'<category symbol="{i}" value={quoteattr(style.value)} label={quoteattr(style.label)} type="string" render="true"/>'
        for i, style in enumerate(styles)
    )
    symbols = "".join(
        f'<symbol name="{i}" type="fill" alpha="1" clip_to_extent="1" force_rhr="0">'
        '<layer class="SimpleFill" enabled="1" locked="0" pass="0"><Option '
        f'type="Map">{_fill_options(style)}</Option></layer>'
        "</symbol>"
        for i, style in enumerate(styles)
    )
    return (
        "<!DOCTYPE qgis PUBLIC 'http://mrcc.com/qgis.dtd' 'SYSTEM'>"
        '<qgis version="3.28.0" styleCategories="Symbology">'
        f'<renderer-v2 type="categorizedSymbol" attr={quoteattr(attribute)} forceraster="0" symbollevels="0" '
        'enableorderby="0">'
        f"<categories>{categories}</categories><symbols>{symbols}</symbols></renderer-v2>"
        "<layerGeometryType>2</layerGeometryType></qgis>"
    )


def _fill_options(style: Style) -> str:
    options = {
        "color": _rgba(style.color, style.opacity),
        "style": "b_diagonal" if style.is_hatched else "solid",
        "outline_color": _rgba(OUTLINE, 1.0),
        "outline_style": "solid",
        "outline_width": "0.1",
        "outline_width_unit": "MM",
        "joinstyle": "bevel",
    }
    return "".join(f'<Option name="{name}" type="QString" value="{value}"/>' for name, value in options.items())


def kml_styles() -> str:
    """Return KML styles with the values of `triage` as ids. KML has no hatch: what was not assessed is an outline alone."""
    return "".join(
        f'<Style id="{style.value}"><LineStyle><color>{_abgr(OUTLINE, 1.0)}</color></LineStyle>'
        f"<PolyStyle><color>{_abgr(style.color, style.opacity)}</color>"
        f"<fill>{int(not style.is_hatched)}</fill></PolyStyle></Style>"
        for style in STYLES
    )


def _rgba(color: str, opacity: float) -> str:
    red, green, blue = bytes.fromhex(color[1:])
    return f"{red},{green},{blue},{round(255 * opacity)}"


def _abgr(color: str, opacity: float) -> str:
    red, green, blue = bytes.fromhex(color[1:])
    return f"{round(255 * opacity):02x}{blue:02x}{green:02x}{red:02x}"
