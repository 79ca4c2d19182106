"""What the Damage map screen says."""

from __future__ import annotations

from collections.abc import Mapping

from pu_geo.maps.exporting import State
from pu_geo.records import NOT_GRADED
from pu_geo.store.population import Class
from pu_geo.wording import plural

TITLE = "Damage map"
PURPOSE = (
    "See where the damage is, check how good the map is, choose how many buildings are flagged, and export it. "
    "Orange: confirmed by a person. Hatched: flagged by score. Grey: not flagged, which is no proof of an intact building."
)
NO_RUN = "There is no run yet, so there are no scores to show."
TRAIN_ONE = "Train a method"
TAB_MAP, TAB_AUDIT, TAB_AREAS, TAB_EXPORT = TABS = ("Map", "Accuracy assessment", "Areas", "Versions")

TAB_TYPES = "Damage types"
"""A tab where the run scores damage types."""

NO_TYPES_HERE = "This run has no scores of damage types. Choose one that has for the tab Damage types: {names}."

# The controls in the title bar

RUN = "{name}"
FLAGGED = "{flagged:,} flagged"
TOP = "Flag the highest-ranked"
TOP_HELP = (
    "How many buildings without an answer are flagged, from the highest score down. Where scores are equal it is the number "
    "nearest to yours. The slider below the map does the same."
)
THRESHOLD = "Threshold"
THRESHOLD_HELP = "Buildings without an answer are flagged from this score on."
BASIS = "Threshold {threshold:.4f}: {basis}."
FEWER = (
    "It was set for the {k:,} highest-ranked. Those of them that are answered count as confirmed or not damaged, so {n:,} "
    "are flagged."
)
LATER = "{n:,} came after this run and are not assessed. Cut chips and train again to map them."
NEWER, SHOW_NEWER = (
    "A newer run, {name}, is not shown: it learned from {n:,} damaged labels, this one from {here:,}.",
    "Show it",
)
NOT_AUDITED = "No accuracy assessment"
AUDIT_OPEN = "Assessment: {done} of {drawn}"
PRECISION = "Precision of flagged {share}"
RECALL = "Recall {share}"
SCENES_HELP = "What the run finds in each scene, and where that is doubtful."
SCENE_COLUMNS = {
    "scene_id": "Scene", "n": "Buildings", "n_assessed": "Assessed", "n_damaged": "Damaged, answered",
    "n_not_damaged": "Not damaged, answered", "n_flagged": "Flagged", "flag_rate": "Flag rate", "doubt": "Doubt",
}  # fmt: skip
NO_SCENE, NO_DOUBT = "no scene", "none"
SITES_HELP = "What the run finds in each site. The threshold and the estimate are of all sites together."


def tabs(*, has_types: bool) -> tuple[str, ...]:
    """Return the tabs of the screen: that of damage types only where the run scores some."""
    return (TAB_MAP, *((TAB_TYPES,) if has_types else ()), *TABS[1:])


def scenes(n: int, n_doubtful: int) -> str:
    """Return what the list of scenes is called."""
    return plural(n, "scene") + (f", {n_doubtful:,} in doubt" if n_doubtful else "")


# Accuracy assessment

