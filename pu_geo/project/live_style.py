"""How QGIS draws the live project by itself: one default style each for the views and layers of `project.gpkg`.

Colors as on the Annotate screen and in exports (Okabe-Ito). A person's answer always hides what the score says, and what was
not assessed is hatched, whatever its score.
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
_LIT = '"label" IS NULL AND "assessed" = 1 AND '
_RULES = (  # words, filter, fill; what nobody can know is hatched
    ("Confirmed by a person", "\"label\" = 'positive'", {"color": "213,94,0,220"}),
    ("Not damaged, by a person", "\"label\" = 'not_damaged'", {"color": "0,114,178,150"}),
    (
        "Not assessed", '"assessed" = 0 AND ("label" IS NOT NULL OR "run_id" IS NOT NULL)',
        {"color": "138,138,138,255", "style": "b_diagonal"},
    ),
    ("Flagged by score", f"{_LIT}\"damage_binary\" = 'damaged'", {"color": "230,159,0,217"}),
    ("Not flagged (no proof of an intact building)", f"{_LIT}\"damage_binary\" = 'not_flagged'", {"color": "180,180,180,153"}),
    ("No score yet", '"label" IS NULL AND "run_id" IS NULL', {"style": "no", "color": "0,0,0,0"}),
)  # fmt: skip
_OUTLINE = {"outline_color": "51,51,51,255", "outline_style": "solid", "outline_width": "0.1", "outline_width_unit": "MM"}


def damage_map_qml() -> str:
    """Return the style of the view `damage_map`: by answer, without one by what the map says at its threshold."""
    listed = "".join(
        f'<rule key="{{pu-geo-{i}}}" label={quoteattr(words)} filter={quoteattr(which)} symbol="{i}"/>'
        for i, (words, which, _) in enumerate(_RULES)
    )
    symbols = "".join(_symbol(i, {"style": "solid", **fill} | _OUTLINE) for i, (_, _, fill) in enumerate(_RULES))
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


def renew(table: str, qml: str, description: str) -> str:
    """Return the statement that brings our style of an older schema up to date; one that a person saved stays as it is."""
    ours = qml[: qml.index("type=")]
    return (
        f"UPDATE layer_styles SET styleQML = {_quoted(qml)}, description = {_quoted(description)} "
        f"WHERE f_table_name = '{table}' AND styleName = '{STYLE_NAME}' AND substr(styleQML, 1, {len(ours)}) = {_quoted(ours)}"
    )


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"
