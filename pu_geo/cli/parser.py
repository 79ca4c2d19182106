"""The words of the command line: verbs, options and their help. What they do stands in `cli.py`."""

from __future__ import annotations

import argparse

from pu_geo.cli import parser_apart, parser_explore, parser_types
from pu_geo.cli.options import Verbs, run_option, verb_of, whole
from pu_geo.methods.catalog import DEFAULT_METHOD


def build_parser(version: str) -> argparse.ArgumentParser:
    """Return the parser of `pu-geo`."""
    parser = argparse.ArgumentParser(
        prog="pu-geo", description="Map damaged buildings from pre- and post-event imagery with a few clicks."
    )
    parser.add_argument("--version", action="version", version=f"pu-geo {version}")
    verbs = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    _imagery_verbs(verbs)
    _label_verb(verbs)
    _run_verbs(verbs)
    _model_verb(verbs)
    parser_apart.add_verbs(verbs)
    parser_types.add_verbs(verbs)
    parser_explore.add_verbs(verbs)
    _map_verbs(verbs)
    _other_verbs(verbs)
    return parser


def _imagery_verbs(verbs: Verbs) -> None:
    verb = verb_of(verbs, "init", "Make a new, empty project.", "joplin.pugeo --name 'Joplin 2011'")
    verb.add_argument("--name", help="name shown to people (default: the folder's)")
    verb = verb_of(
        verbs, "add-scene", "Add pre- and post-event GeoTIFF scenes.", "joplin.pugeo --pre pre.tif --post post.tif"
    )
    verb.add_argument("--pre", action="append", default=[], metavar="TIF", help="a pre-event scene; may be repeated")
    verb.add_argument("--post", action="append", default=[], metavar="TIF", help="a post-event scene; may be repeated")
    verb.add_argument("--bands", default="", metavar="R,G,B", help="numbers of the red, green and blue band, such as 3,2,1")
    verb.add_argument("--crs", metavar="EPSG:N", help="of pictures with a world file")
    verb.add_argument(
        "--pixel-size", type=float, metavar="M", help="side of a pixel in meters, to use pictures without any georeference"
    )
    verb.add_argument("--xbd", metavar="DIR", help="an xBD folder: its pictures as scenes, its labels as footprints")
    verb.add_argument(
        "--choose", default="", metavar="NAME", help="of it, pictures whose names begin so, or match a NAME with *"
    )
    verb = verb_of(
        verbs, "add-footprints", "Add building footprints (GeoJSON, GeoPackage, shapefile, FlatGeobuf, GeoParquet, CSV, xBD).",
        "joplin.pugeo houses.geojson",
    )  # fmt: skip
    verb.add_argument("file", metavar="FILE")
    verb.add_argument("--crs", metavar="EPSG:N", help="where the file names none")
    _aoi_verb(verbs)
    verb = verb_of(verbs, "add-grid", "Lay square cells where nobody mapped buildings.", "joplin.pugeo --size-m 30")
    verb.add_argument("--size-m", type=float, required=True, help="side of a cell in meters")
    verb_of(verbs, "align", "Find how far pre and post scenes are apart at each building.", "joplin.pugeo")
    verb = verb_of(verbs, "chip", "Cut one chip per footprint and compute its features.", "joplin.pugeo --size-px 64")
    verb.add_argument("--size-px", type=whole(1), default=64, help="side of a chip in pixels (default 64)")
    verb.add_argument("--bands", choices=["auto", "pre+post", "post"], default="auto",
                      help="auto: both dates, or post alone where pre scenes leave buildings out")  # fmt: skip


def _aoi_verb(verbs: Verbs) -> None:
    verb = verb_of(
        verbs, "add-aoi", "Limit footprints and grids that are added from now on to an area of interest.",
        "joplin.pugeo aoi.geojson",
    )  # fmt: skip
    verb.add_argument("file", metavar="FILE", nargs="?", help="polygons, in any format that footprints may have")
    verb.add_argument(
        "--text",
        default="",
        metavar="AREA",
        help="instead of a file: west,south,east,north in degrees or a WKT polygon; --text=-94.5,37,-94.4,37.1",
    )
    verb.add_argument("--crs", metavar="EPSG:N", help="where the file names none")
    verb.add_argument("--remove", action="store_true", help="take the area away; nothing else changes")
    verb.add_argument("--undo", action="store_true", help="put back the area that was taken away or replaced last")


