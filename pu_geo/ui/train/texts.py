"""What the Train screen says."""

from __future__ import annotations

from pu_geo import wording
from pu_geo.runs.training import DataSummary
from pu_geo.wording import plural

TITLE = "Train"
PURPOSE = (
    "Learn from the buildings you marked and from all others, in the background. Closing this tab does not stop a training."
)
TO_MAP = "Damage map"
TO_RESEARCH = "The other methods, comparisons, models, federation, model cards"
RESEARCH, TO_TRAIN = "Research", "Back to Train"
RESEARCH_PURPOSE = (
    "For who compares methods or works with other agencies. A damage map needs none of it: Train has what is recommended."
)


def data(found: DataSummary) -> str:
    """Return what there is to learn from now."""
    rest = found.n_positive + found.n_not_damaged - found.n_taught - found.n_taught_not
    which = plural(rest, "of these is a check or random pick", "of these are checks or random picks")
    checks = f" :small[:gray[({which}, not learned from)]]"
    return " · ".join([
        f"**{found.n_positive:,}** damaged", f"**{found.n_not_damaged:,}** not damaged{checks if rest > 0 else ''}",
        f"**{found.n_not_reviewed:,}** not reviewed", f"**{found.n_not_assessed:,}** not assessed",
    ])  # fmt: skip


TYPES_GIVEN = "Damage types on Annotate: {counts}."

# Results

RUN, SHOWN = "Run", "Shown"
SHOWN_MARK = "✓ shown"
RESULTS = {
    RUN: ("name", 265, ""),
    SHOWN: ("is_shown", 70, "Shown on all screens, the live map (QGIS) and in exports."),
    "Method": ("method", 135, ""),
    "Made": ("made_at", 95, ""),
    "Took": ("took", 65, ""),
    "Damaged labels": ("n_damaged", 105, "Marked damaged and learned from; blank if it learned elsewhere"),
    "Recall on held-out clicks": (
        "judged", 190,
        "Recall of damaged buildings that the run did not learn from, at its own threshold, with the 95 % interval."
    ),
    "Accuracy assessment": (
        "audited", 165, "Precision and recall at the threshold of the map, with 95 % intervals."
    ),
}  # fmt: skip
"""Column -> the field of a run's row that stands in it, its width in pixels, and what it is."""
RESULTS_ALT = "Table of the finished runs"
SHOWN_RUN = "Shown: {name}"
REMOVE, REMOVE_RUN = "Remove", "Remove this run"
RENAME, RENAME_HELP = "Rename", "Change what a run is called on all screens"
NEW_NAME = "Name"
SAVE_NAME = "Save name"
NAME_NOTE = "Leave it empty for the usual name. Files and commands keep the id {run_id}."
EVIDENCE = "**{name}**: {words}"
WARNING_OF_RUN = ":orange[:material/warning:] **{name}**: {words}"
MORE_WARNINGS = "**{name}**: {n} on its model card."

# Methods

METHODS = "Methods"
ABOUT_GROUP = {
    "default": "On each of seven test sets, with little damage and with much, ahead of a plain ranking or level with it.",
    "pu": "Where they rank the same buildings high, the map rests on more than one method.",
    "types": "They learn kinds of damage, such as grades.",
    "baseline": "What others are compared with.",
}
TRAIN = "Train {method}"
FEATURES_IN_USE = "Features in use: {features}."
PRESET = "Preset"
SEED = "Seed"
PRESET_TIME = "Preset {preset}: {words}."
SETTINGS, SETTINGS_HELP = "Settings", "Preset, held-out clicks and all settings of {method}"
ABOUT = "About {method}"
SOURCE, NEEDS, LIMITS = "Source: {words}", "Needs: {words}", "Limits: {words}"
REACHED = "Measured with preset quick, AUC / AP, the instant ranker's in brackets:"
FIGURES_HELP = (
    "AUC: chance that a damaged building scores above an undamaged one. AP: how pure the top of the list is. Methods "
    "were tuned on these events, so expect less on yours. All figures: docs/tables.md."
)
TYPE = "Damage types"
TYPE_PLACEHOLDER = "none: damaged or not"
TYPE_HELP = (
    "Where they come from: types given on the Annotate page, or grades, of your damaged buildings alone. A type that one "
    "building alone has is not learned."
)
TYPE_CHOSEN = "Damage types: {source}"
TYPE_UNUSED = "Types or grades were given on Annotate; to learn them, choose them in the settings."
TYPE_NONE = "Nobody gave any so far. Give them on the Annotate page, to damaged buildings."
HOLD_OUT = "Held-out clicks"
HOLD_OUT_HELP = (
    "Damaged buildings that this training does not learn from. They measure how much damage it finds by itself; it takes 10 "
    "to judge. Below 50 damaged buildings each one teaches more than it judges, so none is proposed."
)
FEATURES = "Features"
FEATURES_HELP = "What the chips are described by. The Imagery page lists the sets and has the choice of one for all."
FEATURES_AVERAGED = (
    " Rankings by several sets are averaged; one by which held-out clicks stand lower is left out. The live ranking "
    "uses the set in use alone."
)
CHANGED = "Changed: {names}"


