"""What whoever leads plans, what all partners of a federation agreed on before its first round, and the digest by which they
know that it is the
same.

It comes as a file from somebody else, so everything in it is checked. Imports no torch.
"""

from __future__ import annotations

import hashlib
import json
import math
import re
from collections.abc import Collection, Mapping
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any

from pu_geo import __version__
from pu_geo.errors import FederationError, PuGeoError, printable
from pu_geo.methods import catalog
from pu_geo.methods.cards.fedaws import FedawsSettings
from pu_geo.records import MAX_TYPE, Facts, Grid
from pu_geo.store import contents, federations
from pu_geo.store.federations import REST
from pu_geo.store.layout import checked_id
from pu_geo.training.model_files import parse_object

MAX_CLASSES, MAX_FEATURES, MAX_BYTES = 256, 8192, 100_000
LOCALHOST = "127.0.0.1"
PRIVACIES = ("none", "local", "central")
BANDS = ("post", "pre+post")
_SHA256 = re.compile(r"[0-9a-f]{64}")
_ASK = "Ask whoever leads for a new invitation."
_SET = "Change it where the federation is made."


@dataclass(frozen=True)
class FeatureSpace:
    """The features that every partner computes of its own chips.

    Attributes:
        name: of the leader's feature set, for people.
        kind: of its maker, a row in `features.bank.MAKERS`.
        n_features: per chip, D.
        fingerprint: lowercase hex sha256 of filters or weights, and settings; see `features.bank.fingerprint`.
        bands, size_px: of the chips, as in `pu-geo chip`.
        gsd_m: pixel size on the ground of the leader's project, metres.
    """

    name: str
    kind: str
    n_features: int
    fingerprint: str
    bands: str
    size_px: int
    gsd_m: float

    def __post_init__(self) -> None:
        for name in ("name", "kind"):
            _text(f"features.{name}", getattr(self, name), 80)
        _number("features.n_features", self.n_features, 1, MAX_FEATURES, whole=True)
        _number("features.size_px", self.size_px, 16, 256, whole=True)
        _number("features.gsd_m", self.gsd_m, 1e-4, 1e4)
        if self.bands not in BANDS:
            raise _wrong("features.bands", self.bands, f"one of {', '.join(BANDS)}")
        if not isinstance(self.fingerprint, str) or not _SHA256.fullmatch(self.fingerprint):
            raise _wrong("features.fingerprint", self.fingerprint, "a sha256 of 64 hex digits")


@dataclass(frozen=True)
class Privacy:
    """Whether noise hides what single members send; see `federation.privacy_job`.

    Attributes:
        kind: "none"; "local": each member clips and adds noise before it sends; "central": the leader does, after it has
            received.
        clip: longest change of theta and class vector together that counts, in the L2 norm.
        epsilon, delta: bound over all rounds; smaller is more private.
    """

    kind: str = "none"
    clip: float = 1.0
    epsilon: float = 8.0
    delta: float = 1e-5

    def __post_init__(self) -> None:
        if self.kind not in PRIVACIES:
            raise _wrong("privacy.kind", self.kind, f"one of {', '.join(PRIVACIES)}")
        _number("privacy.clip", self.clip, 1e-6, 1e6)
        _number("privacy.epsilon", self.epsilon, 1e-3, 1e6)
        _number("privacy.delta", self.delta, 1e-15, 0.1)

    @property
    def rho(self) -> float:
        """What all rounds together cost one member, in zCDP; see `federation.privacy_job`."""
        log = math.log(1 / self.delta)
        return (math.sqrt(log + self.epsilon) - math.sqrt(log)) ** 2

    def epsilon_of_agency(self, n_classes: int) -> float:
        """Return the epsilon of all rounds, at the same delta, for what an agency that holds several classes contributes.

        Its members have noise of their own with "local": rho adds up. With "central" all are in the one sum that gets noise,
        which they can move so many times as far: rho grows with the square.

        Example:
            >>> round(Privacy("local", epsilon=8.0, delta=1e-5).epsilon_of_agency(2), 2)
            11.93
        """
        rho = self.rho * (n_classes if self.kind == "local" else n_classes**2)
        return rho + 2 * math.sqrt(rho * math.log(1 / self.delta))

    def words(self, n_held: int) -> str:
        """Return in plain words what noise hides, and what it does not, where a project holds so many classes."""
        about_class = "The class vectors that all get at the end tell something about what each damage type is like."
        if self.kind == "none":
            return (
                "No noise: there is no formal privacy. Images, footprints and labels stay on each machine, but whoever "
                "sees the weights that a "
                f"member sends can learn something of its buildings. {about_class}"
            )
        who = {
            "local": "Each agency adds noise before it sends: nobody else gets its plain weights",
            "central": "The leader adds noise to what it averages: the other agencies get no plain weights, the leader does",
        }[self.kind]
        agency = (
            f"the {n_held} classes of this project together"
            if n_held > 1
            else "an agency that holds two, such as a damage type and rest"
        )
        return (
            f"{who}. Over all rounds epsilon is {self.epsilon:g} at delta {self.delta:g} for what one member, one class of "
            f"an agency, contributes, and up to {self.epsilon_of_agency(max(n_held, 2)):.3g} for {agency}; smaller hides "
            f"more. {about_class}"
        )


