"""Further kinds of damage: search for them, see the proposed groups as contact sheets, and name, merge or drop them."""

from __future__ import annotations

from functools import partial
from typing import Any

import plotly.graph_objects as go
import streamlit as st

from pu_geo.project.layout import Layout
from pu_geo.services.explore import discovering, exploring
from pu_geo.services.explore.discovering import Group, Proposal
from pu_geo.ui import frame
from pu_geo.ui.components import job_card

N_CHIPS, CHIP_PX = 12, 74
_AS_SUGGESTED = 0


def draw(layout: Layout, run_id: str | None = None) -> None:
    """Draw the job, and the groups of a discovery with what can be done with them.

    Args:
        run_id: of the run whose mean score each group shows; None shows none.
    """
    st.markdown("#### Further kinds of damage")
    st.caption(
        "NCL sorts the buildings into groups, guided by what you marked so far: the damage types, or damaged and not damaged. "
        "A group is a guess until you have looked at it. Once named, it is offered on Annotate and exported as discovered_type."
    )
    _draw_start(layout)
    is_active = job_card.watch_unless_done(layout, discovering.DISCOVER_TASKS)
    known = discovering.all_ids(layout)
    if not known:
        if not is_active:
            st.info("Nothing was looked for yet.", icon=":material/category:")
        return
    chosen = known[0] if len(known) == 1 else st.selectbox("Discovery", known, help="The newest one is on top.")
    with frame.show_errors():
        _draw_proposal(layout, discovering.proposal(layout, chosen, run_id))


def _draw_start(layout: Layout) -> None:
    problem = discovering.why_not(layout)
    if problem:
        st.info(problem)
        frame.link("annotate", "Mark buildings")
        return
    number, seeds, start = st.columns([2, 2, 3], vertical_alignment="bottom")
    n_groups = number.number_input(
        "Groups", 0, 200, _AS_SUGGESTED, key="types-groups", help="0 takes the number that the buildings' looks suggest."
    )
    seeds.number_input(
        "Trainings", 1, 20, discovering.N_SEEDS, key="types-seeds", help="What they agree on is steadier than one alone."
    )
    start.button(
        "Look for further kinds", icon=":material/category:", key="types-start", disabled=n_groups == 1,
        on_click=frame.does(lambda: discovering.start(
            layout, n_groups=int(st.session_state["types-groups"]) or None, n_seeds=int(st.session_state["types-seeds"])
        )),
    )  # fmt: skip
    if n_groups == 1:
        st.caption(":orange[One group would hold everything; ask for 2 or more.]")


def _draw_proposal(layout: Layout, found: Proposal) -> None:
    known = ", ".join(f"{n} {frame.plain(name)}" for name, n in found.facts["known"].items())
    st.markdown(f"**{len(found.shown)} groups**, learned from {known}.")
    st.caption(frame.plain(discovering.number_words(found)))
    st.caption(frame.plain(discovering.reading_words(found)))
    if found.n_new_answers:
        st.caption(f":orange[{found.n_new_answers} answers came since; look again to learn from them.]")
    if st.toggle("How many groups?", key="types-curve", help="How clearly each number of groups parts the buildings."):
        _draw_curve(found)
    _draw_acts(layout, found)
    for group in found.shown:
        _draw_group(layout, found, group)
    for group in found.dropped:
        words, back = st.columns([5, 2], vertical_alignment="center")
        words.caption(f"Group {group.title}, {discovering.counted(len(group.building_ids), 'building')}, was dropped.")
        if back.button("Put back", key=f"back-{found.id}-{group.title}", icon=":material/undo:"):
            frame.act_and_rerun(partial(discovering.put_back, layout, found.id, group.numbers[0], analyst=frame.analyst()))