def setting_help(words: str, name: str, low: object, high: object) -> str:
    """Return the help of a setting: what it does, its bounds, and what commands call it."""
    bounds = "" if high is None else f" From {low} to {high}."
    return f"{words}{bounds} On the command line: `--set {name}=...`"


GROUPS = ("Learning", "Data", "Method", "Stopping")
LEARNING, DATA, METHOD_GROUP, STOPPING = GROUPS
GROUP_NOTES = {
    LEARNING: "How weights move",
    DATA: "What it learns from",
    METHOD_GROUP: "What is particular to the method",
    STOPPING: "How long it trains",
}
SETTING_NAMES: dict[str, tuple[str, str]] = {
    "backbone": (DATA, "Backbone"),
    "width": (METHOD_GROUP, "Hidden units"),
    "weights_file": (DATA, "Weights file (path)"),
    "augmentation": (DATA, "Views of chips"),
    "pretrain_epochs": (STOPPING, "Pretraining (epochs)"),
    "precision": (LEARNING, "Number type"),
    "compiled": (LEARNING, "Compile the network"),
    "damaged_share": (DATA, "Damaged share (0 to 1)"),
    "whitening": (METHOD_GROUP, "Whitening (0 to 0.5)"),
    "even_share": (METHOD_GROUP, "Share of equal weight (0 to 1)"),
    "n_neighbors": (METHOD_GROUP, "Neighbors (chips)"),
    "propagation": (METHOD_GROUP, "Propagation (0 to 1)"),
    "embedding_dim": (METHOD_GROUP, "Embedding length (numbers)"),
    "n_anchors": (METHOD_GROUP, "Anchors (chips)"),
    "neighbors": (METHOD_GROUP, "Neighboring buildings"),
    "variant": (METHOD_GROUP, "Variant"),
    "epochs": (STOPPING, "Epochs"),
    "max_steps": (STOPPING, "Longest training (steps)"),
    "warmup_epochs": (STOPPING, "Warm-up (epochs)"),
    "batch_size": (DATA, "Batch size (chips)"),
    "lr": (LEARNING, "Learning rate"),
    "weight_decay": (LEARNING, "Weight decay"),
    "projection_hidden": (METHOD_GROUP, "Projection head (hidden units)"),
    "prediction_hidden": (METHOD_GROUP, "Prediction head (hidden units)"),
    "ema_momentum": (LEARNING, "EMA momentum (0 to 1)"),
    "prototype_momentum": (METHOD_GROUP, "Prototype momentum (0 to 1)"),
    "target_momentum": (METHOD_GROUP, "Pseudo-target momentum (0 to 1)"),
    "rare_momentum": (METHOD_GROUP, "Same for rare damage (0 to 1)"),
    "threshold_momentum": (METHOD_GROUP, "Threshold momentum (0 to 1)"),
    "rep_weight": (METHOD_GROUP, "Weight of noisy pairs"),
    "entropy_weight": (METHOD_GROUP, "Weight of entropy"),
    "grad_clip": (LEARNING, "Gradient clipping (norm)"),
    "loss": (METHOD_GROUP, "Loss"),
    "optimizer": (LEARNING, "Optimizer"),
    "temperature": (METHOD_GROUP, "Temperature"),
    "projection_dim": (METHOD_GROUP, "Projection (numbers)"),
    "projection_norm": (METHOD_GROUP, "Batch norm in the projection"),
    "pseudo_labels": (METHOD_GROUP, "Pseudo-labels"),
    "n_seedings": (METHOD_GROUP, "Starts of the pseudo-labels"),
    "classifier_l2": (METHOD_GROUP, "Classifier weight decay"),
    "n_new": (METHOD_GROUP, "Clusters"),
    "labeled_batch": (DATA, "Labeled chips per step"),
    "pair_rule": (METHOD_GROUP, "Pair rule"),
    "threshold": (METHOD_GROUP, "Pair threshold (cosine)"),
    "pair_weight": (METHOD_GROUP, "Weight of pairs"),
    "consistency_weight": (METHOD_GROUP, "Weight of consistency"),
    "ramp_share": (STOPPING, "Ramp-up (share of epochs)"),
    "neighbor_weight": (METHOD_GROUP, "Weight of neighbors"),
    "supervised_weight": (METHOD_GROUP, "Weight of labels"),
    "self_weight": (METHOD_GROUP, "Weight of the other view (0 to 1)"),
    "queue_size": (DATA, "Queue (embeddings)"),
    "n_easy": (METHOD_GROUP, "Easy negatives (chips)"),
    "n_hard": (METHOD_GROUP, "Hard negatives (chips)"),
    "smoothing": (METHOD_GROUP, "Smoothing (chips)"),
    "softness": (METHOD_GROUP, "Softness of scores"),
    "unsupervised_weight": (METHOD_GROUP, "Weight of views"),
    "across_dates": (METHOD_GROUP, "Pull dates together"),
    "unlabeled_weight": (METHOD_GROUP, "Weight of buildings not reviewed (0 to 1)"),
    "rounds": (STOPPING, "Rounds"),
    "local_steps": (STOPPING, "Steps of a client per round"),
    "enough": (METHOD_GROUP, "Near enough (cosine)"),
    "spread": (METHOD_GROUP, "Spreadout"),
    "spread_weight": (METHOD_GROUP, "Weight of the spreadout"),
    "spread_margin": (METHOD_GROUP, "Spreadout margin (cosine distance)"),
    "n_nearest": (METHOD_GROUP, "Nearest classes"),
    "server_momentum": (LEARNING, "Momentum of the server (0 to 1)"),
    "fixed_vectors": (METHOD_GROUP, "Fixed class vectors"),
    "weighting": (METHOD_GROUP, "Weighting of clients"),
    "l2": (LEARNING, "Weight decay (L2)"),
    "positive_share": (DATA, "Damaged in a batch (0 to 1)"),
    "balanced": (DATA, "Balanced classes"),
    "class_prior": (DATA, "Class prior (0 to 1)"),
    "surrogate": (METHOD_GROUP, "Surrogate loss"),
    "when_negative": (METHOD_GROUP, "Where the risk is negative"),
    "beta": (METHOD_GROUP, "Tolerance of negative risk"),
    "gamma": (METHOD_GROUP, "Step back (share of the learning rate)"),
    "agreement": (METHOD_GROUP, "Agreement of pairs (0 to 1)"),
}
"""Setting -> the heading that it is under, and its label with its unit."""

