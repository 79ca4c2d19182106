"""Federations: lead one or join one, compare fingerprints, admit members, follow the rounds, and read what left this
machine.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import streamlit as st

from pu_geo import wording
from pu_geo.federation import federating
from pu_geo.federation.federating import Federation, OwnClass, Plan, Privacy
from pu_geo.scenes import features, preparation
from pu_geo.store import chosen as choices
from pu_geo.store import federations, run_names
from pu_geo.store.damage_types import ANSWERS
from pu_geo.store.layout import SHARED, Layout
from pu_geo.ui import frame
from pu_geo.ui.components import file_picker, job_card
from pu_geo.ui.train import texts

_MOST_LINES, _MOST_TROUBLES = 300, 5
_SECONDS_BETWEEN_READS = 2.0
_MAX_MB = 1
_LINE_PX = 270  # one line of a fingerprint, and not two
_SHOWN, _ANOTHER, _STARTED = "federation-shown", "federation-another", "federation-started"


def draw(layout: Layout) -> None:
    """Draw the federations that the project takes part in, and the forms that lead one or join one."""
    found = federating.all_of(layout)
    st.caption(texts.FEDERATION_NOTE)
    if not federating.is_installed():
        st.info(texts.FEDERATION_MISSING, icon=":material/extension:")
    _starting(layout, found)
    _show_started(found)
    if found:
        shown = found[0]
        if len(found) > 1:
            titles = {one.id: f"{one.agreement.title} · {one.id}" for one in found}
            chosen = st.selectbox(texts.FEDERATIONS, list(titles), format_func=lambda key: titles[key], key=_SHOWN)
            shown = next(one for one in found if one.id == chosen)
        with frame.show_errors():
            _status(layout, shown)
        if not st.toggle(texts.ANOTHER_FEDERATION, key=_ANOTHER):
            return
    if not _has_features(layout):
        return
    roles = {texts.LEAD: _lead, texts.JOIN: _join} if federating.is_installed() else {}
    roles[texts.SIMULATE] = _simulate
    role = st.segmented_control(
        texts.FEDERATION_ROLE, list(roles), default=next(iter(roles)), key="federation-role", label_visibility="collapsed"
    )
    roles[role or next(iter(roles))](layout)


def _starting(layout: Layout, found: Sequence[Federation]) -> None:
    """Draw the jobs of federations whose agreement is not written yet, and the page anew once one is."""
    new = {job.job_id for job in federating.starting(layout)}
    job_card.watch(layout, "federation", only=lambda job: job.job_id in new, most=1)

    @st.fragment(run_every=_SECONDS_BETWEEN_READS if new else None)
    def until_there() -> None:
        if federations.ids(layout) != sorted(one.id for one in found):
            st.rerun()

    until_there()


def _show_started(found: Sequence[Federation]) -> None:
    """Choose the federation that was started or joined here, once it is there, and close the form that did it."""
    if st.session_state.get(_STARTED) in {one.id for one in found}:
        st.session_state[_SHOWN] = st.session_state.pop(_STARTED)
        st.session_state[_ANOTHER] = False


def _start_button(
    layout: Layout, label: str, start: Callable[[], str], *, is_ready: bool, **look: Any
) -> None:  # fmt: skip
    """Draw the button that starts or joins a federation, which is shown from then on.

    Args:
        start: does it, and returns the federation's id.
        is_ready: whether the form above is filled in.
        look: what else `frame.button` takes.
    """
    is_starting = any(job.is_active for job in federating.starting(layout))

    def act() -> None:
        st.session_state[_STARTED] = start()

    frame.button(label, act, type="primary", disabled=is_starting or not is_ready, **look)
    if is_starting:
        st.caption(texts.STARTS)


def _has_features(layout: Layout) -> bool:
    """Return whether the project has features that partners can share; else draw what to do."""
    reason = federating.why_not(layout)
    if reason is None:
        return True
    st.warning(frame.plain(reason.words), icon=":material/hourglass_empty:")
    if reason.needs_features:
        is_busy = job_card.is_busy(layout, "chips")
        frame.button(
            texts.MAKE_SHARED, lambda: features.start_maker(layout, SHARED), key="federation-features", type="primary",
            icon=":material/blur_on:", disabled=is_busy,
        )  # fmt: skip
        job_card.watch_unless_done(layout, "chips")
    return False


# A federation that this project takes part in


def _status(layout: Layout, shown: Federation) -> None:
    """Draw how it stands, refreshed while it is at work, and what can be done now."""
    _head(shown)
    if shown.is_over:
        _score(layout, shown)
    else:
        with frame.show_errors():
            _keys(layout, shown)
    ended = ("failed", "interrupted")  # also where this project has the model and another member has not
    own = {job.job_id for job in federating.jobs_of(layout, shown.id) if not shown.is_over or job.state in ended}
    job_card.watch(layout, "federation", only=lambda job: job.job_id in own, most=len(own))

    @st.fragment(run_every=_SECONDS_BETWEEN_READS if shown.is_active else None)
    def progress() -> None:
        with frame.show_errors():
            now = federating.read(layout, shown.id)
            if now.stage != shown.stage:
                st.rerun()
            if now.is_lead and not now.is_over:
                n = now.agreement.settings.rounds
                st.progress(now.round / n, text=texts.ROUND_OF.format(round=now.round, n=n))
            members, cosines = st.columns(2, gap="medium")
            with members:
                _members(now)
            with cosines:
                _cosines(now)

    progress()
    st.caption(texts.TRIAL_NOTE if shown.is_trial else frame.plain(shown.agreement.privacy.words(len(shown.own))))
    _ledger(layout, shown)


def _head(now: Federation) -> None:
    agreed, (color, state) = now.agreement, texts.FEDERATION_STAGES[now.stage]
    role = texts.LEADS if now.is_lead else texts.TAKES_PART
    own = wording.listed(now.own) or texts.FEDERATION_NO_OWN
    facts = texts.FEDERATION_FACTS.format(role=role, own=own, rounds=wording.plural(agreed.settings.rounds, "round"))
    if not now.is_trial:
        facts += texts.FEDERATION_DEADLINE_FACT.format(deadline=wording.duration(agreed.deadline_s))
    trial = f" :violet-badge[{texts.TRIAL}]" if now.is_trial else ""
    st.markdown(f"**{frame.plain(agreed.title)}** :{color}-badge[{state}]{trial} :small[:gray[{frame.plain(facts)}]]")


def _keys(layout: Layout, now: Federation) -> None:
    """Draw what people send each other and compare by phone: invitation, requests, and their fingerprints in large type."""
    path = federating.invitation_file(layout, now.id)
    if path is None:
        return
    invitation = federating.invitation(path)
    left, right = st.columns(2, gap="medium")
    with left:
        _large(texts.SERVER_FINGERPRINT if now.is_lead else texts.LEADER_FINGERPRINT, invitation.fingerprint)
        if now.is_lead:
            _download(texts.SAVE_INVITATION, path, f"{now.id}-invitation.json", "invitation")
        frame.caption(texts.FEDERATION_ADDRESS.format(address=invitation.address))
        _warn_if_local(invitation.address, texts.LOCAL_LEADER if now.is_lead else texts.LOCAL_INVITATION)
    with right:
        if now.is_lead:
            _waiting_room(layout, now)
        else:
            for asked in federating.own_requests(layout, now.id):
                _large(texts.OWN_FINGERPRINT.format(name=asked.member.class_name), asked.member.fingerprint)
                _download(texts.SAVE_REQUEST, asked.path, f"{now.id}-{asked.path.name}", asked.path.stem)


def _large(title: str, fingerprint: str) -> None:
    """Draw a fingerprint as people read it aloud."""
    frame.caption(title)
    st.markdown(f"#### {' '.join(f'`{line}`' for line in _lines(fingerprint))}", width=_LINE_PX)


def _lines(fingerprint: str) -> list[str]:
    """Return the two lines of a fingerprint, of four groups each, whatever the width of the screen."""
    groups = fingerprint.split()
    return ["\N{NO-BREAK SPACE}".join(each) for each in (groups[: len(groups) // 2], groups[len(groups) // 2 :]) if each]


def _key_of(fingerprint: str) -> str:
    """Return the part of a widget's key that keeps a tick or click from counting for another file than the one that was
    shown.
    """
    return fingerprint.replace(" ", "")


def _download(label: str, path: Path, name: str, key: str) -> None:
    st.download_button(
        label, path.read_bytes(), name, "application/json", on_click="ignore", key=f"save-{key}", icon=":material/download:",
        help=texts.FILE_HELP.format(path=frame.plain(str(path))),
    )  # fmt: skip


def _members(now: Federation) -> None:
    """Draw who holds which class, and what went wrong in the newest rounds."""
    for one, state in zip(now.members, now.states, strict=True):
        color, state_words = texts.MEMBER_STATES[state]
        badge = f" :{color}-badge[{state_words}]" if now.is_lead else ""  # nobody else knows how the members stand
        where = f" · {frame.plain(one.project)}" if one.project else ""
        own = f" :small[:gray[{texts.THIS_PROJECT}]]" if one.class_name in now.own else ""
        key = "".join(f"  \n:small[`{line}`]" for line in _lines(one.fingerprint))
        st.markdown(f"**{frame.plain(one.class_name)}**{where}{badge}{own}{key}")
    for words in (*now.warnings, *now.troubles[:_MOST_TROUBLES]):
        st.caption(f":orange[:material/warning:] {frame.plain(words)}")


def _waiting_room(layout: Layout, now: Federation) -> None:
    """Draw who asks to be admitted: whoever sent a file, after their fingerprint was compared."""
    st.caption(texts.WAITING_ROOM)
    path = _file_field(layout, texts.REQUEST, "request", "/media/stick/storm-request-2.json")
    if path:
        with frame.show_errors():
            _request(layout, now, path)


def _file_field(layout: Layout, label: str, key: str, example: str) -> str:
    """Draw the choice of a file that somebody sent, by path or upload; return its path, "" where there is none yet."""
    by_path, upload = st.tabs([texts.BY_PATH, texts.UPLOAD])
    with by_path, st.container(horizontal=True, vertical_alignment="bottom"):
        path = st.text_input(label, key=f"{key}-path", placeholder=example)
        file_picker.browse_button(key, label, "federation", file_picker.into_field(f"{key}-path"))
    with upload:
        given = st.file_uploader(label, type=["json"], max_upload_size=_MAX_MB, key=f"{key}-upload")
    return path.strip() if given is None else preparation.keep_uploads(layout, [(given.name, given.getbuffer())])[0]


def _request(layout: Layout, now: Federation, path: str) -> None:
    asked = federating.request(path)
    asks = asked.member
    with st.container(border=True, gap="small"):
        st.markdown(texts.ASKS.format(project=frame.plain(asks.project), name=frame.plain(asks.class_name)))
        _large(texts.KEY_FINGERPRINT, asks.fingerprint)
        for words in now.agreement.pixel_words(asks.project, asks.gsd_m):
            st.caption(f":orange[:material/warning:] {frame.plain(words)}")
        if asks.fingerprint in {one.fingerprint for one in now.members}:
            st.caption(texts.IS_ADMITTED)
            return
        frame.button(
            texts.ADMIT,
            partial(federating.admit, layout, now.id, asked, asks.fingerprint),
            key=f"admit-{_key_of(asks.fingerprint)}",
            type="primary",
            icon=":material/how_to_reg:",
            help=texts.ADMIT_HELP,
        )


def _cosines(now: Federation) -> None:
    """Draw the cosines of the class vectors: far below 1 between two classes means that they are kept from each other."""
    if not now.cosines:
        st.caption(texts.NO_ROUND if now.is_lead else texts.NO_VECTORS)
        return
    st.caption(texts.COSINES)
    names = now.agreement.classes
    rows = [{"": name, **dict(zip(names, row, strict=True))} for name, row in zip(names, now.cosines, strict=True)]
    st.dataframe(rows, hide_index=True)


def _score(layout: Layout, shown: Federation) -> None:
    """Draw the button that scores this project's buildings by the finished model, and the way to the map."""
    if shown.model is None:
        st.caption(texts.NO_MODEL_HERE)
        return
    job = federating.scoring(layout, shown.id)
    if job is None or job.state != "done":
        frame.button(
            texts.SCORE_WITH_IT, lambda: federating.start_scoring(layout, shown.id), key=f"score-{shown.id}", type="primary",
            icon=":material/map:", disabled=job is not None and job.is_active,
        )  # fmt: skip
        job_card.watch(layout, "model", only=lambda each: job is not None and each.job_id == job.job_id)
        return
    run_id = str(job.result["run_id"])
    st.markdown(
        texts.SCORED.format(
            name=frame.plain(run_names.name(layout, run_id)), classes=frame.plain(wording.listed(shown.agreement.classes))
        )
    )
    st.button(
        texts.SHOW_ON_MAP, key=f"show-{shown.id}", type="primary", icon=":material/map:",
        on_click=frame.goes("damage_map", lambda: choices.choose_run(layout, run_id)),
    )  # fmt: skip


