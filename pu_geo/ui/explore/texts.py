"""What the Explore screen says."""

from __future__ import annotations

TITLE = "Explore"
PURPOSE = (
    "Each dot is a building; the model puts similar ones close together. Shift + drag selects several, on the dots, the "
    "map and the chips; the keys 1, 2, 3 label them."
)
NO_RUN, TRAIN_ONE = "There is no run to explore yet.", "Train one"
RUN = "Run: {name}"
COLOR_BY = "Color by"
LIVE_PART = "**{n:,} of {all:,} ranked**: dots get a color once all are."
LIVE_PART_HELP = "By the newest answers. Until then the others keep scores by earlier answers, and their ranks mean nothing."
UMAP_GOES_ON = ":material/hourglass_top: **Computing the UMAP**; its progress is below the dots."
UMAP_ENDED = ":material/error: **The UMAP did not end**; why is below the dots."
PANEL = "Side panel"
CLUSTERS, TYPES, NEIGHBORS, OUTLIERS = "Clusters", "Damage types", "Neighbors", "Outliers"
PANELS = (CLUSTERS, TYPES, NEIGHBORS, OUTLIERS)

# PCA and UMAP

PROJECTION = "Arrangement of the dots"
UMAP_SETTINGS = "Settings"
UMAP_SETTINGS_HELP = "Settings of the UMAP, and computing it again"
SETTING_NAMES = {
    "n_neighbors": "Neighbors (buildings)",
    "min_dist": "Least distance (0 to 0.99)",
    "metric": "Distance",
    "densmap": "Keep densities (densMAP)",
    "supervised": "Supervised by labels",
    "seed": "Seed",
}
COMPUTE, COMPUTE_AGAIN = "Compute UMAP", "Compute UMAP again"
NOT_SHOWN = "Buildings that came after this run, and are not shown: {n:,}. Train again to see all."


# Selections

SELECTION = "Selection"
SELECTION_HELP = "Save, load and export selections"
SAVE_AS, SAVE_AS_EXAMPLE = "Save the selection as", "collapsed roofs"
SAVE_AS_HELP = "A name in use replaces what was saved under it; that can be put back."
SAVE = "Save"
PUT_BACK = "Put back {name}"
NOTHING_SAVED = "Nothing was saved yet."
SAVED = "**Saved selections** ({n})"
SELECT, SELECT_HELP = "Select", "Select these buildings"
EXPORT = "Export"
EXPORT_HELP = "Write CSV and GeoJSON with all columns of the damage map into exports/selections"
REMOVE, REMOVE_HELP = "Remove", "Remove; can be put back"
NEWEST = "The newest {most} of {n} are shown."
SAVED_ROW = "**{name}** · {n:,} · :gray[{analyst}, {day}]"
EXPORTED = "{name}: {n:,} buildings"


def selection(n: int) -> str:
    """Return what the button says that opens saving, loading and exporting."""
    return f"{SELECTION}: {n:,}" if n else SELECTION


def save(n: int) -> str:
    """Return what the button says that saves a selection."""
    return f"Save {n:,} building{'' if n == 1 else 's'}" if n else SAVE


# Neighbors

BUILDING, BUILDING_EXAMPLE = "Building", "select dots, or enter an id"
HOW_MANY = "How many"
ONLY_NOT_REVIEWED = "Only not reviewed"
NEIGHBORS_EMPTY = "Select buildings, or enter the id of one, to get the chips most similar to them."
MOST_SIMILAR = "**{n} chips most similar to {what}**"
SELECTED_CHIPS, ONE_BUILDING = "{n:,} selected buildings", "building {building}"
SIMILAR_NOTE = "Below each chip its similarity (cosine, 1 is the same) and its score; + damaged, o not damaged."
MARK_DAMAGED, MARK_NOT_DAMAGED = "Mark all damaged", "Mark all not damaged"
UNDO, UNDO_LABELS_HELP = "Undo", "Takes back your last act of labeling."
LABELED = "Labeled {n} buildings. Undo takes all of them back."

# Outliers

WRONG, ISOLATED, DUPLICATE = "Perhaps mislabeled", "Unlike any other", "Perhaps a duplicate"
DAMAGED, NOT_DAMAGED, NOT_ASSESSABLE, NO_LABEL = "Damaged", "Not damaged", "Not assessable", "No label"
TO_REVIEW = "**{n} to review**: {wrong} labels that a model doubts, {duplicate} duplicates, {isolated} isolated chips"
SEARCH_AGAIN, SEARCH_OUTLIERS = "Search again", "Search for odd chips and duplicates"
UNDO_REVIEW_HELP = "Takes back your last review, and its label."
NOTHING_LEFT, NO_SEARCH = "Nothing is left to review.", "No search yet for odd chips and duplicates."
ONE_OF = "**{title}** · {place} of {n}"
KEEP, LATER = "Keep as it is", "Later"

# Damage types