# A training while it runs

CURVES, CHIPS = "Curves", "Top and bottom chips"
STAGE = "Stage"
DETAILS = "Details: loss terms, speed and memory"
TOO_FEW_HELD_OUT = "{n} held-out clicks: not enough to judge by, it takes 10."
LOSS, LOSS_PARTS = "Loss", "Loss terms"
SHARES = "Threshold and shares"
HELD_OUT_CLICKS, SPEED = "Held-out clicks", "Speed and memory"
SHARE_NAMES = {
    "threshold": "threshold", "share_positive": "called damaged, in batches", "share_called": "called damaged, all",
    "share_pairs": "pairs of one category", "class_cosine": "nearest two classes (cosine)",
}  # fmt: skip
CRITERION, RECALL, CALLING_ALL = "PU criterion", "recall (right)", "calling all damaged"
CHIPS_A_SECOND, MEMORY = "chips per second", "memory, MB (right)"
AFTER_EPOCH, AFTER = "After epoch", "After epoch {epoch}:"
SHEET = (
    "Buildings not reviewed, after epoch {epoch} of {epochs}: highest scores above, lowest below; of each the pre scene "
    "over the post scene where there is one."
)
SHEET_ALT = "Chips with the highest scores above, with the lowest scores below"
RUN_OF_JOB = "Run {name}"


