"""The tables of `project.gpkg`, in plain SQL, and the styles in which QGIS opens them.

A GeoPackage 1.3 without R-tree, so that sqlite3 alone can write it. Colors of the styles as on the Annotate screen and in
exports (Okabe-Ito). A person's answer always hides what the score says; what was not assessed is hatched, whatever its
score.
"""

from __future__ import annotations

from xml.sax.saxutils import quoteattr

from pu_geo.records import MAX_GRADE, NOT_IN_RUN

STYLE_NAME = "PU-Geo"
TABLE = (
    "CREATE TABLE layer_styles (id INTEGER PRIMARY KEY AUTOINCREMENT NOT NULL, f_table_catalog TEXT(256), "
    "f_table_schema TEXT(256), f_table_name TEXT(256), f_geometry_column TEXT(256), styleName TEXT(30), styleQML TEXT, "
    "styleSLD TEXT, useAsDefault BOOLEAN, description TEXT, owner TEXT(30), ui TEXT(30), "
    "update_time DATETIME DEFAULT (strftime('%Y-%m-%dT%H:%M:%fZ','now')))"
)
_LIT = '"label" IS NULL AND "assessed" = 1 AND '
_RULES = (  # words, filter, fill; what nobody can know is hatched
    ("Confirmed by a person", "\"label\" = 'positive'", {"color": "213,94,0,220"}),
    ("Not damaged, by a person", "\"label\" = 'not_damaged'", {"color": "0,114,178,150"}),
    (
        "Not assessed",
        '"assessed" = 0 AND ("label" IS NOT NULL OR "run_id" IS NOT NULL)',
        {"color": "138,138,138,255", "style": "b_diagonal"},
    ),
    ("Flagged by score", f"{_LIT}\"damage_binary\" = 'damaged'", {"color": "230,159,0,217"}),
    (
        "Not flagged (no proof of an intact building)",
        f"{_LIT}\"damage_binary\" = 'not_flagged'",
        {"color": "180,180,180,153"},
    ),
    ("No score yet", '"label" IS NULL AND "run_id" IS NULL', {"style": "no", "color": "0,0,0,0"}),
)
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
    listed = "".join(f'<Option name="{key}" type="QString" value="{value}"/>' for key, value in options.items())
    return (
        f'<symbol name="{name}" type="fill" alpha="1" clip_to_extent="1" force_rhr="0"><layer class="SimpleFill" '
        'enabled="1" '
        f'locked="0" pass="0"><Option type="Map">{listed}</Option></layer></symbol>'
    )


def insert(table: str, qml: str, description: str) -> str:
    """Return the statement that stores a default style."""
    return (
        "INSERT INTO layer_styles (f_table_catalog, f_table_schema, f_table_name, f_geometry_column, styleName, styleQML, "
        f"useAsDefault, description, owner) VALUES ('', '', '{table}', 'geom', '{STYLE_NAME}', {_quoted(qml)}, 1, "
        f"{_quoted(description)}, '')"
    )


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


SCHEMA = 1
APPLICATION_ID = 0x47504B47  # "GPKG"
USER_VERSION = 10300
UNDEFINED_CARTESIAN = -1  # GeoPackage's own number for local coordinates
CUSTOM_SRS = 100000  # a CRS without an EPSG code

_GEOPACKAGE = """
CREATE TABLE gpkg_spatial_ref_sys (
  srs_name TEXT NOT NULL, srs_id INTEGER PRIMARY KEY, organization TEXT NOT NULL,
  organization_coordsys_id INTEGER NOT NULL, definition TEXT NOT NULL, description TEXT);
INSERT INTO gpkg_spatial_ref_sys VALUES
  ('Undefined cartesian', -1, 'NONE', -1, 'undefined', NULL),
  ('Undefined geographic', 0, 'NONE', 0, 'undefined', NULL),
  ('WGS 84', 4326, 'EPSG', 4326, 'GEOGCS["WGS 84",DATUM["WGS_1984",SPHEROID["WGS 84",6378137,298.257223563]],'
    || 'PRIMEM["Greenwich",0],UNIT["degree",0.0174532925199433],AUTHORITY["EPSG","4326"]]', NULL);
CREATE TABLE gpkg_contents (
  table_name TEXT NOT NULL PRIMARY KEY, data_type TEXT NOT NULL, identifier TEXT UNIQUE, description TEXT DEFAULT '',
  last_change DATETIME NOT NULL DEFAULT (strftime('%Y-%m-%dT%H:%M:%fZ','now')),
  min_x DOUBLE, min_y DOUBLE, max_x DOUBLE, max_y DOUBLE, srs_id INTEGER,
  FOREIGN KEY (srs_id) REFERENCES gpkg_spatial_ref_sys(srs_id));
CREATE TABLE gpkg_geometry_columns (
  table_name TEXT NOT NULL, column_name TEXT NOT NULL, geometry_type_name TEXT NOT NULL, srs_id INTEGER NOT NULL,
  z TINYINT NOT NULL, m TINYINT NOT NULL, PRIMARY KEY (table_name, column_name),
  FOREIGN KEY (srs_id) REFERENCES gpkg_spatial_ref_sys(srs_id));
"""

