"""What the pieces that several screens share say: job cards, the choice of the run."""

# The choice of the run

RUN = "Run"
RUN_HELP = (
    "The run that all screens, the live map (QGIS) and exports show. Your choice stays until somebody chooses another. "
    "Its id is {run_id}."
)
WHY = "{why}."
NEWER = " The newest is {name}."
AUTOMATIC = "Choose automatically"
AUTOMATIC_HELP = "The run published last, else the one audited last, else the newest of the recommended method."

# Jobs

TITLES = {
    "prepare": "Loading scenes, footprints and chips",
    "add_scenes": "Adding scenes",
    "add_layer": "Adding a layer",
    "add_xbd": "Adding an xBD folder",
    "relink": "Finding moved scene files",
    "add_footprints": "Adding footprints",
    "add_aoi": "Setting the area of interest",
    "add_grid": "Creating a grid of cells",
    "align": "Aligning pre and post",
    "chip": "Cutting chips and computing features",
    "features": "Computing a feature set",
    "train": "Training",
    "doctor": "Check of the project",
    "rank": "Ranking",
    "ensemble": "Averaging ranks",
    "apply_model": "Scoring with a model",
    "federate_lead": "Leading the federation",
    "federate_serve": "Leading the federation",
    "federate_join": "Taking part in the federation as",
    "federate_simulate": "Federation between projects on this machine",
    "compare_features": "Comparing features or layers",
    "embed": "UMAP",
    "cluster": "Clustering",
    "outliers": "Search for odd chips and duplicates",
    "discover": "Search for damage types",
    "export": "Export",
    "export_selection": "Exporting a selection",
    "publish": "Export",
    "add_areas": "Adding areas",
    "sum_up": "Summary by area",
    "next_round": "Preparing the next round",
    "remove_scene": "Removing a scene",
    "replace_scene": "Replacing a scene",
    "replace_layer": "Replacing a layer",
    "remove_footprints": "Removing footprints",
    "replace_footprints": "Comparing or replacing footprints",
}
STATES = {
    "waiting": "waiting", "running": "running", "done": "done", "failed": "failed", "cancelled": "cancelled",
    "paused": "paused", "interrupted": "interrupted",
}  # fmt: skip
PAUSE, PAUSE_HELP = "Pause", "Stops after this epoch and keeps its state on disk."
CANCEL = "Cancel"
RESUME, START_AGAIN = "Resume", "Start again"
START_OVER = "Start over"
START_OVER_HELP = "A new job with the same settings, from the first epoch, with the labels as they are now."
DISMISS, DISMISS_HELP = "Dismiss", "Hides it. `pu-geo jobs P.pugeo --all` still lists it."
JOB_ID = "Job {job_id}"
STOPPING = "stopping"
PAUSES = "pauses after this epoch"
SO_FAR, LEFT = "{time} so far", "about {time} left"
IN = " in {time}"
INTERRUPTED = (
    "It ended without an error message: the machine was restarted, or the process was killed. Nothing else is lost."
)
EPOCHS_DONE = "{epochs} of {stage} done; Resume continues after the last one saved."
LOG = "Log"
NO_LOG = "nothing yet"
LOG_CAPTION = "Newest first. Job {job_id}."
WHOLE_LOG = "Download log"
RUN_MADE = "Made the run {name}."
ENDED = {
    "done": "{title} is done.", "failed": "{title} failed.", "interrupted": "{title} was interrupted.",
    "cancelled": "{title} was cancelled.", "paused": "{title} is paused.",
}  # fmt: skip
OPEN = "Open {screen}"
SCREENS = {"project": "Project", "imagery": "Imagery", "train": "Train", "explore": "Explore", "damage_map": "Damage map"}

# The map and the queue beside it

NO_QUEUE = "The next queue was not written"
NOT_WRITTEN = "The project folder could not be written ({error})."

# Remove

REMOVE, REPLACE, KEEP = "Remove", "Replace", "Keep it"
REMOVAL_CHANGED = "The project has changed since this list was drawn, so nothing was done."
REMOVAL_READ_AGAIN = "Read what goes and what stays now, then confirm once more."
REMOVE_TITLE, REPLACE_TITLE = "Remove this?", "Replace this?"

# Further computers

MORE_COMPUTERS = "More computers"
CLUSTER = "Cluster"
CLUSTER_EXAMPLE = "local:4"
CLUSTER_HELP = (
    "Leave it empty to work on this computer alone. local:4 starts 4 processes here; tcp://HOST:8786 or scheduler-file=FILE names a "
    "cluster of Dask whose computers mount the project's folder and the scenes at the same path."
)
CLUSTER_TRUSTED = "**A cluster can run code as the app's user:** name none that you do not trust."
LOCAL_TRUSTED = (
    "**local:N has no password:** any account of this computer can run code as the app's user while the job runs."
)
NO_DASK = (
    'Jobs can work on a cluster of Dask once `pip install "pu-geo[scale]"` was run on this computer. docs/scale.md says how.'
)
ON_CLUSTER = "{workers} of the cluster · {step}{done} of {parts} done"
DASHBOARD = "Dask's page"