def result(name: str, n_damaged: object, n_held_out: int, seconds: float) -> str:
    """Return what a training made, and from what."""
    held_out = [f"{n_held_out:,} held-out clicks"] if n_held_out else []
    return " · ".join([RUN_OF_JOB.format(name=name), f"{n_damaged} damaged labels", *held_out, wording.duration(seconds)])


# Comparison of runs

COMPARE = "Compare runs"
TOO_FEW_RUNS = "There are no two runs to compare yet: train a second method."
RUN_A_OR_B = "Run {name}"
AGREEMENT = "Agreement"
NO_CURVES = "Neither run has a training curve: the instant ranker needs one step alone."
ROW_METHOD, ROW_PRESET, ROW_LABELS, ROW_TIME = "Method", "Preset, seed", "Learned from", "Time, device"
ROW_THRESHOLD, ROW_PLACE, ROW_CRITERION = "Threshold", "Evidence from place", "PU criterion"
ROW_PRECISION, ROW_RECALL = "Assessed precision", "Assessed recall"
MODEL_FROM_ELSEWHERE = "a model from elsewhere"
LEARNED_FROM = "{n} damaged labels"
OWN_THRESHOLD = (
    "Each run is judged at its own threshold: the same order of buildings with another threshold has another criterion."
)
AUDITED = {
    True: "One accuracy assessment judges both, each at its own threshold.",
    False: "Neither run has an accuracy assessment; one on the Damage map page would judge both.",
}
DISAGREE = "Where they disagree most"
A_HIGH, B_HIGH, NOWHERE = "A high, B low", "B high, A low", ": nowhere"
DISAGREE_NOTE = "Below each chip its place in A and in B; 1 is the highest score. + marks a damaged building."
LOSS_AXIS, CALLED_AXIS, DONE_AXIS = "loss, first epoch = 1", "share called damaged", "share of the training"
B_HIGHER, SAME, A_HIGHER = "B higher", "same", "A higher"
DIFFERENCE = "%{marker.color:+.2f} of all places<extra></extra>"

# Model card

CARD = "Model card"
CARD_NOTE = "One page to publish with a map: what the run learned from, how it is judged, and its limits."
DOWNLOAD = "Download {kind}"

# Models

MODELS = "Models"
EXPORT_MODEL = "Export model"
NO_MODEL = "No run has a model yet. Train a method; the instant ranker has none, it is fitted anew to each project."
MODEL_NOTE = (
    "One file: weights, settings, and what it learned from. It holds no picture, footprint or label, and names the damage "
    "types it knows."
)
MODEL_PATCHES = "A model on cached features holds 128 patches of 5 x 5 pixels of your chips, as filters."
MODEL_NETWORK = "The network that makes its features is in the file; the license of its weights applies to that"
IMPORT_MODEL = "Import a model"
BY_PATH, UPLOAD = "By path", "Upload"
MODEL_FILE = "Model file"
SCORE_ALL = "Score all buildings"
IMPORT_NOTE = (
    "Makes a run. It needs chips of the model's bands and size, and learns nothing from your labels. The folder of "
    "another copy of this "
    "project gives its newest run."
)

# What each layer adds

LAYERS = "Layers"
LAYERS_NOTE = (
    "All layers, and all but one, are fitted without some of your clicks. How high these rank among buildings not reviewed "
    "shows what each layer adds. Answers to the queue do not count: a ranking proposed them."
)
COMPARE_LAYERS = "Measure what each layer adds"
NOT_COMPARED = "No comparison yet."