def _ledger(layout: Layout, shown: Federation) -> None:
    """Draw what left this machine: in all in one line, then each tensor, and both as files."""
    if not st.toggle(texts.LEDGER, key=f"ledger-{shown.id}"):
        return
    found = federating.ledger(layout, shown.id)
    if not found:
        st.caption(texts.LEDGER_EMPTY)
        return
    total = federating.ledger_total(found)
    if total.n_tensors:
        tensors = wording.plural(total.n_tensors, "entry", "entries")
        st.caption(texts.LEDGER_TOTAL.format(tensors=tensors, size=wording.size(total.n_bytes)))
    if total.n_here:
        tensors, words = (
            wording.plural(total.n_here, "entry", "entries"),
            texts.LEDGER_TRIAL if shown.is_trial else texts.LEDGER_HERE,
        )
        st.caption(words.format(tensors=tensors, size=wording.size(total.bytes_here)))
    st.dataframe(
        [
            {title: getattr(one, name) for name, title in texts.LEDGER_COLUMNS.items()}
            for one in found[: -_MOST_LINES - 1 : -1]
        ],
        hide_index=True,
        height=260,
        key=f"ledger-table-{shown.id}",
        alt=texts.LEDGER_ALT,
    )
    if len(found) > _MOST_LINES:
        st.caption(texts.LEDGER_NEWEST.format(shown=_MOST_LINES, n=f"{len(found):,}"))
    path = federating.ledger_file(layout, shown.id)
    _download(texts.SAVE_LEDGER, path, f"{shown.id}-{path.name}", f"ledger-{shown.id}")


