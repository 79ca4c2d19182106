"""What the Project screen and the file picker write."""

from __future__ import annotations

from pu_geo.records import Units
from pu_geo.wording import listed, plural

TITLE = "Project"
PURPOSE = (
    "A project holds one event: its imagery, its buildings, your labels and the damage maps made from them. "
    "Start one, open one, or try the sample event. Everything stays on this machine."
)

# Start, open, sample

NEW = "New project"
NAME = "Name of the event"
NAME_EXAMPLE = "Joplin tornado 2011"
FOLDER = "Keep the project in (optional)"
FOLDER_LATER = "named after the event"
FOLDER_HELP = "Where labels, chips and results are kept; pictures stay where they are. A name alone goes into {home}."
CREATE = "Create project"
RECENT = "Recent projects"
NO_RECENT = "None yet. Projects you open or create are listed here."
CARD_STATES = {
    "schema": "Made with another version of PU-Geo, which this one cannot read.",
    "busy": "Another program is using it.",
    "unreadable": "This project cannot be read.",
}
OPEN = "Open"
IS_OPEN = "Open now"
OPEN_OTHER = "Type a path"
OPEN_BROWSE = "Browse for another project"
PROJECT_PATH = "Path of a .pugeo folder"
PROJECT_PATH_EXAMPLE = "/data/joplin.pugeo"
OPEN_PATH = "Open this path"
SAMPLE = "Sample event"
SAMPLE_ABOUT = (
    "A made-up town after a tornado. Of its 1,600 buildings 86 (5.4 %) are destroyed or have major damage, 46 have minor "
    "damage. Ready in one or two minutes."
)
OPEN_SAMPLE = "Open the sample event"

# The open project

SCENES = "Scenes"
SCENES_VALUE = "{n_pre} pre, {n_post} post"
DAMAGED = "Damaged so far"
RUN = "Run shown"
LAST_EXPORT = "Last export"
NONE_YET = "none yet"
NEXT = {"imagery": "Add imagery", "annotate": "Annotate", "train": "Train", "damage_map": "See the damage map"}
NEXT_LINK = "Next: {step}"

# What was removed

REMOVED = "Removed: {n}, {size} in all"
REMOVED_ROW = "**{title}**  \n:small[{at} · {analyst} · {size}]"
UNDO_REMOVAL = "Bring back"
RECLAIM = "Reclaim the space"
RECLAIM_NOW = "Delete for good, {size}"

# The next round

ROUND = "A newer post-event image of the same event"
ROUND_ABOUT = (
    "Starts the next round in a project of its own, with the same buildings, pre-event image, and layers of no date or "
    "from before "
    "the event. Your labels come first in its queue, to be checked on the new image; its exports list what changed."
)
ROUND_POST = "Post-event images, one path a line"
ROUND_FOLDER = "Folder of the new project"
ROUND_START = "Start the next round"

# Backups, restore, check

SAFETY = "Backups and check"
NO_BACKUP = "There is no backup yet."
LAST_BACKUP = "Last backup: {backup}"
BACKUP = "{when} · {reason} · labels up to event {n} · {size}"
REASONS = {
    "daily": "daily backup", "job": "after a job", "removal": "before a removal", "asked": "backup on request",
}  # fmt: skip
BACKUPS_ABOUT = (
    "A project is backed up once a day while it is open, if something changed, and after each job that changes scenes, "
    "footprints or chips; {kept} of each kind are kept, in {folder}. They hold labels, footprints and lists of runs. Copy "
    "one to another disk now and then."
)
DAILY_FAILED = "The daily backup failed."
BACK_UP = "Back up now"
RESTORE = "Restore"
RESTORE_ABOUT = (
    "Makes a project in a new folder, of the newest backup that is whole and all newer labels; what else changed since is "
    "not in it. This project stays as it is."
)
RESTORE_TO = "New folder"
RESTORE_NOW = "Restore into this folder"
CHECK = "Check this project"

# The file picker

BROWSE = "Browse"
FILTER = "Filter by name, or type a path"
NO_MATCH = "Nothing here to choose."
TOO_MANY = "{n_shown:,} of {n:,} are shown. Filter by name to see others."
USE_FOLDER = "Use this folder"
SELECT_ALL = "Select all {n}"
SELECT_BELOW = "Select all, subfolders too"
FILE, DATE = "File", "Date"
BY_DATE = "{} pre and {} post, by their names. Double-click a date to change it."
UNTOLD = "{n} names do not say which. These are:"
CLEAR = "Clear"
FORMATS = {
    "scenes": "GeoTIFF, PNG and JPEG files are listed. Files stay where they are.",
    "vectors": "GeoJSON, GeoPackage, shapefile, FlatGeobuf, GeoParquet and CSV files are listed.",
    "projects": "Projects are folders that end in .pugeo.",
    "federation": "JSON files are listed.",
    "folders": "Go into the folder you want, then press Use this folder.",
}
PICK_PROJECT = "Open a project"


def how_far(units: Units, n_damaged: int) -> str:
    """Write how far a project is, in one line.

    >>> how_far(Units(1383), 1)
    '1,383 buildings · 1 damaged so far'
    """
    return f"{plural(units.n_buildings + units.n_cells, units.one, units.several)} · {n_damaged:,} damaged so far"


def in_order(n: int) -> str:
    """Write how much a check found in order.

    >>> in_order(9)
    '9 checks found nothing wrong.'
    """
    return f"{plural(n, 'check')} found nothing wrong."


def add_files(n: int, *, fills: bool = False) -> str:
    """Write what the picker's button does.

    >>> add_files(0), add_files(1), add_files(3, fills=True)
    ('Add files', 'Add 1 file', 'Take 3 files')
    """
    return f"{'Take' if fills else 'Add'} {plural(n, 'file') if n else 'files'}"


def chosen(names: list[str]) -> str:
    """Write which files are chosen, the first few by name.

    >>> chosen(["a/pre.tif", "b/pre.tif"])
    'Chosen: a/pre.tif and b/pre.tif'
    """
    return f"Chosen: {listed(names)}"
