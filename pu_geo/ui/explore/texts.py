"""What the Explore screen says."""

from __future__ import annotations

TITLE = "Explore"
PURPOSE = (
    "Each dot is a building; those that look alike are close together. Shift + drag selects several, on the dots, the map "
    "and the chips; the keys 1, 2, 3 label them."
)
NO_CHIPS, CUT_CHIPS = "There are no chips to explore yet.", "Cut chips"
COLOR_BY = "Color by"
LIVE_PART = "**{n:,} of {all:,} ranked**: dots get a color once all are."
LIVE_PART_HELP = "By the newest answers. Until then the others keep scores by earlier answers, and their ranks mean nothing."
CLUSTERS, TYPES, SELECTION = "Clusters", "Types", "Selection"
PANELS = (CLUSTERS, TYPES, SELECTION)
OPEN_PANEL = "Panel: press the open one again to close it"

# The picture

PICTURE = "Picture"
NOT_SHOWN = "Buildings that came after this run, and are not shown: {n:,}. Train again to see all."
NO_SCORES = "No run yet, so dots show answers alone."

# Questions

ELSEWHERE_HELP = "Like the selected buildings, else like all that are marked damaged; by look and score together."
WRONG_HELP = "Your answers, the most doubtful first. Answer one again the same to confirm it."
ASKING = "Comparing all buildings"
ASKED = "{n} chips, the likeliest first."
ASKED_AGAIN = "{n} answers, the most doubtful first. The same one again confirms it."
NOTHING_LEFT = "**{title}** Nothing is left to answer."
CLOSE = "Close"

# Selections

SELECTED = "{n} selected"
NOTHING_SELECTED = "Shift + drag around dots, on the map or on the chips; or choose a cluster."
QUEUE, QUEUE_HELP = "To the queue", "Annotate shows the open ones of these next."
QUEUED_WHY, QUEUED = "Chosen on Explore", "{n} queued on Annotate."
LABELED = "Labeled {n}. Ctrl+Z takes all of them back."
SAVE_AS, SAVE_AS_EXAMPLE = "Save the selection as", "collapsed roofs"
SAVE_AS_HELP = "A name in use replaces what was saved under it; that can be put back."
SAVE = "Save {n}"
PUT_BACK = "Put back {name}"
SAVED = "**Saved selections** ({n})"
SELECT, SELECT_HELP = "Select", "Select these buildings"
EXPORT = "Export"
EXPORT_HELP = "Write CSV and GeoJSON with all columns of the damage map into exports/selections; a run is needed"
REMOVE, REMOVE_HELP = "Remove", "Remove; can be put back"
NEWEST = "The newest {most} of {n} are shown."
SAVED_ROW = "**{name}** · {n:,} · :gray[{analyst}, {day}]"
EXPORTED = "{name}: {n:,} buildings"
UNDO = "Undo"

# Clusters

NEXT_TRAINING = "**Next training:** {words}"
BEFORE, NEXT = "Previous", "Next"
ACCEPT, REJECT = "Accept", "Reject"
ACCEPT_ADDS = (
    "Accept adds {n} to the next training. They get no label, and are in no count or export. Accept only where nearly all "
    "chips show damage; a name alone is no proof."
)
CLICKS_IN, NOT_DAMAGED_IN, FOLLOWS = "{n:,} of {all:,} marked damaged", "{n:,} not damaged", "follows {what}"
MARKS = {"accepted": "accepted", "partly": "partly accepted", "rejected": "rejected"}
NO_CLUSTERS = "Clusters come with the picture, which is being drawn."
MORE_CLUSTERS = "{n} more have fewer marked buildings, and are not listed."

# Damage types

TYPES_NOTE = (
    "NCL sorts the buildings into groups, guided by your labels: the damage types, or damaged and not damaged. A group is "
    "a guess until you have checked its chips. Once named, it is offered on Annotate and exported as discovered_type."
)
NO_TYPES = "No search yet."
DISCOVERY, DISCOVERY_HELP = "Search", "The newest one is on top."
MARK_BUILDINGS = "Mark buildings"
GROUPS, GROUPS_CHOSEN = "Groups", "choose for me"
GROUPS_HELP = "Left empty, as many as the embeddings separate most clearly; the search says which and why."
TRAININGS, TRAININGS_HELP = "Trainings", "What several agree on is steadier than one alone."
SEARCH_TYPES = "Search for damage types"
GROUPS_FROM = "**{n} groups**, learned from {known}."
NEW_ANSWERS = ":orange[{n} answers came since; search again to learn from them.]"
DROPPED = "Group {title}, {n}, was dropped."
RESTORE = "Put back"
SHOW, SHOW_HELP = "Show", "Select its buildings: on the picture, the map and the wall"
MERGE_GROUPS, MERGE_EXAMPLE, MERGE = "Merge groups", "two or more of one type", "Merge"
UNDO_TYPES_HELP = "Takes the last name, merge or drop back."
SPLIT, DROP, DROP_HELP = "Split", "Drop", "Puts it aside; it can be put back."
RENAME, NAME = "Rename", "Name"
NAME_FIELD, NAME_EXAMPLE = "What is it?", "tarps, silted roofs, ..."
NAME_NOTE = "Offered on Annotate from now on, and exported. A name that another group has joins the two."
SAVE_NAME = "Save"
MEAN_SCORE, DAMAGED_BUILDINGS, NOT_DAMAGED_BUILDINGS = "mean score {score:.2f}", "{n} damaged", "{n} not damaged"