# What an answer says beside its label, and where it comes from.
_ANSWER_COLUMNS = (
    "reason TEXT NOT NULL DEFAULT '' CHECK (reason IN "
    "('', 'cloud', 'outside_image', 'nodata', 'misaligned', 'no_building', 'unclear'))",
    "damage_types TEXT NOT NULL DEFAULT '[]'",  # a JSON list of texts
    "comment TEXT NOT NULL DEFAULT '' CHECK (length(comment) <= 500)",
    "shown TEXT NOT NULL DEFAULT '' CHECK (shown IN ('', 'exploit', 'explore', 'audit'))",
    "inclusion REAL CHECK ((shown = 'audit') = (inclusion IS NOT NULL) AND ifnull(inclusion > 0 AND inclusion <= 1, 1))",
    "answer INTEGER",  # undo and redo: the event whose answer stands afterwards; NULL is this event itself
    "origin_at TEXT",  # imported events: when and as what kind they were made where they come from, and who imported them
    "origin_kind TEXT CHECK (origin_kind IN ('set', 'undo', 'redo', 'import', 'simulated'))",
    "imported_by TEXT",
)

# How badly a damaged building is damaged: the id of a grade, see `grades`.
_GRADE = f"grade TEXT NOT NULL DEFAULT '' CHECK (length(grade) <= {MAX_GRADE} AND (grade = '' OR label = 'positive'))"

# Types of damage that the analyst looked for and did not find, a JSON list of texts: what no list names, nobody answered.
_ABSENT_TYPES = "absent_types TEXT NOT NULL DEFAULT '[]' CHECK (absent_types = '[]' OR label = 'positive')"

# What the map says of each building, as an export of the same moment does: `tests/maps/test_live_view.py` compares the two.
# GDAL takes a column without a declared type or a CAST for text. Scores are stored as exports write them, with 4 decimals;
# so are thresholds. A person's answer overrides the picture.
_VIEW = f"""
CREATE VIEW damage_map AS
  SELECT OGC_FID, geom, building_id, area_m2, label, labeller, labelled_at,
    CAST(CASE WHEN why IS NULL THEN score END AS REAL) AS score,
    CAST(CASE WHEN why IS NULL THEN rank END AS INTEGER) AS rank,
    run_id, reason, damage_types, absent_types, comment, grade, threshold,
    CAST(why IS NULL AS INTEGER) AS assessed, why AS not_assessed_reason,
    CASE WHEN why IS NOT NULL THEN 'not_assessed' WHEN label = 'positive' THEN 'damaged'
    WHEN label IS NOT NULL THEN 'not_flagged'
      WHEN score >= threshold THEN 'damaged' ELSE 'not_flagged' END AS damage_binary
  FROM (
    SELECT *, CASE WHEN label = 'not_assessable' THEN ifnull(reason, 'unclear') WHEN label IS NOT NULL THEN NULL
      WHEN run_id IS NULL THEN 'no_run' WHEN score IS NULL THEN '{NOT_IN_RUN}' WHEN hidden IS NULL THEN 'not_known'
      ELSE nullif(hidden, '') END AS why
    FROM (
      SELECT f.fid AS OGC_FID, f.geom AS geom, f.building_id AS building_id, f.area_m2 AS area_m2,
        CASE WHEN e.label = 'cleared' THEN NULL ELSE e.label END AS label, a.analyst AS labeller,
        ifnull(a.origin_at, a.at) AS labelled_at, s.score AS score,
        CASE WHEN s.score IS NOT NULL THEN row_number() OVER (PARTITION BY s.score IS NULL ORDER BY s.rank) END AS rank,
        c.run_id AS run_id,
        CASE WHEN e.reason = '' THEN NULL ELSE e.reason END AS reason,
        CASE WHEN e.damage_types = '[]' THEN NULL ELSE e.damage_types END AS damage_types,
        CASE WHEN e.absent_types = '[]' THEN NULL ELSE e.absent_types END AS absent_types,
        CASE WHEN e.comment = '' THEN NULL ELSE e.comment END AS comment,
        CASE WHEN e.grade = '' THEN NULL ELSE e.grade END AS grade, c.threshold AS threshold, s.reason AS hidden
      FROM footprints f
      LEFT JOIN label_event e ON e.event = (SELECT max(x.event) FROM label_event x WHERE x.building_id = f.building_id)
      LEFT JOIN label_event a ON a.event = ifnull(e.answer, e.event)
      LEFT JOIN (SELECT p.run_id AS run_id, (SELECT t.threshold FROM threshold t WHERE t.run_id = p.run_id
        ORDER BY t.step DESC LIMIT 1) AS threshold FROM pinned_run p WHERE p.run_id IN (SELECT run_id FROM run)
        ORDER BY p.pin DESC LIMIT 1) c ON TRUE
      LEFT JOIN score s ON s.run_id = c.run_id AND s.building_id = f.building_id
        AND s.reason IS NOT '{NOT_IN_RUN}')) ORDER BY OGC_FID
"""