# Lead, join, try out


def _lead(layout: Layout) -> None:
    st.caption(texts.LEAD_NOTE)
    own = federating.own_classes(layout)
    title, types = _title_and_types(own, "federation")
    chosen = _own_fields(own, types, key="lead", gives_rest=True)
    first, second = st.columns([2, 3], gap="medium", vertical_alignment="bottom")
    host = first.text_input(
        texts.FEDERATION_HOST, Plan().host, key="federation-host", help=texts.FEDERATION_HOST_HELP
    ).strip()
    with second:
        _warn_if_local(host, texts.LOCAL_PLAN)
    with st.container(horizontal=True, gap="small"):
        start = st.container(width="content")
        with st.popover(texts.SETTINGS, icon=":material/tune:", key="federation-settings"):
            plan = _plan(title, types, len(chosen), host)
    _start_button(
        layout,
        texts.LEAD_BUTTON,
        lambda: federating.start(layout, federating.LEAD, federating.arguments_to_lead(layout, plan, chosen)),
        key="federation-lead",
        place=start,
        icon=":material/hub:",
        is_ready=bool(title.strip() and types),
    )


def _title_and_types(own: Sequence[OwnClass], key: str) -> tuple[str, list[str]]:
    """Draw the fields for a federation's title and its damage types, at first those that people named here; return them."""
    first, second = st.columns([2, 3], gap="medium")
    title = first.text_input(
        texts.FEDERATION_TITLE, key=f"{key}-title", max_chars=80, placeholder=texts.FEDERATION_TITLE_EXAMPLE
    )
    given = second.text_input(
        texts.FEDERATION_TYPES, ", ".join(dict.fromkeys(one.name for one in own if one.types_from == ANSWERS)),
        key=f"{key}-types", help=texts.FEDERATION_TYPES_HELP, placeholder=texts.FEDERATION_TYPES_EXAMPLE,
    )  # fmt: skip
    return title, list(dict.fromkeys(filter(None, (" ".join(each.split()) for each in given.split(",")))))


