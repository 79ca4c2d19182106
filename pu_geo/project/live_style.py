"""How QGIS draws the live project by itself: one default style each for the views and layers of `project.gpkg`.

Colors as on the Annotate screen: Okabe-Ito for answers, viridis for scores. A person's answer always hides the score.
"""

from __future__ import annotations

from xml.sax.saxutils import quoteattr

STYLE_NAME = "PU-Geo"
TABLE = (
    "CREATE TABLE IF NOT EXISTS layer_styles (id INTEGER PRIMARY KEY AUTOINCREMENT NOT NULL, f_table_catalog TEXT(256), "
    "f_table_schema TEXT(256), f_table_name TEXT(256), f_geometry_column TEXT(256), styleName TEXT(30), styleQML TEXT, "
    "styleSLD TEXT, useAsDefault BOOLEAN, description TEXT, owner TEXT(30), ui TEXT(30), "
    "update_time DATETIME DEFAULT (strftime('%Y-%m-%dT%H:%M:%fZ','now')))"
)
_ANSWERS = (  # label, words, fill; what nobody can know is hatched
    ("positive", "Confirmed by a person", {"color": "213,94,0,220"}),
    ("not_damaged", "Not damaged, by a person", {"color": "0,114,178,150"}),
    ("not_assessable", "Not assessable", {"color": "138,138,138,255", "style": "b_diagonal"}),
)
_STEPS = ((0.8, "181,222,43"), (0.6, "53,183,121"), (0.4, "31,158,137"), (0.2, "49,104,142"), (0.0, "72,40,120"))
_OUTLINE = {"outline_color": "51,51,51,255", "outline_style": "solid", "outline_width": "0.1", "outline_width_unit": "MM"}


def damage_map_qml() -> str:
    """Return the style of the view `damage_map`: by answer, without one by score in steps of 0.2."""
    rules = [(words, f"\"label\" = '{label}'", {"style": "solid", **fill}) for label, words, fill in _ANSWERS]
    top = 1.0
    for low, color in _STEPS:
        below = f' AND "score" < {top}' if top < 1 else ""
        fill = {"style": "solid", "color": f"{color},190"}
        rules.append((f"Score {low:.1f} to {top:.1f}", f'"label" IS NULL AND "score" >= {low}{below}', fill))
        top = low
    rules.append(("No score yet", '"label" IS NULL AND "score" IS NULL', {"style": "no", "color": "0,0,0,0"}))
    listed = "".join(
        f'<rule key="{{pu-geo-{i}}}" label={quoteattr(words)} filter={quoteattr(which)} symbol="{i}"/>'
        for i, (words, which, _) in enumerate(rules)
    )
    symbols = "".join(_symbol(i, fill | _OUTLINE) for i, (_, _, fill) in enumerate(rules))
    return _document(f'type="RuleRenderer"><rules key="{{pu-geo}}">{listed}</rules><symbols>{symbols}</symbols>')


def areas_qml() -> str:
    """Return the style of the layer `areas`: outlines alone, so that buildings stay visible."""
    line = _OUTLINE | {"outline_width": "0.5"}
    return _document(f'type="singleSymbol"><symbols>{_symbol(0, {"style": "no", "color": "0,0,0,0"} | line)}</symbols>')


def _document(renderer: str) -> str:
    return (
        "<!DOCTYPE qgis PUBLIC 'http://mrcc.com/qgis.dtd' 'SYSTEM'><qgis version=\"3.28.0\" styleCategories=\"Symbology\">"
        f'<renderer-v2 forceraster="0" symbollevels="0" enableorderby="0" {renderer}</renderer-v2>'
        "<layerGeometryType>2</layerGeometryType></qgis>"
    )


def _symbol(name: int, options: dict[str, str]) -> str:
    told = "".join(f'<Option name="{key}" type="QString" value="{value}"/>' for key, value in options.items())
    return (
        f'<symbol name="{name}" type="fill" alpha="1" clip_to_extent="1" force_rhr="0"><layer class="SimpleFill" enabled="1" '
        f'locked="0" pass="0"><Option type="Map">{told}</Option></layer></symbol>'
    )


def insert(table: str, qml: str, description: str) -> str:
    """Return the statement that stores a style; it is the default one unless a person has chosen another before."""
    return (
        "INSERT INTO layer_styles (f_table_catalog, f_table_schema, f_table_name, f_geometry_column, styleName, styleQML, "
        f"useAsDefault, description, owner) SELECT '', '', '{table}', 'geom', '{STYLE_NAME}', {_quoted(qml)}, NOT EXISTS "
        f"(SELECT 1 FROM layer_styles WHERE f_table_name = '{table}' AND useAsDefault), {_quoted(description)}, ''"
    )


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"
