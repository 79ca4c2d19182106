"""What the Imagery screen writes."""

from __future__ import annotations

from pu_geo.records import Units
from pu_geo.wording import plural, shortened

TITLE = "Imagery"
PURPOSE = (
    "Add the scenes from before and after the event and the building footprints, align the two dates, then cut one chip (a "
    "small image window) for each building. Chips are what you label and what methods learn from."
)

# The next step, and the steps

NEXT_ANNOTATE = "Next: Annotate"
CHOOSE_SCENES = "Choose scenes"
CHOOSE_SCENES_TITLE = "Choose pre- and post-event scenes"
SCENES, FOOTPRINTS, CHIPS = "Scenes", "Footprints", "Chips"
STEP = "{n} · {title}"
STATES = {"done": "done", "current": "next", "blocked": "waiting"}
NEEDS_SCENE = "Add a post-event scene first. It gives the project its coordinate system."
NEEDS_FOOTPRINTS = "Add footprints first. Each chip shows one of them."
HERE = "In this project"

# Scenes

BY_PATH, UPLOAD, XBD = "Add scenes", "Upload small files", "xBD folder"
POST_PATHS = "Post-event images, one path a line"
PRE_PATHS = "Pre-event images, one path a line (optional)"
POST_EXAMPLE, PRE_EXAMPLE = "/data/post.tif", "/data/pre.tif"
PATHS_HELP = (
    "GeoTIFF, or PNG and JPEG with a world file or xBD labels. Files stay where they are. Pre and post may differ in "
    "coordinate system and pixel size. Several files of one date are joined into one image; equal file names are fine."
)
ADD_SCENES = "Add scenes"
BANDS_AND_CRS = "Bands and CRS"
_MOST_ON_A_BUTTON = 24  # characters
RGB = "Red, green and blue bands"
RGB_EXAMPLE = "as in the file, or 3, 2, 1"
CRS_MISSING = "CRS if missing"
CRS_EXAMPLE = "EPSG:32615"
PIXEL_M = "Pixel size in m, for images without georeference"
PIXEL_M_EXAMPLE = "only where needed"
PIXEL_M_HELP = "The map then shows pixel positions, and exports state that the data have no place on the Earth."
ROLE = "Date of these images"
ROLES = {"post": "post-event", "pre": "pre-event"}
UPLOAD_SCENES = "Images, with their world files or labels"
UPLOAD_LIMIT = "Up to {mb} MB each; they are copied into the project. Add larger files by path."
ADD_UPLOADS = "Add these scenes"
CHANGE_SITES = "Name, join or divide sites"
SITES_ABOUT = (
    "Scenes with less than 5 km between them are one site. Each site has a grid, a coordinate system and a map of its own."
)
SITES_AND_SCENES = "Sites, or post-event scenes"
SITE_NAME = "become the site"
SITE_NAME_HELP = "A new name, or that of a site that is here, which they join."
PUT_IN_SITE = "Change sites"
XBD_FOLDER = "Folder with images/ and labels/"
XBD_FOLDER_EXAMPLE = "/data/xbd/train"
XBD_NAMES = "Only names that start with"
XBD_NAMES_EXAMPLE = "joplin-tornado"
XBD_HELP = "Its images become scenes, placed by their labels; the building polygons in the labels become footprints."
BROWSE_XBD = "Choose an xBD folder"
ADD_XBD = "Add this folder"
SCENE, FILE, ROLE, DATE, PIXEL, SIZE, CRS, BANDS, PLACED_BY = (
    "Scene", "File", "Pre or post", "Date", "Pixel size (m)", "Size (px)", "CRS", "Bands", "Placed by",
)  # fmt: skip
DATE_HELP = "Double-click to change it. Exports include it."
NOT_KNOWN = "not known"
SIZE_VALUE = "{width:,} x {height:,}"
BANDS_VALUE = "{n} {dtype}, RGB {rgb}"
HOW_READ = "Changes while reading: {repairs}."
UNCHANGED = "All scenes are used as they are."