def _warn_if_local(address: str, words: str) -> None:
    """Warn where an address is one that no other machine can reach."""
    if federating.is_local(address):
        st.warning(frame.plain(words.format(address=address)), icon=":material/computer:")


def _plan(title: str, types: Sequence[str], n_held: int, host: str) -> Plan:
    """Draw the settings of a federation, in which this project holds some classes; return what was planned."""
    usual = Plan()
    first = st.columns(2, gap="small")
    rounds = first[0].number_input(
        texts.FEDERATION_ROUNDS, 1, 10_000, usual.rounds, key="federation-rounds", help=texts.FEDERATION_ROUNDS_HELP
    )
    deadline = first[1].number_input(
        texts.FEDERATION_DEADLINE,
        5,
        86_400,
        int(usual.deadline_s),
        key="federation-deadline",
        help=texts.FEDERATION_DEADLINE_HELP,
    )
    kind = st.selectbox(
        texts.FEDERATION_PRIVACY,
        list(texts.PRIVACY_NAMES),
        format_func=lambda name: texts.PRIVACY_NAMES[name],
        key="federation-privacy",
        help=texts.FEDERATION_PRIVACY_HELP,
    )
    privacy = usual.privacy
    if kind != "none":
        second = st.columns(2, gap="small")
        epsilon = second[0].number_input(texts.FEDERATION_EPSILON, 0.1, 1000.0, privacy.epsilon, key="federation-epsilon")
        clip = second[1].number_input(texts.FEDERATION_CLIP, 0.001, 1000.0, privacy.clip, key="federation-clip")
        privacy = Privacy(kind, float(clip), float(epsilon))
        st.caption(frame.plain(privacy.words(n_held)))
    return Plan(title.strip(), tuple(types), int(rounds), float(deadline), privacy, host=host)