NO_AUDIT = (
    "**This run has no accuracy assessment.** Scores only rank buildings; how many of the flagged ones are damaged is not "
    "known yet. To find out, answer checks on Annotate: drawn at random, shown without scores, not learned from."
)
BUYS = ("Checks", "Time", "Number damaged", "Precision of flagged, points", "Recall, points")
BUYS_WORDS = (
    "Half of the 95 % interval that so many checks should give. Precision takes 10 checks among the flagged buildings, "
    "recall 5 that find damage."
)
CHECKS = "Checks"
START = "Start accuracy assessment with {n:,} checks"
PROGRESS = "{done} of {drawn} checks answered"
ANSWER = "Answer the other {n} on Annotate"
RESUME = "Resume assessment"
MORE = "More checks"
ADD = "Add {n:,}"
ADD_HELP = "The same random order goes on, so all answers count."
DAMAGED = "Damaged buildings"
PRECISION_AT = "Precision of flagged"
PRECISION_HELP = "Of the buildings that are flagged, the share that is damaged. Confirmed ones are not among them."
RECALL_AT = "Recall"
RECALL_HELP = "Of the damaged buildings, the share that is flagged or confirmed."
NOT_ENOUGH = "not enough to estimate"
NOT_ENOUGH_PREFIX = "not enough: "
BY_SITE = "By site"
NUMBER = "{value:,.0f} ({low:,.0f}–{high:,.0f})"
TAKE = "Flag {n:,} in place of {now:,}"
CANNOT_TELL = "{title} cannot be told yet: {why}"
WISH = "Set the threshold for a wanted"
PRECISION_OR_RECALL = ("precision", "recall")
AT_LEAST = "At least this {what}"
NO_WISH = "These checks cannot tell a threshold by {what}."
USE = "Use {value:.4f}, {how}"
ASSURED, ESTIMATED = "with 95 % confidence", "by the estimate, which is not sure"
CURVE, CURVE_X = "Precision and recall, with 95 % intervals", "threshold"
CURVE_ALT = "Precision of the flagged, and recall with the confirmed, at each threshold, with 95 % intervals"
AGREEMENT = "Two readers agree on {share} of {n}{kappa}."
KAPPA = ", kappa {kappa:.2f}"
CALIBRATED = "Chances of damage (p_damaged) are exported: a curve over the score, fitted to the checks alone."
NOT_CALIBRATED = "No chances of damage yet. {why}"
INTERVALS = (
    "In parentheses: 95 % intervals. Precision is of flagged buildings alone; in recall, confirmed ones count as found."
)

# Damage types

TYPES_NOT_AUDITED = (
    "How well the scores find a type is not known before an accuracy assessment whose answers name the types, or rule them "
    "out: they only rank."
)
TYPE_COUNT = "{name} {n:,}"
TYPE_YES = "Buildings with it"
TYPE_COUNTS = "{people:,} by people, {score:,} by score; {unknown:,} unknown"
TYPE_TOP = "By score, of {n:,} damaged without an answer"
TYPE_TOP_HELP = "How many of the buildings that are flagged or confirmed get the type, from its highest score down."
TYPE_THRESHOLD_HELP = "Buildings that are flagged or confirmed, and have no answer of the type, have it from this score on."
TYPE_NO_THRESHOLD = "none"
TYPE_START = "Start from the answers again"
TYPE_START_HELP = "Gives the type to the share of the damaged that answers give it."

# Areas

CELL = "Side of square cells, m"
SUM_UP = "Summarise by area"
ADD_AREAS = "Add areas such as districts"
NO_SUMS = "No areas are summarised for this run yet. Every exported version holds these tables."
BY, SITE = "By", "Site"
CELLS_OF = "Cells of {side} m"
AREA_NOTE = (
    "At threshold {threshold:.4f}. Blank = not assessed, or a damage type that too few answers name (not zero). Estimates "
    "need an "
    "accuracy assessment and assume that its curve holds in every area; their intervals may not be added up.{outside}"
)
IN_SEVERAL = " {n:,} buildings are in several of them and count in the first."
OUTSIDE = " {n:,} buildings are in none of these areas."
AREAS_OF = "{layer}: {n:,} areas"
AREA_FILE, AREA_FILE_EXAMPLE = "Polygon file", "/data/adm2.geojson"
AREA_LAYER, AREA_LAYER_USUAL = "Name of the layer", "adm2"
AREA_LAYER_HELP = "adm1 and adm2 also fill the codes of the export."
ADD_LAYER = "Add"
AREA_COLUMNS = {
    "name": "Area", "pcode": "Code", "buildings_total": "Buildings", "assessed": "Assessed", "not_assessed": "Not assessed",
    "flagged": "Flagged", "confirmed": "Confirmed", "est_damaged": "Estimated damaged", "low": "Low", "high": "High",
    "pct": "Estimated, % of assessed",
}  # fmt: skip
AREA_TYPE = "{name}: {state}"
SHARE_ESTIMATED = "Estimated damaged, share of assessed"
SHARE_FLAGGED = "Flagged or confirmed, share of assessed: where to look, not how much is damaged"
AREA_HOVER = "{name}<br>{share}<br>{confirmed:,} confirmed, {flagged:,} flagged, {assessed:,} assessed of {n:,}"
AREA_ALT = "Map of areas, colored by share"
NO_SHARE = "not assessed"

