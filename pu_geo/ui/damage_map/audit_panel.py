"""The accuracy assessment of a run's map: start it, see what it says, and set the threshold by it."""

from __future__ import annotations

from functools import partial
from typing import Any

import plotly.graph_objects as go
import streamlit as st

from pu_geo import wording
from pu_geo.assessment import auditing, random_audits
from pu_geo.assessment.auditing import AuditView
from pu_geo.maps import thresholds
from pu_geo.maps.damage_map import DamageMap
from pu_geo.store import chosen
from pu_geo.store.layout import Layout
from pu_geo.ui import frame
from pu_geo.ui.components import figures
from pu_geo.ui.damage_map import texts
from pu_geo.ui.damage_map.threshold_panel import share_words

_COLORS = {"precision": figures.BLUE, "recall": figures.RED}


def draw(run_id: str, shown: DamageMap) -> None:
    """Draw all about the accuracy assessment of a run's map; "use" buttons store another threshold."""
    found, layout = shown.audit, shown.layout
    if found is None:
        _invite(layout, run_id, shown)
        return
    _status(layout, found)
    _figures(run_id, shown)
    _offer(run_id, shown)
    if any(row.precision.is_enough for row in found.rows):
        curve, wish = st.columns([3, 2], gap="medium")
        with curve:
            figures.draw(_figure(found, shown.limit.value), "audit", texts.CURVE_ALT)
        with wish:
            _wish(layout, run_id, found)
    _notes(found)


def _figures(run_id: str, shown: DamageMap) -> None:
    """Draw the number damaged, precision and recall, each with its interval and basis, or why checks cannot tell it."""
    total, precision, recall = st.columns(3, gap="medium")
    damaged, here = auditing.how_many(shown.layout), shown.at
    figure = damaged.total
    value = texts.NOT_ENOUGH
    if figure.value is not None and figure.low is not None and figure.high is not None:
        value = texts.NUMBER.format(value=figure.value, low=figure.low, high=figure.high)
    total.metric(texts.DAMAGED, value, border=True)
    total.caption(frame.plain(auditing.without_headline(damaged.words_beside(run_id))))
    if here is None:
        return
    both = (
        (precision, texts.PRECISION_AT, texts.PRECISION_HELP, here.precision),
        (recall, texts.RECALL_AT, texts.RECALL_HELP, here.recall),
    )
    for column, title, help_words, share in both:
        words = share.words.removeprefix(texts.NOT_ENOUGH_PREFIX)
        if share.is_enough:
            column.metric(title, share_words(share), border=True, help=help_words)
        else:
            words = texts.CANNOT_TELL.format(title=title, why=words)
        column.caption(frame.plain(words))
    if sites := auditing.by_site(shown.layout, run_id, shown.limit.value):
        with st.expander(texts.BY_SITE):
            st.markdown("\n".join(f"- {frame.plain(one['words'])}" for one in sites))


def _offer(run_id: str, shown: DamageMap) -> None:
    """Draw the threshold that the audit offers, what it and the one of now cost, and the button that takes it."""
    if (offer := thresholds.offer(shown)) is None:
        return
    with st.container(border=True, key="audit-offer"):
        st.markdown(frame.plain(offer.words))
        take = frame.does(partial(chosen.choose_threshold, shown.layout, run_id, *offer.threshold))
        st.button(texts.TAKE.format(n=offer.n_flagged, now=offer.n_now), key="audit-take", on_click=take)


def _invite(layout: Layout, run_id: str, shown: DamageMap) -> None:
    st.markdown(texts.NO_AUDIT)
    frame.caption(auditing.how_many(layout).words_beside(run_id))  # perhaps by the audit of another run
    with frame.show_errors():
        usual = auditing.plan(layout, run_id)
        if not usual.n:
            st.caption(usual.words)
            return
        n = st.number_input(texts.CHECKS, usual.fewest, usual.most, usual.n, 10, width=200, key=f"audit-size-{run_id}")
        rows = auditing.offers(layout, run_id, shown.limit.value, n)
        table = [texts.BUYS, ["---", *["---:"] * (len(texts.BUYS) - 1)], *rows]
        st.markdown("\n".join(f"| {' | '.join(row)} |" for row in table))
        frame.caption(f"{texts.BUYS_WORDS} {usual.words}")
        begin = partial(random_audits.begin_audit, layout, run_id, n, frame.analyst())
        start = texts.START.format(n=n)
        frame.button(start, begin, type="primary", icon=":material/fact_check:", key="audit-start", goes_to="annotate")