def _label_verb(verbs: Verbs) -> None:
    verb = verb_of(
        verbs, "label", "Add labels: simulated clicks, a stream, or a file.",
        "joplin.pugeo --from-field damage --is destroyed --count 30 --seed 0",
    )  # fmt: skip
    way = verb.add_mutually_exclusive_group(required=True)
    way.add_argument("--from-field", metavar="FIELD", help="simulate clicks from this attribute of the footprints")
    way.add_argument(
        "--stdin", action="store_true", help='read {"op": unique text, "building_id", "label"} a line, answer each'
    )
    way.add_argument(
        "--import",
        dest="import_file",
        metavar="FILE",
        help="CSV with building_id and label, or GeoJSON, as export-labels writes them",
    )
    verb.add_argument(
        "--is", dest="values", action="append", default=[], metavar="VALUE", help="value that shall be clicked"
    )
    verb.add_argument(
        "--as", dest="label", choices=["positive", "not_damaged"], default="positive", help="what those clicks say"
    )
    verb.add_argument("--count", type=whole(1), default=30, help="how many clicks to simulate (default 30)")
    verb.add_argument("--seed", type=whole(0), default=0)
    verb.add_argument(
        "--same-footprints", action="store_true",
        help="with --import, of a file without lon and lat: it was made of these very footprints, so its ids hold",
    )  # fmt: skip
    verb.add_argument("--analyst", help="who is labelling (a pseudonym will do)")


def _run_verbs(verbs: Verbs) -> None:
    verb_of(verbs, "rank", "Rank all buildings with the instant ranker; makes a run.", "joplin.pugeo")
    verb_of(
        verbs, "methods", "List the methods, what they need, and how long presets took here.", "--json", project=False
    )  # fmt: skip
    verb = verb_of(verbs, "train", "Train a method and score all buildings; makes a run.", "joplin.pugeo")
    verb.add_argument(
        "--method", default=DEFAULT_METHOD, help="ncpu, pucl, ...: `pu-geo methods` lists them (default %(default)s)"
    )
    verb.add_argument("--preset", default="quick")
    verb.add_argument("--seed", type=whole(0), default=0)
    verb.add_argument(
        "--types-from", metavar="FIELD", help="attribute of the clicked footprints that names the kind of damage"
    )
    verb.add_argument(
        "--hold-out",
        type=whole(0),
        default=0,
        metavar="N",
        help="positives to judge the run by, not to learn from (default 0)",
    )
    verb.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", help="change one setting of the preset")
    verb.add_argument("--detach", action="store_true", help="train in the background and return at once")
    verb = verb_of(
        verbs, "evaluate", "Compare a run with truth that came with the footprints.",
        "joplin.pugeo --field damage --positive destroyed --exclude un-classified --json",
    )  # fmt: skip
    run_option(verb)
    verb.add_argument("--field", required=True, help="attribute of the footprints that holds the truth")
    verb.add_argument("--positive", action="append", required=True, metavar="VALUE", help="value that means damaged")
    verb.add_argument("--exclude", action="append", default=[], metavar="VALUE", help="value to leave out")
    _compare_verbs(verbs)


def _compare_verbs(verbs: Verbs) -> None:
    verb = verb_of(
        verbs, "compare", "Say how far two runs agree, where they do not, and which is judged better.",
        "joplin.pugeo --runs latest ranker-0520-1130-12ab",
    )  # fmt: skip
    verb.add_argument(
        "--runs",
        nargs=2,
        required=True,
        metavar="RUN",
        help="ids of two runs; chosen is the one that is shown, latest the newest",
    )
    verb = verb_of(verbs, "ensemble", "Average the ranks of several runs; makes a run.", "joplin.pugeo --runs latest ID ID")
    verb.add_argument(
        "--runs",
        nargs="+",
        required=True,
        metavar="RUN",
        help="ids of runs; chosen is the one that is shown, latest the newest",
    )