# Export

EXPORT = "Export"
EXPORT_HELP = "Check what the next version will say, then write it."
EXPORT_TITLE = "Export the damage map"
READ_ONLY = (
    "You may not write into this project's folder, so no version can be added to it. This command writes the map elsewhere:"
)
EXPORT_COMMAND = "pu-geo export {folder} --run {run_id} --threshold {threshold:g} --out damage_map.geojson"
EXPORT_NUMBER = "Export version {number}"
FORMATS = "Formats"
PROFILES = "EMS / UNOSAT / xBD / FEMA classes"
PROFILES_HELP = "Filled from people's answers, never from a score: a model gives no grades."
NO_PLACE = "The pictures of this project came without a georeference: its map cannot be laid over any other."
LOCAL = "Local coordinates: export in meters from the picture's corner"
FIELD_RUN, FIELD_THRESHOLD, FIELD_AUDIT, FIELD_CHANGES = "Run", "Threshold", "Accuracy assessment", "Changes"
FIELD_CHANGES_SINCE = "Changes since {version}"
THRESHOLD_IS = "{threshold:.4f}, {basis}"
WITHOUT_AUDIT = "**none yet**"
FIRST_VERSION = "This is the first version."
NOTHING_CHANGED = "No building changes its class or grade."
NOT_COMPARED = "The version before cannot be compared."
OF_ALL = "of {n:,} {units}"
CANNOT_SAY = "What this map cannot say"
NO_VERSIONS = "No version was exported yet. **Export**, at the top right, shows what the first one would say."
VERSIONS = "Versions"
VERSION_FACTS = "{run} · threshold {threshold:.4f}{basis} · {audit}"
VERSION_COUNTS = (
    "{confirmed:,} confirmed damaged · {flagged:,} flagged, to look at · {not_assessed:,} not assessed, of {n:,} {units}"
)
AUDITED = "with accuracy assessment"
OPEN_REPORT = "Open report"
DOWNLOAD_ZIP = "Download zip"
FILES = "Files"
REMOVE_VERSION = "Remove {version}"
FILES_PATH = "Folder on this computer"
SHOW_REPORT = "Report"
SHOW_CHANGES = "Changes"
COMPARE_FROM, COMPARE_TO = "From", "To"
ONE_VERSION = "There is one version only. From the second one on, changes are listed here."
SAME = "No building changed its class or grade from {before} to {after}."
CHANGED = "Changed from {before} to {after}: {n}."
REPORT_OF = "Report of {version}"
CHANGE_COLUMNS, BUILDING_COLUMNS = ("Before", "After", "Buildings"), ("Building ID", "Before", "After")
CHANGE = "{before} to {after}: {n:,}"
CLASSES: Mapping[Class, str] = {
    "confirmed": "Confirmed", "flagged": "Flagged", "not_flagged": "Not flagged", "not_assessed": "Not assessed",
}  # fmt: skip
COUNTED: Mapping[Class, str] = {**CLASSES, "confirmed": "Confirmed damaged", "flagged": "Flagged, to look at"}
ABSENT = "not in this version"


def state(found: State | None) -> str:
    """Return what a building is in a version: its class, and the grade of a confirmed one."""
    if found is None:
        return ABSENT
    grade = "not graded" if found.grade == NOT_GRADED else found.grade
    return f"{CLASSES[found.kind]}, {grade}" if grade else CLASSES[found.kind]