_INTAKE = "intake INTEGER"  # the file that a footprint came from, see `import_log`

# Why the picture keeps a building from being assessed: "" where it does not, NULL where nobody noted it.
_HIDDEN = "reason TEXT"

_TABLES = f"""
CREATE TABLE pugeo_meta (key TEXT PRIMARY KEY, value TEXT NOT NULL);
CREATE TABLE footprints (
  fid INTEGER PRIMARY KEY AUTOINCREMENT NOT NULL, geom BLOB NOT NULL, building_id TEXT NOT NULL UNIQUE,
  area_m2 REAL, source_footprint TEXT, attributes TEXT NOT NULL DEFAULT '{{}}', {_INTAKE});
CREATE TABLE former (  -- where removed buildings stood, and whether what was seen there may have chosen them
  building_id TEXT PRIMARY KEY, geom BLOB NOT NULL, source_footprint TEXT, by_list INTEGER NOT NULL);
CREATE TABLE scene (
  scene_id TEXT PRIMARY KEY, role TEXT NOT NULL, path TEXT NOT NULL, facts TEXT NOT NULL, added_at TEXT NOT NULL);
CREATE TABLE chip_set (  -- by number: no clock says which is the newest, and no number is given twice
  number INTEGER PRIMARY KEY AUTOINCREMENT, chip_set TEXT NOT NULL UNIQUE, bands TEXT NOT NULL, size_px INTEGER NOT NULL,
  n INTEGER NOT NULL, made_at TEXT NOT NULL);
CREATE TABLE label_event (
  event INTEGER PRIMARY KEY AUTOINCREMENT, op TEXT NOT NULL UNIQUE, building_id TEXT NOT NULL, label TEXT NOT NULL
    CHECK (label IN ('positive', 'not_damaged', 'not_assessable', 'cleared')),
  analyst TEXT NOT NULL, at TEXT NOT NULL, screen TEXT NOT NULL,
  kind TEXT NOT NULL CHECK (kind IN ('set', 'undo', 'redo', 'import', 'simulated')), undoes INTEGER, act TEXT NOT NULL,
  {", ".join((*_ANSWER_COLUMNS, _GRADE, _ABSENT_TYPES))});
CREATE INDEX label_event_building ON label_event (building_id, event);
CREATE INDEX label_event_act ON label_event (act);
CREATE TABLE empty_step (op TEXT PRIMARY KEY);  -- undo and redo that found nothing to do, so that a replay does nothing too
CREATE TRIGGER label_event_no_update BEFORE UPDATE ON label_event
  BEGIN SELECT RAISE(ABORT, 'label events are never changed'); END;
CREATE TRIGGER label_event_no_delete BEFORE DELETE ON label_event
  BEGIN SELECT RAISE(ABORT, 'label events are never deleted'); END;
CREATE TABLE run (
  number INTEGER PRIMARY KEY AUTOINCREMENT, run_id TEXT NOT NULL UNIQUE, method TEXT NOT NULL, created_at TEXT NOT NULL,
  facts TEXT NOT NULL);
CREATE TABLE score (
  run_id TEXT NOT NULL, building_id TEXT NOT NULL, score REAL NOT NULL, rank INTEGER NOT NULL,
  {_HIDDEN}, PRIMARY KEY (run_id, building_id)) WITHOUT ROWID;
CREATE TABLE pinned_run (
  pin INTEGER PRIMARY KEY AUTOINCREMENT, run_id TEXT NOT NULL, at TEXT NOT NULL, by_person INTEGER NOT NULL);{_VIEW};
"""