def _model_verb(verbs: Verbs) -> None:
    words = "Hand a trained model on, check one that came, or score all buildings by it."
    actions = verbs.add_parser("model", help=words, description=words).add_subparsers(
        dest="action", required=True, metavar="ACTION"
    )
    verb = verb_of(
        actions, "export", "Write the model of a run into one file.", "joplin.pugeo latest --out joplin.pugeo-model.zip",
        group="model ",
    )  # fmt: skip
    verb.add_argument("run", metavar="RUN", help="id of a run, or latest")
    verb.add_argument("--out", required=True, metavar="FILE.pugeo-model.zip", help="a file, or a folder to put it in")
    verb = verb_of(
        actions, "check", "Say whether a model file can be used, and for which chips.", "joplin.pugeo-model.zip",
        project=False, group="model ",
    )  # fmt: skip
    verb.add_argument("file", metavar="FILE")
    verb = verb_of(
        actions, "apply", "Score all buildings of a project by a model that was trained elsewhere.",
        "moore.pugeo joplin.pugeo-model.zip", group="model ",
    )  # fmt: skip
    verb.add_argument("file", metavar="FILE")


def _map_verbs(verbs: Verbs) -> None:
    verb = verb_of(
        verbs, "add-areas", "Add areas to sum up by, such as districts.", "joplin.pugeo adm2.geojson --layer adm2"
    )
    verb.add_argument("file", metavar="FILE")
    verb.add_argument("--layer", required=True, help="what to call them; adm1 and adm2 also fill the codes of the export")
    verb.add_argument("--name-field", metavar="NAME", help="attribute with the names (default: a usual one)")
    verb.add_argument("--code-field", metavar="NAME", help="attribute with the codes (default: a usual one)")
    verb = verb_of(verbs, "audit", "Begin the audit of a run's map, or say what it says.", "joplin.pugeo begin --checks 200")
    verb.add_argument("action", nargs="?", choices=["begin", "status"], default="status")
    run_option(verb)
    verb.add_argument(
        "--checks", type=whole(1), help="random checks (default: enough for about +-30 %% of the number damaged)"
    )
    verb.add_argument(
        "--threshold",
        type=float,
        help="where precision and recall are judged (default: the one chosen for the run, else its own)",
    )
    verb.add_argument("--analyst", help="who begins it (a pseudonym will do)")
    verb = verb_of(
        verbs, "choose", "Store which run is shown and exported where none is named, and its threshold; or say which it is.",
        "joplin.pugeo --run ncpu-0520-1130-12ab --threshold 0.42",
    )  # fmt: skip
    verb.add_argument("--run", metavar="ID", help="a run's id, latest, or auto: the published, audited or recommended one")
    verb.add_argument("--threshold", type=float, help="flag buildings with at least this score")
    verb = verb_of(
        verbs,
        "export",
        "Write the damage map into one file.",
        "joplin.pugeo --format geojson --out map.geojson",
    )
    _run_and_threshold(verb)
    verb.add_argument("--format", default="geojson", help="geojson, gpkg, parquet, fgb, csv, kml or heat (default geojson)")
    verb.add_argument("--out", required=True, metavar="FILE")
    verb = verb_of(
        verbs, "publish", "Write the next version of the damage map, with all that belongs to it, into exports/.",
        "joplin.pugeo --formats geojson gpkg csv",
    )  # fmt: skip
    _run_and_threshold(verb)
    verb.add_argument("--formats", nargs="+", default=["geojson", "gpkg", "csv"], metavar="FORMAT", help="as for export")
    verb.add_argument("--profile", action="append", default=[], metavar="NAME", help="add classes of copernicus or unosat")

    verb = verb_of(
        verbs, "next-round", "Begin the next round: a new post image over the same buildings.",
        "joplin.pugeo --new joplin-2.pugeo --post 20110530.tif",
    )  # fmt: skip
    verb.add_argument("--new", required=True, metavar="P.pugeo", help="the project to make")
    verb.add_argument(
        "--post", action="append", required=True, metavar="TIF", help="a new post-event scene; may be repeated"
    )
    verb.add_argument("--pre", action="append", default=[], metavar="TIF", help="pre-event scenes, if others than before")
    verb.add_argument("--name", help="name shown to people (default: the old one's)")