REMOVE_OR_REPLACE, REMOVE, REPLACE = "Remove or replace", "Remove", "Replace"
OTHER_FILES = {"scene": "Another file to take its place", "layer": "Other files to take its place, one path a line"}
OTHER_FILES_HELP = "Leave it empty to remove it."
CAN_UNDO = "The Project screen brings it back, until its space is reclaimed."

# Layers beside pre and post

LAYERS = "Layers"
LAYERS_ABOUT = (
    "SAR, elevation, a damage proxy map and the like, already aligned with the post-event scenes. Chips hold them beside "
    "the two dates."
)
LAYER, LAYER_WHEN, LAYER_KIND, LAYER_FILES, LAYER_SCALING, LAYER_LACKS = (
    "Layer", "Date", "Kind", "Files", "Scaling to 256 steps", "Buildings without it",
)  # fmt: skip
LAYER_NAME, LAYER_NAME_EXAMPLE = "Name", "sar-post"
LAYER_NAME_HELP = (
    "Lowercase letters, digits and -. Files that are added under a name that is here join that layer: its date, kind and "
    "scaling stay."
)
LAYER_PATHS, LAYER_PATHS_EXAMPLE = "GeoTIFFs, one path a line", "/data/sar_vv_vh.tif"
LAYER_PATHS_HELP = (
    "1 to 16 bands of uint8, uint16 or float32. Coordinate system and pixel size may differ from the scenes. Files stay "
    "where they are."
)
LAYER_WHENS = {"post": "after the event", "pre": "before the event", "none": "of no date"}
LAYER_WHEN_OF = {"post": "post", "pre": "pre", "": "no date"}
LAYER_KINDS = {
    "sar-db": "SAR in dB",
    "sar-amplitude": "SAR amplitude",
    "elevation": "elevation in m",
    "proxy": "damage proxy map",
    "other": "other",
}
LAYER_KIND_HELP = "Names the unit. A SAR amplitude is read as 20 log10 of it, in decibels; 0 is no data then."
LAYER_NODATA, LAYER_NODATA_EXAMPLE = "No-data value if missing", "-9999"
ADD_LAYER, BROWSE_LAYER = "Add this layer", "Choose files of a layer"
NOT_IN_CHIPS, ALL_HAVE_IT, SOME_LACK_IT = "not in the chips yet", "none", "{n:,} of {of:,}"

# Scene files that are missing or changed

LOST = "Scene files are missing or changed: until they are found, no chips can be cut, and no scenes added or aligned"
MISSING_FILES = "**{scenes}**: no longer in {folder}."
CHANGED_FILES = (
    "**{scenes}**: changed. {folder} has another file of this name now. Put the original back, or find it elsewhere."
)
MORE_FOLDERS = "Files of {n} more folders are missing or changed."
NEW_FILE, NEW_FOLDER = "Where the file is now", "The folder where these files are now"
NEW_FILE_EXAMPLE, NEW_FOLDER_EXAMPLE = "/data/imagery/post.tif", "/data/imagery"
RELINK_HELP = (
    "Each file is read in full first: only the one that was added, byte for byte, takes the place. Labels, chips and runs "
    "stay."
)
BROWSE_FILE, BROWSE_FOLDER = "Choose the file of the scene", "Choose the folder of the scenes"
RELINK, RELINK_FOLDER = "Find the file", "Find the files"

# Whether the pair is usable

WORRIES = "Check this imagery before you rely on it"
NO_BUILDINGS = "No scene has buildings yet."
NEEDS_BUILDINGS = "Add footprints: alignment and chips need them."
FITS_SO_FAR = "Pre and post fit so far."
NOT_MEASURED = "Align it to measure the misalignment."
USABLE = "The imagery is usable"
MARK_EACH = "Mark buildings on Annotate"

# Footprints

