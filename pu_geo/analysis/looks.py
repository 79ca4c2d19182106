"""What the Explore screen reads out of how buildings look: nearness of clicks, two questions, groups and their names.

No label and no training goes into a look. Needs no torch.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import scipy
from numpy.typing import NDArray

from pu_geo.analysis.clustering import k_means
from pu_geo.analysis.neighbor_graph import NeighborGraph, blocks, distinct
from pu_geo.analysis.neighbors import nearest_of_each, similarity
from pu_geo.analysis.two_readings import DIM, N_NEIGHBORS, POWER, Space, embedded
from pu_geo.errors import ShapeError

Bools = NDArray[np.bool_]
Ints = NDArray[np.int64]
Singles = NDArray[np.float32]
Doubles = NDArray[np.float64]

FEWEST_CLICKS = 5  # fewer say nothing about how near clicks are to each other
N_NEAR = 10  # neighbors among which clicks are counted
MOST_CLICKS = 200  # clicks whose neighbors are counted; of more every so many one
FAR, OFFSET, RIDGE = 0.995, 0.01, 1.0  # alpha of the graph, intercept and penalty, chosen on the sample and Matthew
OF_CHANGE, MOST_CHANGED = 0.15, 3.0  # weight and bound of a change in standard deviations, chosen there, too
MOST_ASKED = 1024  # answers that others are held against; the graph has twice as many buildings
N_LARGE, RESOLUTION = 7, 4.0  # large groups; resolution of small ones, chosen on the sample and Matthew
MOST_PARTED = 20_000
_LEAST_COSINE = 1e-3
CHANGES = (
    ("brighter", "darker"), ("rougher", "smoother"), ("brownish", "bluish"), ("greener", "less green"),
    ("patchier", "more even"), ("changed in shape", "hardly changed"),
)  # fmt: skip
LEVELS = (("bright", "dark"), ("rough", "smooth"), ("brownish", "bluish"), ("green", "bare"))
"""Words of the columns of `traits`, for high and low values: what changed, then what the earlier picture shows."""
STANDS_OUT, FOLLOWS_FROM = 0.5, 1.0  # robust standard deviations from which a measure names a group, and is what it follows
NEARLY_ALL, FEW = 0.8, 0.5  # of a group and of all others


def look(roots: Singles, space: Space | None = None) -> Singles:
    """Bring chips to where those that look alike are near each other: the whitened reading of all views, without a label.

    Args:
        roots: square roots of features (see `two_readings.roots_of`), averaged over views, float32 [N, E].
        space: measured before, where chips come block by block; of these roots if None.

    Returns:
        Unit rows, float32 [N, d], d = 64 or E where that is less.
    """
    return embedded((space or Space.of(roots, roots, POWER)).white(roots), DIM)


def nearer_than_chance(rows: NDArray[np.floating], is_clicked: Bools) -> float | None:
    """Return how many times more clicks are among the 10 nearest of a click than among any 10 buildings.

    Args:
        rows: float [N, D], unit rows of a look, or places; near is what has the least distance.
        is_clicked: bool [N].

    Returns:
        1 where clicks lie as random buildings do; None with fewer than 5 clicks, or with nothing else.
    """
    n, clicks = len(rows), np.flatnonzero(is_clicked)
    if len(clicks) < FEWEST_CLICKS or len(clicks) == n:
        return None
    k, shares, half_squares = min(N_NEAR, n - 1), [], (rows**2).sum(1) / 2
    for row in clicks[:: -(-len(clicks) // MOST_CLICKS)].tolist():
        alike = rows @ rows[row] - half_squares
        alike[row] = -np.inf
        shares.append(is_clicked[np.argpartition(-alike, k - 1)[:k]].mean())
    return float(np.mean(shares) * (n - 1) / (len(clicks) - 1))


def elsewhere(rows: Singles, chosen: Ints, scores: NDArray[np.floating] | None, *, is_hidden: Bools | None = None) -> Ints:
    """Answer "where else does it look like this?": by rank of likeness to the nearest chosen one plus rank of score.

    Source: ours; ranks are added as in Borda's count, so that neither needs a unit or a weight.

    Args:
        rows: unit rows, float32 [N, D].
        chosen: int64 [S], at least one.
        scores: float [N], NaN where a building has none: then likeness counts twice. None: by likeness alone.
        is_hidden: bool [N]; left out, as the chosen ones are.

    Returns:
        All others, int64, best first; of equal ones the first.

    Raises:
        ShapeError(ValueError): if nothing is chosen, or an array is not [N].
    """
    wrong = any(each is not None and each.shape != (len(rows),) for each in (scores, is_hidden))
    if not len(chosen) or wrong:
        raise ShapeError(f"chosen must name a row, scores and is_hidden be [{len(rows)}]; got {chosen.shape}.")
    is_out = np.zeros(len(rows), np.bool_) if is_hidden is None else is_hidden.copy()
    is_out[chosen] = True
    open_rows = np.flatnonzero(~is_out)
    ranks = scipy.stats.rankdata(-similarity(rows[open_rows], rows[chosen]))
    if scores is not None:
        own = scores[open_rows]
        has = np.isfinite(own)
        of_score = ranks.copy()
        of_score[has] = scipy.stats.rankdata(-own[has]) * len(own) / max(int(has.sum()), 1)
        ranks += of_score
    return open_rows[np.argsort(ranks, kind="stable")]


def doubts(rows: Singles, is_positive: Bools, is_not_damaged: Bools) -> tuple[Ints, Doubles]:
    """Answer "what did I get wrong?": order answers by how much the others speak against them.

    Source: ours; as in Northcutt et al. (2021), Confident Learning, an answer is held against what is learned without it: a
    ridge regression of the others, 1 and -1, on the kernel of the graph of look-alikes (Smola and Kondor 2003, Kernels and
    Regularization on Graphs), in closed form. The kernel is centered, so that about 0 is expected of a building that is like
    none of them: clicks unlike the others are doubted, too, where nobody said "not damaged".

    Args:
        rows: unit rows, float32 [N, D], see `with_changes`.
        is_positive, is_not_damaged: bool [N], never both.

    Returns:
        Rows of the answers, int64 [A], most doubtful first, and their doubt, float64 [A] in about -1..1: what the others let
        expect, counted against the answer; below 0 they agree. Of more than 1,024 answers so many are held against.
    """
    draw, answered = np.random.default_rng(0), np.flatnonzero(is_positive | is_not_damaged)
    asked = np.sort(draw.permutation(answered)[:MOST_ASKED])
    others = draw.permutation(np.flatnonzero(~is_positive & ~is_not_damaged))
    kernel, at = _kernel(rows, np.concatenate([asked, others[: 2 * MOST_ASKED - len(asked)]]), answered)
    is_asked, signs = np.isin(answered, asked), np.where(is_positive[answered], 1.0, -1.0)
    learned = kernel[np.ix_(at, at[is_asked])] + OFFSET
    inverse = np.linalg.inv(learned[is_asked] + RIDGE * np.eye(len(asked)))
    weights = inverse @ signs[is_asked]
    expected = learned @ weights
    expected[is_asked] = signs[is_asked] - weights / inverse.diagonal()
    doubt = -signs * expected
    order = np.argsort(-doubt, kind="stable")
    return answered[order], doubt[order]


def with_changes(rows: Singles, measures: Singles) -> Singles:
    """Set beside how buildings look how plainly they changed, for `doubts`: that tells more of what a person saw.

    Source: ours. What the earlier picture shows stays out: it tells scenes from each other, not damage.

    Args:
        rows: unit rows of the look, float32 [N, D].
        measures: of `traits`, float32 [N, 10]; NaN where nothing is known of a change.

    Returns:
        Unit rows, float32 [N, D + 6].

    >>> rows = np.eye(2, 3, dtype=np.float32)
    >>> print(with_changes(rows, np.array([[9.0] * 10, [1.0] * 10], np.float32)).round(2)[1])
    [ 0.    0.94  0.   -0.14 -0.14 -0.14 -0.14 -0.14 -0.14]
    >>> bool((with_changes(rows, np.full((2, 10), np.nan, np.float32))[:, :3] == rows).all())
    True
    """
    changes = measures[:, : len(CHANGES)]
    standard = ((changes - changes.mean(0)) / changes.std(0).clip(1e-6)).clip(-MOST_CHANGED, MOST_CHANGED)
    joined = np.concatenate([rows, OF_CHANGE * np.nan_to_num(standard)], 1)
    return embedded(joined, joined.shape[1])


def _kernel(rows: Singles, anchors: Ints, answered: Ints) -> tuple[Doubles, Ints]:
    """Return how near anchors are on their graph, centered, float64 [M, M], and the anchor of each answer, int64 [A]."""
    anchors = anchors[distinct(rows[anchors])]
    graph = NeighborGraph.of(np.ascontiguousarray(rows[anchors]), N_NEIGHBORS)
    near = np.linalg.inv(np.eye(len(anchors)) - FAR * graph.links().toarray())
    near /= np.sqrt(np.outer(near.diagonal(), near.diagonal()))
    near -= near.mean(0)
    return near - near.mean(1)[:, None], (rows[answered] @ rows[anchors].T).argmax(1)


def small_groups(rows: Singles, *, seed: int = 0, is_common: bool = False) -> NDArray[np.int32]:
    """Part buildings by how they look: small communities of the graph of nearest neighbors, or few large ones.

    Source: Blondel et al. 2008, Louvain, by networkx, on 10 nearest neighbors weighted by the third power of their cosine;
    Lloyd's k-means where damage is common. Leiden by scikit-network found groups as good, but others each time.

    Args:
        rows: unit rows, float32 [N, D]. Of more than 20,000 so many are parted, and all others join the nearest of these.
        seed: the same one gives the same groups.
        is_common: damage is common, so that small groups would cut it to pieces.

    Returns:
        Groups 0.. of each, int32 [N], largest first.
    """
    if is_common or len(rows) <= N_NEAR + 1:
        part = k_means(rows, min(N_LARGE, len(rows)), seed=seed).labels_ if len(rows) else np.zeros(0, np.int64)
    else:
        some = rows[:: -(-len(rows) // MOST_PARTED)]
        part = _communities(some, seed)
        if len(some) < len(rows):
            part = np.concatenate([part[(rows[block] @ some.T).argmax(1)] for block in blocks(len(rows))])
    _, part, sizes = np.unique(part, return_inverse=True, return_counts=True)
    return np.argsort(np.argsort(-sizes, kind="stable"))[part].astype(np.int32)


def _communities(rows: Singles, seed: int) -> Ints:
    import networkx

    near, distances = nearest_of_each(rows, N_NEAR + 1)
    weights = (1 - distances[:, 1:] ** 2 / 2).clip(_LEAST_COSINE) ** 3
    found = near[:, 1:] >= 0
    links = scipy.sparse.csr_array((weights[found], (np.nonzero(found)[0], near[:, 1:][found])), shape=(len(rows),) * 2)
    graph = networkx.from_scipy_sparse_array(links.maximum(links.T))
    part = np.zeros(len(rows), np.int64)
    for number, members in enumerate(networkx.community.louvain_communities(graph, resolution=RESOLUTION, seed=seed)):
        part[list(members)] = number
    return part


def regions(xy: Singles, *, most: int = 8, seed: int = 0) -> tuple[NDArray[np.int32], Ints]:
    """Part a picture into regions that thumbnails can stand for.

    Source: ours; k-means of the cells of a 64 x 64 grid that hold dots, each by the root of how many, so that islands count
    beside the bulk.

    Args:
        xy: positions of dots, float32 [N, 2].
        most: regions at most.

    Returns:
        Region of each dot, int32 [N], and the row that stands for each, int64 [K]: the dot nearest to its fullest cell.
    """
    if not len(xy):
        return np.zeros(0, np.int32), np.zeros(0, np.int64)
    low, span = xy.min(0), np.ptp(xy, axis=0).clip(1e-9)
    cell = np.minimum((xy - low) / span * _GRID, _GRID - 1).astype(np.int64) @ [1, _GRID]
    around = scipy.ndimage.uniform_filter(
        np.bincount(cell, minlength=_GRID**2).reshape(_GRID, _GRID).astype(np.float64), _REACH
    )
    filled, cell, counts = np.unique(cell, return_inverse=True, return_counts=True)
    means = np.stack([np.bincount(cell, xy[:, axis]) / counts for axis in (0, 1)], 1)
    found = k_means(means, min(most, len(means)), seed=seed, weights=np.sqrt(counts))
    region = found.labels_[cell].astype(np.int32)
    fullness = around.ravel()[filled]
    stands = []
    for each in range(region.max() + 1):
        own = np.flatnonzero(found.labels_ == each)
        if len(own):
            middle = means[own[fullness[own].argmax()]]
            dots = np.flatnonzero(region == each)
            stands.append(dots[((xy[dots] - middle) ** 2).sum(1).argmin()])
    _, region = np.unique(region, return_inverse=True)
    return region.astype(np.int32), np.array(stands, np.int64)


_GRID, _REACH = 64, 9  # cells a side, and cells a side of the square in which dots are counted


def traits(before: NDArray[np.uint8] | None, after: NDArray[np.uint8]) -> Singles:
    """Measure plainly how the middle half of each chip changed, and what it was before; a block of chips at a time.

    Args:
        before, after: uint8 [B, C, H, W], the first three bands red, green and blue, or one band. Without a picture from
            before nothing changed (NaN), and the levels are those of `after`.

    Returns:
        float32 [B, 10], columns `CHANGES` and `LEVELS`, in gray levels; the last change is 1 - correlation of both dates.
    """
    now, gray_now = _levels(after)
    if before is None:
        return np.concatenate([np.full((len(after), len(CHANGES)), np.nan), now[:, :4]], 1).astype(np.float32)
    then, gray_then = _levels(before)
    alike = [_correlation(*pair) for pair in zip(gray_then, gray_now, strict=True)]
    changed = np.concatenate([now - then, 1 - np.reshape(alike, (-1, 1))], 1)
    return np.concatenate([changed, then[:, :4]], 1).astype(np.float32)


def _levels(chips: NDArray[np.uint8]) -> tuple[Doubles, Singles]:
    """Return mean gray, roughness, red against blue, green against both, and patchiness, float64 [B, 5], of the middle half
    of chips, and it in gray, float32 [B, H / 2, W / 2].
    """
    height, width = chips.shape[2:]
    bands = chips[:, :3, height // 4 : -(height // 4) or None, width // 4 : -(width // 4) or None].astype(np.float32)
    gray = bands.mean(1)
    red, green, blue = (bands[:, min(band, bands.shape[1] - 1)].mean((1, 2)) for band in range(3))
    rough = np.abs(np.diff(gray, axis=1)).mean((1, 2)) + np.abs(np.diff(gray, axis=2)).mean((1, 2))
    levels = [gray.mean((1, 2)), rough, red - blue, green - (red + blue) / 2, gray.std((1, 2))]
    return np.stack(levels, 1).astype(np.float64), gray


def _correlation(one: Singles, other: Singles) -> float:
    one, other = one - one.mean(), other - other.mean()
    return float((one * other).sum() / max(float(np.sqrt((one**2).sum() * (other**2).sum())), 1e-9))


def named(measures: Singles, part: NDArray[np.integer]) -> list[str]:
    """Name each group by the two measures that stand out: "became rougher, brownish", "became darker, green before".

    Args:
        measures: of `traits`, float32 [N, 10].
        part: group 0.. of each, int [N]; -1 belongs to none.

    Returns:
        A name a group, "like most" where nothing stands out.
    """
    names = []
    for effect in _effects(measures, part):
        first = [at for at in np.argsort(-np.abs(np.nan_to_num(effect)))[:2] if abs(effect[at]) >= STANDS_OUT]
        changes, levels = ([_word(effect, at) for at in first if (at < len(CHANGES)) == which] for which in (True, False))
        before = "" if np.isnan(effect[0]) else " before"
        parts = [f"became {', '.join(changes)}"] * bool(changes) + [f"{', '.join(levels)}{before}"] * bool(levels)
        names.append(", ".join(parts) or "like most")
    return names


def _word(effect: Doubles, at: int) -> str:
    return (*CHANGES, *LEVELS)[at][0 if effect[at] > 0 else 1]


def follows(measures: Singles, part: NDArray[np.integer], others: Mapping[str, Sequence[str]]) -> list[str]:
    """Say what each group follows where it is more than a change, for example "roofs dark before" or "scene north (93 %)".

    Args:
        measures, part: as in `named`.
        others: a word of each building by topic, such as {"scene": names [N]}; a group follows one where nearly all of it
            share a word that few others have.

    Returns:
        Words a group, "" where it follows nothing.
    """
    found = []
    for number, effect in enumerate(_effects(measures, part)):
        is_in, words = part == number, []
        changes, levels = np.abs(effect[: len(CHANGES)]), effect[len(CHANGES) :]
        if not np.isnan(changes).all() and np.abs(levels).max() > max(changes.max(), FOLLOWS_FROM):
            words.append(f"roofs {_word(effect, len(changes) + int(np.abs(levels).argmax()))} before")
        for topic, values in others.items():
            kinds, kind = np.unique(np.asarray(values), return_inverse=True)
            own, rest = (np.bincount(kind[mask], minlength=len(kinds)) / max(int(mask.sum()), 1) for mask in (is_in, ~is_in))
            top = int(own.argmax())
            if own[top] >= NEARLY_ALL and rest[top] <= FEW:
                words.append(f"{topic} {kinds[top]} ({100 * own[top]:.0f} %)")
        found.append("; ".join(words))
    return found


def _effects(measures: Singles, part: NDArray[np.integer]) -> list[Doubles]:
    """Return how far the median of each group is from that of all, in robust standard deviations, float64 [M] each."""
    middle = np.median(measures, 0)
    spread = 1.4826 * np.median(np.abs(measures - middle), 0).clip(1e-6)
    n_groups = int(part.max(initial=-1)) + 1
    nothing = np.zeros(measures.shape[1])
    groups = (measures[part == number] for number in range(n_groups))
    return [(np.median(own, 0) - middle) / spread if len(own) else nothing for own in groups]
