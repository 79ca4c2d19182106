
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

CREATE TABLE pugeo_meta (key TEXT PRIMARY KEY, value TEXT NOT NULL);
CREATE TABLE footprints (
  fid INTEGER PRIMARY KEY AUTOINCREMENT NOT NULL, geom BLOB NOT NULL, building_id TEXT NOT NULL UNIQUE,
  area_m2 REAL, source_footprint TEXT, attributes TEXT NOT NULL DEFAULT '{}', intake INTEGER);
CREATE TABLE scene (
  scene_id TEXT PRIMARY KEY, role TEXT NOT NULL, path TEXT NOT NULL, facts TEXT NOT NULL, added_at TEXT NOT NULL);
CREATE TABLE chip_set (
  chip_set TEXT PRIMARY KEY, bands TEXT NOT NULL, size_px INTEGER NOT NULL, n INTEGER NOT NULL, made_at TEXT NOT NULL);
CREATE TABLE label_event (
  event INTEGER PRIMARY KEY AUTOINCREMENT, op TEXT NOT NULL UNIQUE, building_id TEXT NOT NULL, label TEXT NOT NULL
    CHECK (label IN ('positive', 'not_damaged', 'not_assessable', 'cleared')),
  analyst TEXT NOT NULL, at TEXT NOT NULL, screen TEXT NOT NULL,
  kind TEXT NOT NULL CHECK (kind IN ('set', 'undo', 'redo', 'import', 'simulated')), undoes INTEGER, act TEXT NOT NULL,
  reason TEXT NOT NULL DEFAULT '' CHECK (reason IN ('', 'cloud', 'outside_image', 'nodata', 'misaligned', 'no_building', 'unclear')), damage_types TEXT NOT NULL DEFAULT '[]', comment TEXT NOT NULL DEFAULT '' CHECK (length(comment) <= 500), shown TEXT NOT NULL DEFAULT '' CHECK (shown IN ('', 'exploit', 'explore', 'audit')), inclusion REAL CHECK ((shown = 'audit') = (inclusion IS NOT NULL) AND ifnull(inclusion > 0 AND inclusion <= 1, 1)), answer INTEGER, origin_at TEXT, origin_kind TEXT CHECK (origin_kind IN ('set', 'undo', 'redo', 'import', 'simulated')), imported_by TEXT, grade TEXT NOT NULL DEFAULT '' CHECK (length(grade) <= 40 AND (grade = '' OR label = 'positive')));
CREATE INDEX label_event_building ON label_event (building_id, event);
CREATE INDEX label_event_act ON label_event (act);
CREATE TABLE empty_step (op TEXT PRIMARY KEY);  -- undo and redo that found nothing to do, so that a replay does nothing too
CREATE TRIGGER label_event_no_update BEFORE UPDATE ON label_event
  BEGIN SELECT RAISE(ABORT, 'label events are never changed'); END;
CREATE TRIGGER label_event_no_delete BEFORE DELETE ON label_event
  BEGIN SELECT RAISE(ABORT, 'label events are never deleted'); END;
CREATE TABLE run (
  run_id TEXT PRIMARY KEY, method TEXT NOT NULL, created_at TEXT NOT NULL, facts TEXT NOT NULL);
CREATE TABLE score (
  run_id TEXT NOT NULL, building_id TEXT NOT NULL, score REAL NOT NULL, rank INTEGER NOT NULL,
  reason TEXT, PRIMARY KEY (run_id, building_id)) WITHOUT ROWID;
CREATE TABLE pinned_run (
  pin INTEGER PRIMARY KEY AUTOINCREMENT, run_id TEXT NOT NULL, at TEXT NOT NULL, by_person INTEGER NOT NULL);