FOOTPRINT_FILES, FOOTPRINT_PATHS = "Add footprints", "Footprint files, one path a line"
FOOTPRINT_EXAMPLE = "/data/houses.geojson"
FORMATS = "GeoJSON, GeoPackage, shapefile (.zip), FlatGeobuf, GeoParquet, CSV with WKT, or xBD labels."
CHOOSE_FOOTPRINTS, BROWSE_FOOTPRINTS = "Choose footprints", "Choose footprint files"
ADD_FOOTPRINTS = "Add footprints"
UPLOAD_FOOTPRINTS = "Upload a small file"
ADD_UPLOAD = "Add this file"
IN_QGIS = (
    "For the attribute table and for measuring, open the project's file project.gpkg in QGIS, which shows it live. To edit "
    "outlines, edit the footprint file there and replace the footprints here."
)
GRID = "No footprints? Create a grid"
GRID_SIDE = "Side of a cell in m"
GRID_HELP = "Square cells cover the post-event scenes; each is labeled as if it were a building."
CREATE_GRID = "Create the grid"
ADDED, FEATURES_IN, KEPT, REPAIRED, LEFT_OUT, WHY = (
    "Added", "Features in the file", "Added unchanged", "Added repaired", "Left out", "Why left out",
)  # fmt: skip
FEATURES_HELP = "Each feature of the file was added unchanged, added after a repair of its shape, or left out."
REASON = "{n:,} {reason}"
FILE_NOTES = "{file}: {notes}"
ALL_FOOTPRINTS = "All {n}"
OUTSIDE_AOI = "Those outside the area of interest"
OF_FILE = "Those from {file}"
REMOVE_FOOTPRINTS = "Remove these footprints"
NEW_FOOTPRINTS = "A file to take the place of all footprints"
COMPARE_FOOTPRINTS = "Compare with this file"
COMPARE_WITH_SHIFT, COMPARE_WITHOUT_SHIFT = "Compare with the shift", "Compare without the shift"
COMPARE_HELP = "Lists what would stay, change and go. Nothing changes before you confirm it."
REPLACE_FOOTPRINTS = "Replace the footprints"
AOI_TAB = "Area of interest, districts"
AOI_LIMIT = "Limited to the area of interest {source}."
AOI_HELP = "Footprints and grids added later are limited to those that touch the area. Existing ones stay."
AOI_FILE = "Polygon file"
AOI_EXAMPLE = "/data/aoi.geojson"
BROWSE_AOI = "Choose a polygon file"
AOI_TEXT = "or a box or WKT, in degrees"
AOI_TEXT_EXAMPLE = "west, south, east, north"
SET_AOI, REPLACE_AOI, REMOVE_AOI = "Set the area", "Replace the area", "Remove the area"
RESTORE_AOI = "Restore {source}"
DISTRICTS = "Districts to summarise damage by: {layers}. Add them on the Damage map, under Areas."
NONE_YET = "none yet"

# Chips