# Federation

FEDERATION = "Federation"
FEDERATION_NOTE = (
    "Each agency trains in its own project, with its own kind of damage. Network weights travel between the machines, "
    "encrypted; "
    "images, footprints and labels do not. At the end each agency has scores of all damage types for its own buildings."
)
FEDERATION_MISSING = (
    "Training over the network needs Flower, which is not installed here. Install it in an environment of its own: "
    '`pip install -c constraints-federated.txt "pu-geo[federated]"`. Without it, projects on this machine can be trained '
    "together."
)
FEDERATIONS = "Federation"
ANOTHER_FEDERATION = "Lead or join another one"
FEDERATION_ROLE, LEAD, JOIN, SIMULATE = "How to take part", "Lead", "Join", "Projects on this machine"
MAKE_SHARED = "Make shared features"

LEAD_NOTE = (
    "This machine averages what the members send. It writes an invitation file: send it to the other agencies, by mail or "
    "on a stick."
)
FEDERATION_TITLE, FEDERATION_TITLE_EXAMPLE = "Name", "Flood and storm, June"
FEDERATION_TYPES, FEDERATION_TYPES_EXAMPLE = "Damage types, with commas", "destroyed, flooded"
FEDERATION_TYPES_HELP = (
    "Each type is learned from one agency's damaged buildings. The class “rest”, buildings that nobody called damaged, is "
    "always there."
)
FEDERATION_OWN, FEDERATION_NO_OWN = "This project has", "none of them"
FEDERATION_FROM = "Buildings of that type"
FEDERATION_REST_NOTE = "Buildings that nobody called damaged are the class “rest”, of one project."
FEDERATION_REST = "It also gives the class “rest”"
FEDERATION_REST_HELP = "All buildings of this project that nobody called damaged. One project gives them for all."
FEDERATION_ROUNDS = "Rounds"
FEDERATION_ROUNDS_HELP = "In each round every member trains for some steps, and the leader averages."
FEDERATION_DEADLINE = "Deadline of a round, s"
FEDERATION_DEADLINE_HELP = "Who has not answered by then is left out of this round, and may come back in the next one."
FEDERATION_HOST = "Address of this machine"
FEDERATION_HOST_HELP = "Name or IP address by which the other machines reach this one. 127.0.0.1 is this machine alone."
LOCAL_PLAN = (
    "{address} is this computer: only projects on it can join. For other agencies, write the name or IP address by which "
    "they reach it."
)
LOCAL_LEADER = (
    "{address} is this computer: only projects on it can join with this invitation. For other agencies, lead a new "
    "federation with the name "
    "or IP address by which they reach this computer."
)
LOCAL_INVITATION = (
    "The address {address} works on the leader's computer alone: only projects on the leader's computer can join. If this "
    "is another one, ask whoever "
    "leads for an invitation with the name or IP address of that computer."
)
FEDERATION_PRIVACY = "Noise"
PRIVACY_NAMES = {"none": "none", "local": "added by each member", "central": "added by the leader"}
FEDERATION_PRIVACY_HELP = (
    "Noise hides what one member, one class of an agency, did to the weights, and costs accuracy: with few members, much "
    "of it. Epsilon says how much is "
    "hidden over all rounds: smaller is more."
)
FEDERATION_EPSILON, FEDERATION_CLIP = "Epsilon, all rounds", "Longest change (norm)"
LEAD_BUTTON = "Start the federation"
STARTS = "It is starting, and is shown above as soon as its rules are written."
JOIN_NOTE = "Whoever leads sends you an invitation file. Nothing leaves this machine before you join."
INVITATION = "Invitation file"
INVITATION_FACTS = "{title}: {classes}; {rounds}; leader at {address}"
COMPARE_SERVER = "Fingerprint of this federation. Compare it with the leader's screen, by phone."
FINGERPRINTS_MATCH = "The leader's screen shows the same fingerprint"
JOIN_COUNT = "{n} of this project count as {name}."
JOIN_BUTTON = "Join"