TYPES_TITLE = "**Damage types**"
TYPES_NOTE = (
    "NCL sorts the buildings into groups, guided by your labels: the damage types, or damaged and not damaged. A group is "
    "a guess until you have checked its chips. Once named, it is offered on Annotate and exported as discovered_type."
)
NO_TYPES = "No search yet."
DISCOVERY, DISCOVERY_HELP = "Search", "The newest one is on top."
MARK_BUILDINGS = "Mark buildings"
GROUPS, GROUPS_HELP = "Groups", "0 takes the number that the embeddings suggest."
TRAININGS, TRAININGS_HELP = "Trainings", "What several agree on is steadier than one alone."
SEARCH_TYPES = "Search for damage types"
ONE_GROUP = ":orange[One group would hold everything; ask for 2 or more.]"
GROUPS_FROM = "**{n} groups**, learned from {known}."
NEW_ANSWERS = ":orange[{n} answers came since; search again to learn from them.]"
HOW_MANY_GROUPS, HOW_MANY_GROUPS_HELP = "How many groups?", "How clearly each number of groups separates the buildings."
DROPPED = "Group {title}, {n}, was dropped."
RESTORE = "Put back"
CURVE_TAKEN, CURVE_X, CURVE_Y = "taken: {n}", "groups", "mean silhouette"
CURVE_NOTE = "Higher is clearer, -1 to 1, before any training. Close values support none of them."
MERGE_GROUPS, MERGE_EXAMPLE, MERGE = "Merge groups", "two or more of one type", "Merge"
UNDO_TYPES_HELP = "Takes the last name, merge or drop back."
SPLIT, DROP, DROP_HELP = "Split", "Drop", "Puts it aside; it can be put back."
ALL_ANSWERED = "All of its buildings have a label already."
RENAME, NAME = "Rename", "Name"
NAME_FIELD, NAME_EXAMPLE = "What is it?", "tarps, silted roofs, ..."
NAME_NOTE = "Offered on Annotate from now on, and exported. A name that another group has joins the two."
SAVE_NAME = "Save"
MEAN_SCORE, DAMAGED_BUILDINGS, NOT_DAMAGED_BUILDINGS = "mean score {score:.2f}", "{n} damaged", "{n} not damaged"

# Clusters

KIND, TWO, MANY = "Clusters", "Two means (PUPL)", "Many small clusters"
NO_CLUSTERS = "Small clusters can follow damage where two means follow roofs. Start the clustering to get them."
OVERRULED = " ({n:,} more have labels of people, which count)"
TAKES_BACK, NOTHING_DECIDED = "Takes back: {words}", "Nothing was decided about clusters."
NUMBER, NUMBER_HELP = "Number of clusters", "0 takes one for 30 buildings, 60 at most."
CLUSTER_AGAIN, START_CLUSTERING = "Cluster again", "Start clustering"
NOT_ORIENTED = (
    "Orientation check failed: the damaged buildings are not closer to their cluster. Do not trust these two clusters."
)
ORIENTED = "Orientation check passed: damaged buildings are closer to their cluster than those not reviewed."
LATER_ONES = " {n:,} came later, and stay where they are."
KEPT = (
    "PUPL kept all {kept:,} damaged buildings of its input in their cluster; {near:,} of them are also nearer to it. Where "
    "these are few, the two clusters follow something else than damage, whatever the check says.{later}"
)
POTENTIAL = "Potential {potential:.4g}, the lowest of several seeds."
MARKS = {"": "", "accepted": "accepted", "partly": "partly accepted", "rejected": "rejected"}
C_NAME, C_STATE, C_SIZE, C_DAMAGED, C_LABELED, C_ESTIMATE, C_INTERVAL, C_SPREAD, C_SCORE, C_STABLE = (
    "cluster", "decided", "buildings", "damaged", "labeled damaged", "estimate", "interval", "spread", "score", "stability",
)  # fmt: skip
C_HELP = {
    C_LABELED: "Share of its buildings that were labeled damaged",
    C_ESTIMATE: "Estimated share damaged, from where the labels are",
    C_INTERVAL: "95 % interval of the estimate",
    C_SPREAD: "Median cosine distance to its center, 0 to 2",
    C_SCORE: "Mean score of the run",
    C_STABLE: "How well other seeds find it again, 0 to 1",
}
TABLE_NOTE = (
    "How much of a cluster is damaged is estimated once an accuracy assessment has estimated the total. It takes your "
    "labels for an even draw of the damage: a cluster with a tenth of them holds a tenth of it. Where only the worst was "
    "labeled, it misses the rest. Choose a row for its chips."
)
CLUSTER_LINE = (
    "**Cluster {name}**{state} · {size:,} buildings, {damaged} damaged, {not_damaged} not damaged · distances {low:.2f}, "
    "{middle:.2f}, {high:.2f}"
)
MAY_BE_LITTLE = (
    "It may be as little as {low:.0%} damaged. Accept it only if nearly all of its chips show damage: undamaged "
    "ones that are learned as damage make the next run worse."
)


def called(cluster: str) -> str:
    """Return what people read for a cluster; the two of PUPL are named by code."""
    return {"positives": "of the damaged", "other": "others"}.get(cluster, cluster)


EXAMPLES = ("Center", "Border", "Highest scores")
ACCEPT = "Accept ({n:,})"
ACCEPT_HELP = (
    "Its buildings not reviewed count as damaged in the next run. They get no label, and are in no count or export."
)
REJECT, REJECT_HELP = "Reject", "It is not damage; nothing is labeled by this."
SPLIT_HELP = "In two, by two means within it."
MERGE_WITH, MERGE_WITH_EXAMPLE, MERGE_HELP = "Merge with", "another cluster", "Makes one cluster of both."
OTHER_BUILDINGS, THIS_CLUSTER = "other buildings", "this cluster"