@dataclass(frozen=True)
class Agreement:
    """A federation's rules.

    Attributes:
        id: names its folder in every project.
        classes: "rest", then the damage types; the place of each is its row of W.
        settings: of FedAwS, rounds and steps of a round among them.
        quorum: how many rows must have taken part for a round to count, 1 to the number of classes.
        deadline_s: how long a round waits for members, seconds.
        max_norm: longest change of theta, and of a class vector, that a member may send in a round, in the L2 norm.
        tries: how often a round is asked for before a federation without quorum ends.
        seed: of theta and W at the start, and of what members draw.
        version: of PU-Geo.
    """

    id: str
    title: str
    classes: tuple[str, ...]
    features: FeatureSpace
    settings: FedawsSettings = field(default_factory=FedawsSettings)
    quorum: int = 2
    deadline_s: float = 600.0
    max_norm: float = 100.0
    tries: int = 3
    privacy: Privacy = field(default_factory=Privacy)
    seed: int = 0
    version: str = __version__

    def __post_init__(self) -> None:
        try:
            checked_id(self.id)
        except (PuGeoError, TypeError) as error:
            raise _wrong("id", self.id, "made of lowercase letters, digits, '-' and '_'") from error
        _text("title", self.title, 200)
        _text("version", self.version, 80)
        _check_classes(self.classes)
        _number("quorum", self.quorum, 1, len(self.classes), whole=True)
        _number("deadline_s", self.deadline_s, 0.01, 7 * 86400.0)
        _number("max_norm", self.max_norm, 1e-6, 1e6)
        _number("tries", self.tries, 1, 1000, whole=True)
        _number("seed", self.seed, 0, 2**31, whole=True)
        _check_settings(self.settings, self.privacy)

    @classmethod
    def of(cls, folder: Path) -> Agreement:
        """Read the agreement of a federation's folder. Raises ProjectError if there is none, FederationError if it is
        damaged.
        """
        return cls.from_json(federations.agreement_bytes(folder))

    @classmethod
    def from_json(cls, content: bytes) -> Agreement:
        """Read an agreement, which may come from anybody.

        Raises:
            FederationError: if it is no agreement, or a value in it is not what it must be.
        """
        try:
            facts = parse_object(content, MAX_BYTES)
        except ValueError as error:
            raise FederationError(f"The agreement {error}.", _ASK, kind="agreement") from error
        given = _all_of(cls, facts, "The agreement")
        if not isinstance(given["classes"], list):
            raise _wrong("classes", given["classes"], "a list of names")
        settings = _all_of(FedawsSettings, given["settings"], "settings of the agreement")
        for item in fields(FedawsSettings):
            value, usual = settings[item.name], item.default
            if type(value) is not type(usual) and not (type(usual) is float and type(value) is int):
                raise _wrong(f"settings.{item.name}", value, f"such as {usual!r}")
        try:
            made = FedawsSettings(**settings)
        except PuGeoError as error:
            raise FederationError(f"The agreement has a wrong setting: {error.problem}", _ASK, kind="agreement") from error
        return cls(
            **{
                **given,
                "classes": tuple(given["classes"]),
                "features": FeatureSpace(**_all_of(FeatureSpace, given["features"], "features of the agreement")),
                "settings": made,
                "privacy": Privacy(**_all_of(Privacy, given["privacy"], "privacy of the agreement")),
            }
        )

    def to_json(self) -> bytes:
        """Return the agreement as it is stored and passed on: the same one gives the same bytes."""
        return (json.dumps(asdict(self), sort_keys=True, ensure_ascii=False, indent=1) + "\n").encode()

    @property
    def digest(self) -> str:
        """Lowercase hex sha256 of `to_json`."""
        return hashlib.sha256(self.to_json()).hexdigest()

    @property
    def types(self) -> tuple[str, ...]:
        """The damage types, in the order of their rows."""
        return self.classes[1:]

    def row(self, class_name: str) -> int:
        """Return a class's row of W. Raises FederationError if there is no such class."""
        if class_name not in self.classes:
            raise FederationError(
                f"This federation has no class {printable(class_name)!r}; it has: {', '.join(self.classes)}.",
                "Join with one of them, or ask whoever leads for a federation with yours.",
                kind="class",
            )
        return self.classes.index(class_name)

    def require_current(self) -> None:
        """Refuse an agreement that another version of PU-Geo made. Raises FederationError."""
        if self.version != __version__:
            raise FederationError(
                f"The federation {self.id} was agreed on with PU-Geo {printable(self.version)}; here is PU-Geo "
                f"{__version__}.",
                "All partners need the same version: install it, or ask for a new federation.",
                kind="version",
            )

    def pixel_words(self, project: str, gsd_m: float) -> list[str]:
        """Return in words that a project has much finer or coarser pixels, metres, than those agreed on; nothing where it
        has not.
        """
        return contents.pixel_words(gsd_m, self.features.gsd_m, "The federation", f"in {printable(project)}")

    def site_pixel_words(self, project: str, grid: Grid) -> list[str]:
        """Return the same of each site of a project that is here."""
        return contents.site_pixel_words(grid, [self.features.gsd_m], "The federation", f"in {printable(project)}")

    def warnings(self, folder: Path) -> list[str]:
        """Return what whoever leads must know: members of other pixels, and classes that took part in few of the rounds so
        far.
        """
        projects = {(one.project, one.gsd_m) for one in federations.members(folder).values()}
        found = [words for project, gsd_m in sorted(projects) for words in self.pixel_words(project, gsd_m)]
        if rounds := federations.rounds(folder):
            parts = federations.took_part(rounds, len(self.classes))
            found += federations.absence_words(self.classes, parts, rounds[-1].number)
        return found