def class_source(name: str | None, n: int) -> str:
    """Return where the buildings of a class come from, for a list."""
    words = {None: "All damaged buildings", "answers": "Types given on Annotate", "grades": "Grades"}
    return f"{words[name]} ({n:,})"


SIMULATE_NOTE = "Tries out what a federation would bring: projects on this machine train together, and nothing is sent."
NO_PARTIES = "No other project on this machine has chips and shared features. Open one and make them there."
PARTIES = "Other projects"
SIMULATE_BUTTON = "Train together"
FEDERATION_STAGES = {
    "waits": ("orange", "waits for members"), "runs": ("blue", "trains"), "stopped": ("gray", "not running"),
    "done": ("green", "finished"),
}  # fmt: skip
"""Stage -> color and words of its badge."""
MEMBER_STATES = {
    "open": ("gray", "nobody yet"), "admitted": ("blue", "admitted"),
    "here": ("green", "took part"), "late": ("orange", "late"), "refused": ("red", "refused"),
}  # fmt: skip
LEADS, TAKES_PART = "This project leads", "This project takes part"
FEDERATION_FACTS = "{role} · its classes: {own} · {rounds}"
FEDERATION_DEADLINE_FACT = " · deadline of a round {deadline}"
TRIAL = "trial on this machine"
TRIAL_NOTE = "A trial: all its members are projects on this machine, and nothing was sent to another one."
FEDERATION_ADDRESS = "The leader is at {address}."
ROUND_OF = "Round {round} of {n}"
SAVE_INVITATION, SAVE_REQUEST = "Invitation for the others", "Request for the leader"
FILE_HELP = "The same file is {path}"
SERVER_FINGERPRINT = "Fingerprint of this federation. The others compare it with theirs, by phone, before they join."
LEADER_FINGERPRINT = "Fingerprint of this federation, as on the leader's screen"
OWN_FINGERPRINT = "Key of this project for {name}. The leader compares it before it admits you."
THIS_PROJECT = "this project"
WAITING_ROOM = "Waiting room: each member sends its request, a small file. Compare its fingerprint, then admit it."
REQUEST = "Request of a member"
ASKS = "**{project}** asks to be the member for **{name}**"
KEY_FINGERPRINT = "Fingerprint of its key. Compare it with that agency's screen, by phone."
ADMIT, ADMIT_HELP = "Same fingerprint: admit", "From then on this key alone may change the class."
IS_ADMITTED = "It is admitted."
NO_ROUND = "After the first round: how far the damage types are from each other."
NO_VECTORS = "Who took part, and how far the damage types are from each other, is known to the leader."
NO_MODEL_HERE = "All members have the model. This project holds no class, so it got none: ask a member for its model file."
COSINES = "Cosine of each two class vectors"
SCORE_WITH_IT = "Score my buildings with it"
SCORED = "Made the run **{name}**, with scores of {classes}."
SHOW_ON_MAP = "Show it on the Damage map"
LEDGER = "Ledger: what left this machine"
LEDGER_EMPTY = "Nothing has left this machine so far."
LEDGER_TOTAL = (
    "{tensors}, {size} in all: every tensor and every fact that PU-Geo sent, or had ready for a member that was away, "
    "each with its hash. Not listed are keys and Flower's own "
    "signals that a member is there."
)
LEDGER_HERE = (
    "{tensors}, {size}, stayed on this machine: between the leader and the classes of this project. They are not in that "
    "sum."
)
LEDGER_TRIAL = "{tensors}, {size}, passed between projects on this machine. Nothing left it."
LEDGER_NEWEST = "The newest {shown} of {n}; the file holds all."
SAVE_LEDGER = "Save the ledger"
LEDGER_ALT = "Table of what was sent, and whether it left this machine"
LEDGER_COLUMNS = {
    "at": "Time",
    "round": "Round",
    "message": "Message",
    "to": "To",
    "is_here": "Stayed here",
    "name": "Tensor",
    "dtype": "Type",
    "shape": "Shape",
    "bytes": "Bytes",
    "sha256": "SHA-256",
}