def _own_fields(own: Sequence[OwnClass], types: Sequence[str], *, key: str, gives_rest: bool) -> dict[str, str | None]:
    """Draw the choice of the classes that this project holds, and of its buildings; return them."""
    held, rest = st.columns([2, 3], gap="medium")
    found: dict[str, str | None] = {}
    with held:
        name = st.selectbox(
            texts.FEDERATION_OWN, list(types), index=None, key=f"{key}-class", placeholder=texts.FEDERATION_NO_OWN
        )
        if name is not None and name in types:
            found[name] = _source_field(own, name, key)
    with rest:
        st.caption(texts.FEDERATION_REST_NOTE)
        if st.checkbox(texts.FEDERATION_REST, value=gives_rest, key=f"{key}-rest", help=texts.FEDERATION_REST_HELP):
            found[federating.REST] = None
    return found


def _source_field(own: Sequence[OwnClass], name: str, key: str) -> str | None:
    """Draw the choice of where the buildings of a type come from, where there are several; return it."""
    fitting = [one for one in own if one.name in ("", name)]
    fitting.sort(key=lambda one: one.types_from != ANSWERS)  # then all damaged buildings, grades
    counts = {one.types_from: one.n for one in fitting}
    source = next(iter(counts))
    if len(counts) > 1:
        source = st.selectbox(
            texts.FEDERATION_FROM, list(counts), key=f"{key}-source-{name}",
            format_func=lambda each: texts.class_source(each, counts.get(each, 0)),
        )  # fmt: skip
    n = wording.plural(counts[source], "damaged building")
    frame.caption(texts.JOIN_COUNT.format(n=n, name=name))
    return source


def _join(layout: Layout) -> None:
    st.caption(texts.JOIN_NOTE)
    path = _file_field(layout, texts.INVITATION, "invitation", "/media/stick/storm-invitation.json")
    if not path:
        return
    found = federating.invitation(path)
    agreed = found.agreement
    facts = texts.INVITATION_FACTS.format(
        title=agreed.title,
        classes=wording.listed(agreed.classes),
        rounds=wording.plural(agreed.settings.rounds, "round"),
        address=found.address,
    )
    st.markdown(frame.plain(facts))
    _warn_if_local(found.address, texts.LOCAL_INVITATION)
    _large(texts.COMPARE_SERVER, found.fingerprint)
    st.caption(frame.plain(agreed.privacy.words(0)))
    for words in federating.pixel_words(layout, found):
        st.warning(frame.plain(words))
    chosen = _own_fields(federating.own_classes(layout), agreed.classes[1:], key=f"join-{agreed.id}", gives_rest=False)
    is_same = st.checkbox(texts.FINGERPRINTS_MATCH, key=f"join-same-{_key_of(found.fingerprint)}")
    _start_button(
        layout,
        texts.JOIN_BUTTON,
        lambda: federating.start_join(layout, path, chosen, found.fingerprint),
        key="federation-join",
        icon=":material/group_add:",
        is_ready=is_same and bool(chosen),
    )


def _simulate(layout: Layout) -> None:
    """Draw the trial between projects on this machine, which needs no network and no extra."""
    st.caption(texts.SIMULATE_NOTE)
    others = federating.parties(layout)
    if not others:
        st.caption(texts.NO_PARTIES)
        return
    own = federating.own_classes(layout)
    title, types = _title_and_types(own, "trial")
    chosen = st.multiselect(texts.PARTIES, list(others), key="trial-parties")
    held = {layout: _own_fields(own, types, key="trial-here", gives_rest=True)}
    for name in chosen:
        one = others[name]
        st.markdown(frame.plain(name))
        held[one] = _own_fields(federating.own_classes(one), types, key=f"trial-{one.folder}", gives_rest=False)
    rounds = st.number_input(texts.FEDERATION_ROUNDS, 1, 10_000, Plan().rounds, key="trial-rounds", width=160)
    plan = Plan(title.strip(), rounds=int(rounds))
    _start_button(
        layout,
        texts.SIMULATE_BUTTON,
        lambda: federating.start(layout, federating.SIMULATE, federating.arguments_to_simulate(layout, plan, held)),
        key="federation-simulate",
        icon=":material/science:",
        is_ready=bool(title.strip() and chosen),
    )