@dataclass(frozen=True)
class Plan:
    """What whoever leads chooses; `Agreement` has the bounds.

    Attributes:
        types: damage types, without "rest".
        host: by which the others reach this machine.
    """

    title: str = ""
    types: tuple[str, ...] = ()
    rounds: int = 30
    deadline_s: float = 120.0
    privacy: Privacy = field(default_factory=Privacy)
    seed: int = 0
    host: str = LOCALHOST

    @classmethod
    def from_json(cls, facts: Facts) -> Plan:
        """Return the plan of which `asdict` gave the facts."""
        return cls(**{**facts, "types": tuple(facts["types"]), "privacy": Privacy(**facts["privacy"])})

    def agreement(self, federation: str, features: FeatureSpace) -> Agreement:
        """Return what it proposes to the members. Raises FederationError if a value is not what an agreement allows."""
        return Agreement(
            federation,
            self.title,
            (REST, *self.types),
            features,
            catalog.settings_for("fedaws", "quick", {"rounds": self.rounds}),
            deadline_s=self.deadline_s,
            privacy=self.privacy,
            seed=self.seed,
        )


def _check_classes(classes: object) -> None:
    if not isinstance(classes, tuple) or not 2 <= len(classes) <= MAX_CLASSES:
        raise _wrong("classes", classes, f"a list of 2 to {MAX_CLASSES} names")
    for name in classes:
        _text("a class", name, MAX_TYPE)
    if classes[0] != REST or len(set(classes)) < len(classes):
        raise _wrong("classes", classes, f"{REST!r} first, and then each damage type once")


def _check_settings(settings: FedawsSettings, privacy: Privacy) -> None:
    """Refuse what a federation cannot do, or nobody would notice that it does not."""
    for name, only in (
        ("backbone", "features"),
        ("pretrain_epochs", 0),
        ("weights_file", ""),
        ("precision", "float32"),
        ("compiled", False),
    ):
        if getattr(settings, name) != only:
            raise FederationError(
                f"A federation trains on cached features alone, so settings.{name} must be {only!r}; it is "
                f"{printable(getattr(settings, name))!r}.",
                "A network trained from chips would share statistics of the imagery (BatchNorm): make features with it "
                "instead.",
                kind="agreement",
            )
    if privacy.kind != "none" and settings.weighting != "equal":
        raise FederationError(
            "With noise members count equally: their numbers of chips would leave them without any; settings.weighting is "
            "'chips'.",
            "Set weighting to equal, or privacy to none.",
            kind="agreement",
        )


def _all_of(kind: type[Any], facts: object, what: str) -> Facts:
    """Return an object's facts if they are all fields of a dataclass and no others."""
    if not isinstance(facts, Mapping):
        raise FederationError(f"{what} must be an object; it is {printable(facts)!r}.", _ASK, kind="agreement")
    if odd := odd_name({item.name for item in fields(kind)}, facts):
        raise FederationError(
            f"{what} {odd}.", "It may come from another version of PU-Geo: install the same one.",
            kind="agreement",
        )  # fmt: skip
    return dict(facts)


def odd_name(wanted: Collection[str], came: Collection[str]) -> str:
    """Return which name is missing or not known, as in "lacks 'seed'"; "" where the names are those that are wanted."""
    odd = sorted({*wanted} ^ {*came})
    return f"{'lacks' if odd[0] in wanted else 'has an unknown'} {printable(odd[0])!r}" if odd else ""


def _text(name: str, value: object, most: int) -> None:
    if not isinstance(value, str) or not 1 <= len(value) <= most or not value.isprintable():
        raise _wrong(name, value, f"a text of 1 to {most} characters")


def _number(name: str, value: object, low: float, high: float, *, whole: bool = False) -> None:
    is_number = type(value) is int or (type(value) is float and not whole and math.isfinite(value))
    if not is_number or not low <= value <= high:  # type: ignore[operator]
        kind = "a whole number" if whole else "a number"
        raise _wrong(name, value, f"{kind} between {low:g} and {high:g}")


def _wrong(name: str, value: object, right: str) -> FederationError:
    return FederationError(
        f"In the agreement of a federation {name} is {printable(value)!r}; it must be {right}.", _SET, kind="agreement"
    )