_REGISTRY = """
INSERT INTO gpkg_contents (table_name, data_type, identifier, description, srs_id) VALUES
  ('footprints', 'features', 'footprints', 'building footprints', 0),
  ('damage_map', 'features', 'damage_map', 'footprints with current label and pinned score (live view)', 0),
  ('label_event', 'attributes', 'label_event', 'append-only log of labels', NULL),
  ('scene', 'attributes', 'scene', 'pre and post scenes', NULL),
  ('chip_set', 'attributes', 'chip_set', 'chips cut so far', NULL),
  ('run', 'attributes', 'run', 'finished runs', NULL),
  ('score', 'attributes', 'score', 'scores of pinned runs', NULL),
  ('pinned_run', 'attributes', 'pinned_run', 'which run the live map shows', NULL);
INSERT INTO gpkg_geometry_columns VALUES
  ('footprints', 'geom', 'GEOMETRY', 0, 0, 0), ('damage_map', 'geom', 'GEOMETRY', 0, 0, 0);
"""

# Areas that damage is summed up by, and styles for QGIS.
_AREAS = (
    "CREATE TABLE areas (fid INTEGER PRIMARY KEY AUTOINCREMENT NOT NULL, geom BLOB NOT NULL, layer TEXT NOT NULL, "
    "name TEXT NOT NULL, pcode TEXT)",
    "INSERT INTO gpkg_contents (table_name, data_type, identifier, description, srs_id) SELECT 'areas', 'features', "
    "'areas', 'areas that damage is summed up by', srs_id FROM gpkg_contents WHERE table_name = 'footprints'",
    "INSERT INTO gpkg_geometry_columns SELECT 'areas', 'geom', 'GEOMETRY', srs_id, 0, 0 FROM gpkg_geometry_columns "
    "WHERE table_name = 'footprints'",
    TABLE,
    "INSERT INTO gpkg_contents (table_name, data_type, identifier) VALUES ('layer_styles', 'attributes', 'layer_styles')",
    insert("damage_map", damage_map_qml(), "What the damage map says"),
    insert("areas", areas_qml(), "Outlines"),
)

# The area of interest, and what became of each file of footprints. Areas of interest are a log, the layer
# shows its last entry: taking away is an entry without geometry, and nothing is ever lost.
_AOI = (
    "CREATE TABLE aoi_log (step INTEGER PRIMARY KEY AUTOINCREMENT NOT NULL, geom BLOB, source TEXT NOT NULL, at TEXT NOT "
    "NULL)",
    "CREATE VIEW aoi AS SELECT step AS OGC_FID, geom, source, at FROM aoi_log "
    "WHERE step = (SELECT max(step) FROM aoi_log) AND geom IS NOT NULL",
    "CREATE TABLE intake (intake INTEGER PRIMARY KEY AUTOINCREMENT NOT NULL, file TEXT NOT NULL, at TEXT NOT NULL, n_in "
    "INTEGER NOT NULL, kept INTEGER NOT NULL, repaired INTEGER NOT NULL, dropped INTEGER NOT NULL, dropped_by TEXT NOT "
    "NULL, notes TEXT NOT NULL, doubts TEXT NOT NULL DEFAULT '[]', CHECK (n_in = kept + repaired + dropped))",
    "INSERT INTO gpkg_contents (table_name, data_type, identifier, description, srs_id) SELECT 'aoi', 'features', 'aoi', "
    "'area of interest (live view)', srs_id FROM gpkg_contents WHERE table_name = 'footprints'",
    "INSERT INTO gpkg_contents (table_name, data_type, identifier, description) "
    "VALUES ('intake', 'attributes', 'intake', 'what became of each file of footprints')",
    "INSERT INTO gpkg_geometry_columns SELECT 'aoi', 'geom', 'GEOMETRY', srs_id, 0, 0 FROM gpkg_geometry_columns "
    "WHERE table_name = 'footprints'",
    insert("aoi", areas_qml(), "Outline"),
)