CREATE VIEW damage_map AS
  SELECT OGC_FID, geom, building_id, area_m2, label, labeller, labelled_at,
    CAST(CASE WHEN why IS NULL THEN score END AS REAL) AS score, CAST(CASE WHEN why IS NULL THEN rank END AS INTEGER) AS rank,
    run_id, reason, damage_types, comment, grade, threshold, CAST(why IS NULL AS INTEGER) AS assessed, why AS not_assessed_reason,
    CASE WHEN why IS NOT NULL THEN 'not_assessed' WHEN label = 'positive' THEN 'damaged' WHEN label IS NOT NULL THEN 'not_flagged'
      WHEN score >= threshold THEN 'damaged' ELSE 'not_flagged' END AS damage_binary
  FROM (
    SELECT *, CASE WHEN label = 'not_assessable' THEN ifnull(reason, 'unclear') WHEN label IS NOT NULL THEN NULL
      WHEN run_id IS NULL THEN 'no_run' WHEN score IS NULL THEN 'not_in_run' WHEN hidden IS NULL THEN 'not_known'
      ELSE nullif(hidden, '') END AS why
    FROM (
      SELECT f.fid AS OGC_FID, f.geom AS geom, f.building_id AS building_id, f.area_m2 AS area_m2,
        CASE WHEN e.label = 'cleared' THEN NULL ELSE e.label END AS label, a.analyst AS labeller,
        ifnull(a.origin_at, a.at) AS labelled_at, s.score AS score, s.rank AS rank, c.run_id AS run_id,
        CASE WHEN e.reason = '' THEN NULL ELSE e.reason END AS reason,
        CASE WHEN e.damage_types = '[]' THEN NULL ELSE e.damage_types END AS damage_types,
        CASE WHEN e.comment = '' THEN NULL ELSE e.comment END AS comment,
        CASE WHEN e.grade = '' THEN NULL ELSE e.grade END AS grade, c.threshold AS threshold, s.reason AS hidden
      FROM footprints f
      LEFT JOIN label_event e ON e.event = (SELECT max(x.event) FROM label_event x WHERE x.building_id = f.building_id)
      LEFT JOIN label_event a ON a.event = ifnull(e.answer, e.event)
      LEFT JOIN (SELECT p.run_id AS run_id, (SELECT t.threshold FROM threshold t WHERE t.run_id = p.run_id
        ORDER BY t.step DESC LIMIT 1) AS threshold FROM pinned_run p WHERE p.run_id IN (SELECT run_id FROM run)
        ORDER BY p.pin DESC LIMIT 1) c ON TRUE
      LEFT JOIN score s ON s.run_id = c.run_id AND s.building_id = f.building_id))