def _status(layout: Layout, found: AuditView) -> None:
    """Draw how far it is answered, the way to answer on, and how to draw more."""
    left, n_answered, n_drawn = found.done.n_open, found.done.n_answered, found.done.n_drawn
    with st.container(horizontal=True, vertical_alignment="bottom", gap="medium"):
        with st.container(width="stretch"):
            st.progress(n_answered / max(n_drawn, 1), texts.PROGRESS.format(done=n_answered, drawn=n_drawn))
        check_id = found.check.id
        resume = partial(random_audits.resume, layout, check_id, frame.analyst())
        if left:
            takes_part = random_audits.takes_part(layout, found.check, frame.analyst())
            st.button(
                texts.ANSWER.format(n=left) if takes_part else texts.RESUME, type="primary", icon=":material/fact_check:",
                key="audit-resume", on_click=frame.goes("annotate", resume),
            )  # fmt: skip
        n_left = len(found.check.sample.rows) - n_drawn
        n = min(int(st.number_input(texts.MORE, 1, None, 50, 10, key="more-checks", width=130)), n_left)
        more = partial(random_audits.extend, layout, check_id, n, frame.analyst())
        frame.button(texts.ADD.format(n=n), more, key="audit-more", help=texts.ADD_HELP, disabled=not n)
    if n:
        frame.caption(auditing.more_words(found, n))
    if found.done.state != "finished":
        frame.caption(found.done.words)


def _wish(layout: Layout, run_id: str, found: AuditView) -> None:
    """Offer the threshold that reaches a wanted precision or recall, as far as these checks can tell it."""
    what = st.radio(texts.WISH, texts.PRECISION_OR_RECALL, horizontal=True, key="wish-kind")
    most = int(max(getattr(row, what).value or 0.0 for row in found.rows) * 20) * 5
    if most <= 5 or not found.done.n_damaged:
        st.caption(texts.NO_WISH.format(what=what))
        return
    wish = st.slider(texts.AT_LEAST.format(what=what), 5, most, min(80, most), 5, key=f"wish-{what}", format="%d %%") / 100
    choice = auditing.choose(found, precision=wish) if what == "precision" else auditing.choose(found, recall=wish)
    frame.caption(choice.words)
    for value, words in ((choice.assured, texts.ASSURED), (choice.estimated, texts.ESTIMATED)):
        if value is not None:
            limit, origin = min(max(value, 0.0), 1.0), f"audit:{found.check.id}"
            use = frame.does(partial(chosen.choose_threshold, layout, run_id, limit, origin))
            st.button(texts.USE.format(value=value, how=words), key=f"use-{words}", on_click=use)


def _figure(found: AuditView, threshold: float) -> list[go.Figure]:
    """Precision and recall by threshold, each with its interval."""
    points: list[dict[str, Any]] = []
    for row in found.rows:
        known = {name: getattr(row, name) for name in texts.PRECISION_OR_RECALL}
        points.append({"epoch": row.threshold, "epochs": 1} | {name: one for name, one in known.items() if one.is_enough})
    values = [{name: getattr(one, "value", one) for name, one in point.items()} for point in points]
    drawn = figures.lines(
        texts.CURVE, values, {name: name for name in _COLORS}, xaxis_title=texts.CURVE_X, yaxis=figures.SHARES
    )
    for figure in drawn:
        for name, color in _COLORS.items():
            there = [(point["epoch"], point[name].low, point[name].high) for point in points if name in point]
            if there:
                x, low, high = map(list, zip(*there, strict=True))
                figures.add_interval(figure, x, low, high, color)
        figure.add_vline(threshold, line_dash="dot", line_color="#808080")
    return drawn


def _notes(found: AuditView) -> None:
    if found.agreement is not None and found.agreement.share is not None:
        kappa = "" if found.agreement.kappa is None else texts.KAPPA.format(kappa=found.agreement.kappa)
        share, n = wording.percent(found.agreement.share), wording.plural(found.agreement.n, "building")
        st.caption(texts.AGREEMENT.format(share=share, n=n, kappa=kappa))
    st.caption(texts.CALIBRATED if found.calibration else texts.NOT_CALIBRATED.format(why=frame.plain(found.no_calibration)))
