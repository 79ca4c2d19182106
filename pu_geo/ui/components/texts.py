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
AUTOMATIC_HELP = "The run published last, else the one assessed last, else the newest of the recommended method."

# Jobs

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
SCREENS = {
    "project": "Project", "imagery": "Imagery", "train": "Train", "research": "Research", "explore": "Explore",
    "damage_map": "Damage map",
}  # fmt: skip

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
    "Leave it empty to work on this computer alone. local:4 starts 4 processes here; tcp://HOST:8786 names a "
    "scheduler of Dask whose computers mount the project's folder and the scenes at the same path."
)
CLUSTER_TRUSTED = "**A cluster can run code as the app's user:** name none that you do not trust."
NO_DASK = (
    'Jobs can work on a cluster of Dask once `pip install "pu-geo[scale]"` was run on this computer. docs/scale.md says how.'
)
