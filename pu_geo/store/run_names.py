"""What runs are called: what made them and when, unless an analyst gave them a name. Ids stay what files and commands
use.
"""

from __future__ import annotations

from collections.abc import Mapping

from pu_geo import wording
from pu_geo.errors import ProjectError
from pu_geo.methods import catalog
from pu_geo.records import RunFacts
from pu_geo.store import choices, runs, store
from pu_geo.store.layout import LAYERS, RCF, Layout

LONGEST = 60
_CHOICE = "run_name:"
_MOST_LAYERS = 4  # that a name lists
_LONGEST_TITLE = 28  # of a federation, in a name


def usual(run: RunFacts) -> str:
    """Return the name of a run that nobody named: method, preset where the method has several, features, local time.

    For example "NcPU quick, 22 Nov 11:29". A federation's model is called by its title: "June floods (FedAwS), 22 Nov
    11:29".
    """
    at, came = wording.day_and_time(run.created_at), " from elsewhere" if run.from_model else ""
    if title := str((run.federation or {}).get("title") or ""):
        title = title if len(title) <= _LONGEST_TITLE else f"{title[: _LONGEST_TITLE - 1].rstrip()}…"
        return f"{title} ({catalog.title(run.method)}{came}), {at}"
    card = catalog.METHODS.get(run.method)
    preset = f" {run.preset}" if card is not None and len(card.presets) > 1 else ""
    features = "" if run.feature_set == RCF else f" on {_features_of(run)}"
    return f"{catalog.title(run.method)}{preset}{came}{features}, {at}"


def _features_of(run: RunFacts) -> str:
    """Return what the features of a run are of: its layers where a set was made of layers, else the set's name."""
    layers = list(run.views)
    if run.feature_maker.get("kind") != LAYERS or not layers:
        return run.feature_set
    return " + ".join(layers) if len(layers) <= _MOST_LAYERS else wording.plural(len(layers), "layer")


def names(layout: Layout) -> dict[str, str]:
    """Return the name of each run by its id, newest first. No two runs have the same one."""
    with store.connect(layout) as db:
        found, given = runs.all_runs(db), choices.all_of(db, _CHOICE)
    return _named(found, given)


def _named(found: list[RunFacts], given: Mapping[str, object]) -> dict[str, str]:
    """Return the same from the runs, newest first, and what people called them; of equal names the newer one gets a
    number.
    """
    result: dict[str, str] = {}
    taken = {str(name) for name in given.values() if name}
    for run in reversed(found):
        name = str(given.get(run.run_id) or "")
        if not name:
            first = name = usual(run)
            number = 1
            while name in taken:
                number += 1
                name = f"{first} ({number})"
            taken.add(name)
        result[run.run_id] = name
    return dict(reversed(result.items()))


def name(layout: Layout, run_id: str) -> str:
    """Return the name of one run; its id where it is gone."""
    return names(layout).get(run_id, run_id)


def rename(layout: Layout, run_id: str, given: str) -> None:
    """Store what an analyst calls a run; "" takes the name back. The run itself stays as it is.

    Raises:
        ProjectError: if there is no such run, the name is too long, or another run has it.
    """
    words = " ".join(given.split())
    if len(words) > LONGEST:
        raise ProjectError(f"The name has {len(words)} characters; {LONGEST} are allowed.", "Choose a shorter one.")
    with store.connect(layout) as db:
        run_id = runs.find(db, run_id).run_id
        others = _named(runs.all_runs(db), choices.all_of(db, _CHOICE))
        others.pop(run_id)
        if words in others.values():
            raise ProjectError(f"Another run is called {words!r} already.", "Choose another name.", kind="run_name")
        choices.put(db, f"{_CHOICE}{run_id}", words)