def _draw_curve(found: Proposal) -> None:
    curve, number = found.curve, found.facts["n_groups"]
    figure = go.Figure(go.Scatter(x=list(curve), y=list(curve.values()), mode="lines+markers", line_color="#0B6E99"))
    figure.add_vline(
        x=number, line_dash="dot", line_color="#D55E00", annotation_text=f"taken: {number}", annotation_position="top right"
    )
    figure.update_layout(
        height=220, margin={"l": 0, "r": 0, "t": 16, "b": 0}, xaxis_title="groups", yaxis_title="mean silhouette",
        xaxis_dtick=1, showlegend=False,
    )  # fmt: skip
    st.plotly_chart(figure, key=f"types-curve-{found.id}", config={"displaylogo": False})
    st.caption("Higher is clearer, -1 to 1, before any training. Close values mean that nothing speaks for any of them.")


def _draw_acts(layout: Layout, found: Proposal) -> None:
    """Draw what is done with several groups, and the way back."""
    by_title = {group.title: group for group in found.shown}
    which, merge, undo = st.columns([5, 2, 2], vertical_alignment="bottom")
    chosen = which.multiselect(
        "Merge groups", list(by_title), key=f"merge-{found.id}", placeholder="two or more that are one kind",
        format_func=lambda title: f"{title} {by_title[title].name}".strip(),
    )  # fmt: skip
    if merge.button("Merge", icon=":material/merge:", disabled=len(chosen) < 2, key=f"merge-now-{found.id}"):
        numbers = [by_title[title].numbers[0] for title in chosen]
        frame.act_and_rerun(lambda: discovering.merge_groups(layout, found.id, numbers, analyst=frame.analyst()))
    last = discovering.last_act(layout, found.id)  # what the page shows now, and no later one
    undo.button(
        "Undo", icon=":material/undo:", key=f"types-undo-{found.id}", help="Takes the last name, merger or drop back.",
        disabled=last is None,
        on_click=frame.does(lambda: discovering.undo(layout, found.id, decision=last, analyst=frame.analyst())),
    )  # fmt: skip


def _draw_group(layout: Layout, found: Proposal, group: Group) -> None:
    act: dict[str, Any] = {
        "layout": layout,
        "discovery_id": found.id,
        "number": group.numbers[0],
        "analyst": frame.analyst(),
    }
    key = f"{found.id}-{group.title}"
    with st.container(border=True):
        words, buttons = st.columns([5, 4], vertical_alignment="center")
        badge = f" · :green-badge[{frame.plain(group.name)}]" if group.name else ""
        words.markdown(f"**Group {group.title}**{badge} · {discovering.counted(len(group.building_ids), 'building')}")
        with buttons.container(horizontal=True, horizontal_alignment="right"):
            _draw_name(group, key, act)
            if len(group.numbers) > 1 and st.button("Split", icon=":material/call_split:", key=f"split-{key}"):
                frame.act_and_rerun(lambda: discovering.split_group(**act))
            if st.button("Drop", icon=":material/close:", key=f"drop-{key}", help="Puts it aside; it can be put back."):
                frame.act_and_rerun(lambda: discovering.drop_group(**act))
        st.caption(_facts_words(group))
        if group.central:
            pictures = exploring.pictures_of(layout, found.facts["chip_set"], group.central[:N_CHIPS])
            st.image(pictures, width=CHIP_PX)
        else:
            st.caption("All of its buildings are answered already.")


def _draw_name(group: Group, key: str, act: dict[str, Any]) -> None:
    button = st.popover("Rename" if group.name else "Name", icon=":material/label:", key=f"naming-{key}-{group.name}")
    with button, st.form(f"name-form-{key}", border=False):  # a new key, and so a closed one, once the name is saved
        name = st.text_input(
            "What is it?", group.name, max_chars=60, key=f"name-{key}", placeholder="tarps, silted roofs, ..."
        )
        st.caption("Offered on Annotate from now on, and exported. A name that another group has joins the two.")
        if st.form_submit_button("Save"):
            frame.act_and_rerun(lambda: discovering.name_group(**act, name=name))


def _facts_words(group: Group) -> str:
    facts = [discovering.counted(group.n_positive, "positive")]
    if group.n_not_damaged:
        facts.append(f"{group.n_not_damaged} not damaged")
    facts += [f"{frame.plain(name)} {n}" for name, n in group.types.items()]
    if group.score is not None:
        facts.append(f"mean score {group.score:.2f}")
    return " · ".join([*facts, frame.plain(group.stability_words)])