;

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
CREATE TABLE areas (fid INTEGER PRIMARY KEY AUTOINCREMENT NOT NULL, geom BLOB NOT NULL, layer TEXT NOT NULL, name TEXT NOT NULL, pcode TEXT);
INSERT INTO gpkg_contents (table_name, data_type, identifier, description, srs_id) SELECT 'areas', 'features', 'areas', 'areas that damage is summed up by', srs_id FROM gpkg_contents WHERE table_name = 'footprints';
INSERT INTO gpkg_geometry_columns SELECT 'areas', 'geom', 'GEOMETRY', srs_id, 0, 0 FROM gpkg_geometry_columns WHERE table_name = 'footprints';
CREATE TABLE IF NOT EXISTS layer_styles (id INTEGER PRIMARY KEY AUTOINCREMENT NOT NULL, f_table_catalog TEXT(256), f_table_schema TEXT(256), f_table_name TEXT(256), f_geometry_column TEXT(256), styleName TEXT(30), styleQML TEXT, styleSLD TEXT, useAsDefault BOOLEAN, description TEXT, owner TEXT(30), ui TEXT(30), update_time DATETIME DEFAULT (strftime('%Y-%m-%dT%H:%M:%fZ','now')));
INSERT OR IGNORE INTO gpkg_contents (table_name, data_type, identifier) VALUES ('layer_styles', 'attributes', 'layer_styles');
INSERT INTO layer_styles (f_table_catalog, f_table_schema, f_table_name, f_geometry_column, styleName, styleQML, useAsDefault, description, owner) SELECT '', '', 'damage_map', 'geom', 'PU-Geo', '<!DOCTYPE qgis PUBLIC ''http://mrcc.com/qgis.dtd'' ''SYSTEM''><qgis version="3.28.0" styleCategories="Symbology"><renderer-v2 forceraster="0" symbollevels="0" enableorderby="0" type="RuleRenderer"><rules key="{pu-geo}"><rule key="{pu-geo-0}" label="Confirmed by a person" filter="&quot;label&quot; = ''positive''" symbol="0"/><rule key="{pu-geo-1}" label="Not damaged, by a person" filter="&quot;label&quot; = ''not_damaged''" symbol="1"/><rule key="{pu-geo-2}" label="Not assessed" filter=''"assessed" = 0 AND ("label" IS NOT NULL OR "run_id" IS NOT NULL)'' symbol="2"/><rule key="{pu-geo-3}" label="Flagged by score" filter="&quot;label&quot; IS NULL AND &quot;assessed&quot; = 1 AND &quot;damage_binary&quot; = ''damaged''" symbol="3"/><rule key="{pu-geo-4}" label="Not flagged (no proof of an intact building)" filter="&quot;label&quot; IS NULL AND &quot;assessed&quot; = 1 AND &quot;damage_binary&quot; = ''not_flagged''" symbol="4"/><rule key="{pu-geo-5}" label="No score yet" filter=''"label" IS NULL AND "run_id" IS NULL'' symbol="5"/></rules><symbols><symbol name="0" type="fill" alpha="1" clip_to_extent="1" force_rhr="0"><layer class="SimpleFill" enabled="1" locked="0" pass="0"><Option type="Map"><Option name="style" type="QString" value="solid"/><Option name="color" type="QString" value="213,94,0,220"/><Option name="outline_color" type="QString" value="51,51,51,255"/><Option name="outline_style" type="QString" value="solid"/><Option name="outline_width" type="QString" value="0.1"/><Option name="outline_width_unit" type="QString" value="MM"/></Option></layer></symbol><symbol name="1" type="fill" alpha="1" clip_to_extent="1" force_rhr="0"><layer class="SimpleFill" enabled="1" locked="0" pass="0"><Option type="Map"><Option name="style" type="QString" value="solid"/><Option name="color" type="QString" value="0,114,178,150"/><Option name="outline_color" type="QString" value="51,51,51,255"/><Option name="outline_style" type="QString" value="solid"/><Option name="outline_width" type="QString" value="0.1"/><Option name="outline_width_unit" type="QString" value="MM"/></Option></layer></symbol><symbol name="2" type="fill" alpha="1" clip_to_extent="1" force_rhr="0"><layer class="SimpleFill" enabled="1" locked="0" pass="0"><Option type="Map"><Option name="style" type="QString" value="b_diagonal"/><Option name="color" type="QString" value="138,138,138,255"/><Option name="outline_color" type="QString" value="51,51,51,255"/><Option name="outline_style" type="QString" value="solid"/><Option name="outline_width" type="QString" value="0.1"/><Option name="outline_width_unit" type="QString" value="MM"/></Option></layer></symbol><symbol name="3" type="fill" alpha="1" clip_to_extent="1" force_rhr="0"><layer class="SimpleFill" enabled="1" locked="0" pass="0"><Option type="Map"><Option name="style" type="QString" value="solid"/><Option name="color" type="QString" value="230,159,0,217"/><Option name="outline_color" type="QString" value="51,51,51,255"/><Option name="outline_style" type="QString" value="solid"/><Option name="outline_width" type="QString" value="0.1"/><Option name="outline_width_unit" type="QString" value="MM"/></Option></layer></symbol><symbol name="4" type="fill" alpha="1" clip_to_extent="1" force_rhr="0"><layer class="SimpleFill" enabled="1" locked="0" pass="0"><Option type="Map"><Option name="style" type="QString" value="solid"/><Option name="color" type="QString" value="180,180,180,153"/><Option name="outline_color" type="QString" value="51,51,51,255"/><Option name="outline_style" type="QString" value="solid"/><Option name="outline_width" type="QString" value="0.1"/><Option name="outline_width_unit" type="QString" value="MM"/></Option></layer></symbol><symbol name="5" type="fill" alpha="1" clip_to_extent="1" force_rhr="0"><layer class="SimpleFill" enabled="1" locked="0" pass="0"><Option type="Map"><Option name="style" type="QString" value="no"/><Option name="color" type="QString" value="0,0,0,0"/><Option name="outline_color" type="QString" value="51,51,51,255"/><Option name="outline_style" type="QString" value="solid"/><Option name="outline_width" type="QString" value="0.1"/><Option name="outline_width_unit" type="QString" value="MM"/></Option></layer></symbol></symbols></renderer-v2><layerGeometryType>2</layerGeometryType></qgis>', NOT EXISTS (SELECT 1 FROM layer_styles WHERE f_table_name = 'damage_map' AND useAsDefault), 'What the damage map says', '';
INSERT INTO layer_styles (f_table_catalog, f_table_schema, f_table_name, f_geometry_column, styleName, styleQML, useAsDefault, description, owner) SELECT '', '', 'areas', 'geom', 'PU-Geo', '<!DOCTYPE qgis PUBLIC ''http://mrcc.com/qgis.dtd'' ''SYSTEM''><qgis version="3.28.0" styleCategories="Symbology"><renderer-v2 forceraster="0" symbollevels="0" enableorderby="0" type="singleSymbol"><symbols><symbol name="0" type="fill" alpha="1" clip_to_extent="1" force_rhr="0"><layer class="SimpleFill" enabled="1" locked="0" pass="0"><Option type="Map"><Option name="style" type="QString" value="no"/><Option name="color" type="QString" value="0,0,0,0"/><Option name="outline_color" type="QString" value="51,51,51,255"/><Option name="outline_style" type="QString" value="solid"/><Option name="outline_width" type="QString" value="0.5"/><Option name="outline_width_unit" type="QString" value="MM"/></Option></layer></symbol></symbols></renderer-v2><layerGeometryType>2</layerGeometryType></qgis>', NOT EXISTS (SELECT 1 FROM layer_styles WHERE f_table_name = 'areas' AND useAsDefault), 'Outlines', '';
CREATE TABLE aoi_log (step INTEGER PRIMARY KEY AUTOINCREMENT NOT NULL, geom BLOB, source TEXT NOT NULL, at TEXT NOT NULL);
CREATE VIEW aoi AS SELECT step AS OGC_FID, geom, source, at FROM aoi_log WHERE step = (SELECT max(step) FROM aoi_log) AND geom IS NOT NULL;
CREATE TABLE intake (intake INTEGER PRIMARY KEY AUTOINCREMENT NOT NULL, file TEXT NOT NULL, at TEXT NOT NULL, n_in INTEGER NOT NULL, kept INTEGER NOT NULL, repaired INTEGER NOT NULL, dropped INTEGER NOT NULL, dropped_by TEXT NOT NULL, notes TEXT NOT NULL, CHECK (n_in = kept + repaired + dropped));
INSERT INTO gpkg_contents (table_name, data_type, identifier, description, srs_id) SELECT 'aoi', 'features', 'aoi', 'area of interest (live view)', srs_id FROM gpkg_contents WHERE table_name = 'footprints';
INSERT INTO gpkg_contents (table_name, data_type, identifier, description) VALUES ('intake', 'attributes', 'intake', 'what became of each file of footprints');
INSERT INTO gpkg_geometry_columns SELECT 'aoi', 'geom', 'GEOMETRY', srs_id, 0, 0 FROM gpkg_geometry_columns WHERE table_name = 'footprints';
INSERT INTO layer_styles (f_table_catalog, f_table_schema, f_table_name, f_geometry_column, styleName, styleQML, useAsDefault, description, owner) SELECT '', '', 'aoi', 'geom', 'PU-Geo', '<!DOCTYPE qgis PUBLIC ''http://mrcc.com/qgis.dtd'' ''SYSTEM''><qgis version="3.28.0" styleCategories="Symbology"><renderer-v2 forceraster="0" symbollevels="0" enableorderby="0" type="singleSymbol"><symbols><symbol name="0" type="fill" alpha="1" clip_to_extent="1" force_rhr="0"><layer class="SimpleFill" enabled="1" locked="0" pass="0"><Option type="Map"><Option name="style" type="QString" value="no"/><Option name="color" type="QString" value="0,0,0,0"/><Option name="outline_color" type="QString" value="51,51,51,255"/><Option name="outline_style" type="QString" value="solid"/><Option name="outline_width" type="QString" value="0.5"/><Option name="outline_width_unit" type="QString" value="MM"/></Option></layer></symbol></symbols></renderer-v2><layerGeometryType>2</layerGeometryType></qgis>', NOT EXISTS (SELECT 1 FROM layer_styles WHERE f_table_name = 'aoi' AND useAsDefault), 'Outline', '';
CREATE TABLE decision (decision INTEGER PRIMARY KEY AUTOINCREMENT NOT NULL, op TEXT NOT NULL UNIQUE, kind TEXT NOT NULL, name TEXT NOT NULL, analyst TEXT NOT NULL, at TEXT NOT NULL, facts TEXT NOT NULL);
CREATE INDEX decision_kind ON decision (kind, name, decision);
CREATE TRIGGER decision_no_update BEFORE UPDATE ON decision BEGIN SELECT RAISE(ABORT, 'decisions are never changed'); END;
CREATE TRIGGER decision_no_delete BEFORE DELETE ON decision BEGIN SELECT RAISE(ABORT, 'decisions are never deleted'); END;
INSERT INTO gpkg_contents (table_name, data_type, identifier, description) VALUES ('decision', 'attributes', 'decision', 'append-only log of decisions about groups of buildings');
CREATE TABLE threshold (step INTEGER PRIMARY KEY AUTOINCREMENT NOT NULL, run_id TEXT NOT NULL, threshold REAL NOT NULL, origin TEXT NOT NULL, at TEXT NOT NULL);
CREATE INDEX threshold_run ON threshold (run_id, step);
CREATE TABLE choice (choice INTEGER PRIMARY KEY AUTOINCREMENT NOT NULL, name TEXT NOT NULL, value TEXT NOT NULL, at TEXT NOT NULL);
CREATE INDEX choice_name ON choice (name, choice);
CREATE TRIGGER threshold_no_update BEFORE UPDATE ON threshold BEGIN SELECT RAISE(ABORT, 'choices are never changed'); END;
CREATE TRIGGER threshold_no_delete BEFORE DELETE ON threshold BEGIN SELECT RAISE(ABORT, 'choices are never changed'); END;
CREATE TRIGGER choice_no_update BEFORE UPDATE ON choice BEGIN SELECT RAISE(ABORT, 'choices are never changed'); END;
CREATE TRIGGER choice_no_delete BEFORE DELETE ON choice BEGIN SELECT RAISE(ABORT, 'choices are never changed'); END;
INSERT INTO gpkg_contents (table_name, data_type, identifier, description) VALUES ('threshold', 'attributes', 'threshold', 'append-only log of the threshold of each run, and who or what set it'), ('choice', 'attributes', 'choice', 'append-only log of what people chose on the screens');
CREATE TABLE removal (removal INTEGER PRIMARY KEY AUTOINCREMENT NOT NULL, op TEXT NOT NULL UNIQUE, kind TEXT NOT NULL, name TEXT NOT NULL, analyst TEXT NOT NULL, at TEXT NOT NULL, facts TEXT NOT NULL);
CREATE TABLE removal_end (removal INTEGER PRIMARY KEY NOT NULL, how TEXT NOT NULL CHECK (how IN ('undone', 'reclaimed')), analyst TEXT NOT NULL, at TEXT NOT NULL);
CREATE TRIGGER removal_no_update BEFORE UPDATE ON removal BEGIN SELECT RAISE(ABORT, 'removals are never changed'); END;
CREATE TRIGGER removal_no_delete BEFORE DELETE ON removal BEGIN SELECT RAISE(ABORT, 'removals are never changed'); END;
CREATE TRIGGER removal_end_no_update BEFORE UPDATE ON removal_end BEGIN SELECT RAISE(ABORT, 'removals are never changed'); END;
CREATE TRIGGER removal_end_no_delete BEFORE DELETE ON removal_end BEGIN SELECT RAISE(ABORT, 'removals are never changed'); END;
INSERT INTO gpkg_contents (table_name, data_type, identifier, description) VALUES ('removal', 'attributes', 'removal', 'append-only log of what was removed'), ('removal_end', 'attributes', 'removal_end', 'append-only log of removals that were undone or whose space was reclaimed');