def _run_and_threshold(verb: argparse.ArgumentParser) -> None:
    run_option(verb)
    verb.add_argument(
        "--threshold",
        type=float,
        help="flag buildings with at least this score (default: the one chosen for the run, else its own)",
    )
    verb.add_argument(
        "--local-coordinates",
        action="store_true",
        help="write a map without a place on the Earth, in local meters (gpkg, csv)",
    )


def _other_verbs(verbs: Verbs) -> None:
    verb = verb_of(
        verbs, "export-labels", "Write the current labels, and their whole history.", "joplin.pugeo --out labels.csv"
    )
    verb.add_argument("--out", required=True, metavar="FILE.csv|.geojson", help="history goes to FILE.events.csv beside it")
    verb = verb_of(verbs, "inspect", "Say whether files can be used.", "*.tif *.geojson --json", project=False)
    verb.add_argument("file", nargs="+", metavar="FILE")
    verb = verb_of(
        verbs, "jobs", "List background jobs; cancel, pause, resume, retry or dismiss one, or print its log.",
        "joplin.pugeo resume 20260101-120000-abc123",
    )  # fmt: skip
    verb.add_argument("action", nargs="?", choices=["cancel", "pause", "resume", "retry", "dismiss", "log"])
    verb.add_argument("--all", action="store_true", help="list those that were dismissed, too")
    verb.add_argument("job_id", nargs="?", metavar="ID")
    verb = verb_of(verbs, "demo", "Run every step on the sample event.", "--out demo", project=False)
    verb.add_argument("--out", default="pu-geo-demo", metavar="DIR", help="folder for the project and the map")
    verb = verb_of(
        verbs, "benchmark", "Reproduce rows of papers' tables on their data sets; `list` names the tables.",
        "fmnist --data fashion_mnist --seeds 5 --keep fmnist.jsonl --out fmnist.md", project=False,
    )  # fmt: skip
    verb.add_argument("table", metavar="TABLE", help="fmnist, cifar10, cifar100, stl10, abcd, xbd, harvey, project, or list")
    verb.add_argument("--data", metavar="PATH", help="the data set's files")
    verb.add_argument("--methods", default="", metavar="A,B", help="short names of methods, and ranker (default: all)")
    verb.add_argument("--preset", default="quick", help="preset of the methods (default quick)")
    verb.add_argument("--set", action="append", default=[], metavar="NAME=VALUE", help="a setting, where a method has it")
    verb.add_argument("--seeds", type=whole(1), default=5, help="draws of positives and unlabeled (default 5)")
    verb.add_argument("--only", default="", metavar="NAME", help="rows whose name holds this")
    verb.add_argument("--field", default="", help="of a project: attribute of the footprints that holds the truth")
    for name, words in (("--positive", "value that means damaged"), ("--exclude", "value that says nothing")):
        verb.add_argument(name, action="append", default=[], metavar="VALUE", help=f"of a project: {words}")
    verb.add_argument("--clicks", default="10,30", metavar="N,M", help="of a project: clicked buildings (default 10,30)")
    verb.add_argument("--keep", metavar="FILE", help="file of finished outcomes: they are not done again")
    verb.add_argument("--out", metavar="FILE.md", help="write the table here, too")
    verb = verbs.add_parser("app", help="Open the app in the browser.", epilog="Example: pu-geo app joplin.pugeo")
    verb.add_argument("project", nargs="?", metavar="P.pugeo", help="open this project first")
    verb.add_argument("--sample", action="store_true", help="open the sample event first")
    verb.add_argument("--port", type=whole(1), default=8501, help="port on this machine (default 8501)")
    verb.add_argument("--no-browser", action="store_true", help="do not open a browser window")