ALIGN, ALIGN_AGAIN, ALIGN_AND_CUT = "Align pre and post", "Align again", "Align and cut chips"
ALIGN_HELP = "Measures the shift between the dates at each building. Cut chips again afterwards to use it."
ALIGNED = "Aligned: {how}."
NOT_ALIGNED = "Pre and post may be some meters out of line. Align them before you cut chips."
CHIP_BANDS = "Dates in a chip"
CHIP_BANDS_HELP = "Auto uses both dates, or post alone where the pre-event scenes do not cover all buildings."
CHIP_SIZE = "Chip size (px)"
CHIP_SIZE_HELP = "A chip covers the footprint and half its size around it, scaled to this many pixels a side."
CUT, CUT_AGAIN = "Cut chips", "Cut chips again"
STALE = "{why} Cut chips again to include the change."
FEATURES = "Features of the chips"
FEATURES_ABOUT = "Features describe each chip to the ranking and to quick trainings. Sets of the newest chips:"
FEATURE_LINE = "{title}, {n:,} features"
FEATURES_USED = "Used by ranking, queue and trainings"
USE_FEATURES = "Use these features"
FEATURE_LAYERS = "Layers to make features of"
FEATURE_LAYERS_HELP = (
    "Each entry gets filters of its own. Pre and post together show what changed. A building without data in a layer is "
    "ranked by the others."
)
MAKE_FEATURES = "Make features of these layers and use them"
MAKE_SHARED = "Make shared features and use them"
MAKE_SHARED_HELP = (
    "Their filters come from made-up imagery and are the same in every project, so agencies can train together without "
    "showing each other "
    "imagery. The usual filters are small pieces of your imagery."
)
BACKBONE = "Folder or file with weights of a network (path)"
BACKBONE_HELP = (
    "A folder of Hugging Face or timm with config.json beside the weights, or a weights file of torchvision. Nothing is "
    "downloaded, and no code in it is run. One view of each chip is made, at the size of the network's training: on a "
    "processor 0.05 s a chip or more. PUCL and NCL need more views: use the command."
)
MAKE_BACKBONE = "Make features of this network and use them"
CLUSTER_ABOUT = "Cutting chips and computing features are then done there."
FEATURES_MORE = "The same by commands, or a network trained on these chips without labels:"
FEATURES_COMMANDS = (
    "pu-geo add-features {folder} --backbone FOLDER --use\npu-geo add-features {folder} self-supervised --use"
)
CHIP_SET = "Chips"
REMOVE_CHIPS, REMOVE_FEATURES = "Remove these chips", "Remove these features"
PICTURE = "The {role}-event imagery of {site}"
PICTURES = {"pre": "Pre-event", "post": "Post-event"}


def bands_and_crs(bands: str, crs: str, pixel_m: float | None) -> str:
    """Write on the button of a closed list what stands in it, for files to be added.

    >>> bands_and_crs("", "", None), bands_and_crs("3, 2, 1", "EPSG:32615", 0.5)
    ('Bands and CRS', 'Bands 3, 2, 1 · EPSG:32615 · 0.5 m')
    """
    given = (
        bands and f"Bands {shortened(bands, _MOST_ON_A_BUTTON)}",
        shortened(crs, _MOST_ON_A_BUTTON),
        "" if pixel_m is None else f"{pixel_m:g} m",
    )
    return " · ".join(filter(None, given)) or BANDS_AND_CRS


def layer_choice(name: str) -> str:
    """Write an entry of the list of layers.

    >>> layer_choice("pre+post"), layer_choice("post"), layer_choice("sar-post")
    ('Pre and post together', 'Post alone', 'sar-post')
    """
    return {"pre+post": "Pre and post together", "pre": "Pre alone", "post": "Post alone"}.get(name, name)


def scenes_here(n_pre: int, n_post: int, n_layers: int = 0) -> str:
    """Write how many scenes of each date there are, and how many layers; "" where there is none.

    >>> scenes_here(0, 2), scenes_here(1, 1, 3), scenes_here(0, 0)
    ('2 post', '1 pre · 1 post · 3 layers', '')
    """
    found = [f"{n} {role}" for role, n in (("pre", n_pre), ("post", n_post)) if n]
    return " · ".join([*found, *([plural(n_layers, "layer")] if n_layers else [])])


def footprints_here(units: Units, n_bare: int = 0, n_post: int = 0) -> str:
    """Write how many footprints there are, and in how many scenes there are none; "" where there is none at all.

    >>> footprints_here(Units(383)), footprints_here(Units(0, 2), 5, 6), footprints_here(Units(0), 6, 6)
    ('383 buildings', '2 cells · 5 of 6 scenes have none', '')
    """
    n = units.n_buildings + units.n_cells
    bare = f" · {n_bare} of {n_post} scenes have none" if n_bare else ""
    return f"{plural(n, units.one, units.several)}{bare}" if n else ""


def chips_here(n: int, size_px: int, bands: str) -> str:
    """Write how many chips there are, and of what.

    >>> chips_here(20, 64, "pre+post")
    '20 chips of 64 px (pre+post)'
    """
    return f"{plural(n, 'chip')} of {size_px} px ({bands})"