# What people decided about groups of buildings: see `decisions`.
_DECISIONS = (
    "CREATE TABLE decision (decision INTEGER PRIMARY KEY AUTOINCREMENT NOT NULL, op TEXT NOT NULL UNIQUE, kind TEXT NOT "
    "NULL, name TEXT NOT NULL, analyst TEXT NOT NULL, at TEXT NOT NULL, facts TEXT NOT NULL)",
    "CREATE INDEX decision_kind ON decision (kind, name, decision)",
    "CREATE TRIGGER decision_no_update BEFORE UPDATE ON decision "
    "BEGIN SELECT RAISE(ABORT, 'decisions are never changed'); END",
    "CREATE TRIGGER decision_no_delete BEFORE DELETE ON decision "
    "BEGIN SELECT RAISE(ABORT, 'decisions are never deleted'); END",
    "INSERT INTO gpkg_contents (table_name, data_type, identifier, description) "
    "VALUES ('decision', 'attributes', 'decision', 'append-only log of decisions about groups of buildings')",
)

# What people chose: see `choices`.
_CHOICES = (
    "CREATE TABLE threshold (step INTEGER PRIMARY KEY AUTOINCREMENT NOT NULL, run_id TEXT NOT NULL, threshold REAL NOT "
    "NULL, origin TEXT NOT NULL, at TEXT NOT NULL)",
    "CREATE INDEX threshold_run ON threshold (run_id, step)",
    "CREATE TABLE choice (choice INTEGER PRIMARY KEY AUTOINCREMENT NOT NULL, name TEXT NOT NULL, value TEXT NOT NULL, "
    "at TEXT NOT NULL)",
    "CREATE INDEX choice_name ON choice (name, choice)",
    *(
        f"CREATE TRIGGER {table}_no_{verb.lower()} BEFORE {verb} ON {table} "
        f"BEGIN SELECT RAISE(ABORT, 'choices are never changed'); END"
        for table in ("threshold", "choice")
        for verb in ("UPDATE", "DELETE")
    ),
    "INSERT INTO gpkg_contents (table_name, data_type, identifier, description) VALUES "
    "('threshold', 'attributes', 'threshold', 'append-only log of the threshold of each run, and who or what set it'), "
    "('choice', 'attributes', 'choice', 'append-only log of what people chose on the screens')",
)

# What was removed, and what became of it: see `removals`.
_REMOVALS = (
    "CREATE TABLE removal (removal INTEGER PRIMARY KEY AUTOINCREMENT NOT NULL, op TEXT NOT NULL UNIQUE, kind TEXT NOT NULL, "
    "name TEXT NOT NULL, analyst TEXT NOT NULL, at TEXT NOT NULL, facts TEXT NOT NULL)",
    "CREATE TABLE removal_end (removal INTEGER PRIMARY KEY NOT NULL, how TEXT NOT NULL CHECK (how IN ('undone', "
    "'reclaimed')), analyst TEXT NOT NULL, at TEXT NOT NULL)",
    *(
        f"CREATE TRIGGER {table}_no_{verb.lower()} BEFORE {verb} ON {table} "
        f"BEGIN SELECT RAISE(ABORT, 'removals are never changed'); END"
        for table in ("removal", "removal_end")
        for verb in ("UPDATE", "DELETE")
    ),
    "INSERT INTO gpkg_contents (table_name, data_type, identifier, description) VALUES ('removal', 'attributes', "
    "'removal', 'append-only log of what was removed'), ('removal_end', 'attributes', 'removal_end', 'append-only log of "
    "removals that were undone or whose space was reclaimed')",
)

CREATE = (
    _GEOPACKAGE
    + _TABLES
    + _REGISTRY
    + "".join(f"{statement};\n" for statement in (*_AREAS, *_AOI, *_DECISIONS, *_CHOICES, *_REMOVALS))
)
