"""The project's scale of grades: names, order, and what exports call each."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from pu_geo.answers import labeling
from pu_geo.lifecycle import projects
from pu_geo.records import DAMAGE_CLASSES, MAX_GRADE, MAX_GRADES
from pu_geo.store.grades import Grade
from pu_geo.store.layout import Layout
from pu_geo.ui import frame
from pu_geo.ui.annotate import texts

_KEYS = [str(4 + place) for place in range(MAX_GRADES)]
_NEW = ""  # id of the empty row


def draw(layout: Layout, tools: DeltaGenerator) -> None:
    """Draw the button behind which the scale is edited into `tools`."""
    offered = [one for one in labeling.known_grades(layout) if one.is_offered]
    form, rows = _form_of(layout, offered), [*offered, Grade(_NEW, "", "minor")][:MAX_GRADES]
    popover = tools.popover(texts.GRADES, icon=":material/format_list_numbered:")
    with popover, st.form("grades", border=False, clear_on_submit=True):
        for row, grade in enumerate(rows):
            _row(row, grade, form)
        st.caption(texts.GRADES_NOTE)
        st.form_submit_button(texts.GRADES_SAVE, type="primary", on_click=frame.does(lambda: _save(layout, rows, form)))


def _form_of(layout: Layout, offered: Sequence[Grade]) -> str:
    """Return what keys of fields end in: Streamlit keeps what stands in a field of the same key, of another project too."""
    scale = repr([(grade.id, grade.name, grade.damage_class) for grade in offered])
    return f"{projects.token_of(layout)}-{frame.digest([scale])}"


def _row(row: int, grade: Grade, form: str) -> None:
    shown: Literal["visible", "collapsed"] = "visible" if row == 0 else "collapsed"
    key, name, damage_class = st.columns([2, 5, 4], vertical_alignment="bottom")
    key.selectbox(
        texts.GRADE_KEY, [*_KEYS, texts.GRADE_OFF], index=row, key=f"grade-key-{grade.id}-{form}",
        label_visibility=shown,
    )  # fmt: skip
    name.text_input(
        texts.GRADE_NAME, grade.name, max_chars=MAX_GRADE, key=f"grade-name-{grade.id}-{form}", placeholder=texts.GRADE_NEW,
        label_visibility=shown,
    )  # fmt: skip
    damage_class.selectbox(
        texts.GRADE_CLASS, DAMAGE_CLASSES, index=DAMAGE_CLASSES.index(grade.damage_class),
        key=f"grade-class-{grade.id}-{form}", label_visibility=shown,
    )  # fmt: skip


def _save(layout: Layout, drawn: Sequence[Grade], form: str) -> None:
    """Store the scale as the form has it; the row that was empty is a grade where it has a name now."""
    rows = []
    for grade in drawn:
        fields = (f"grade-{what}-{grade.id}-{form}" for what in ("key", "name", "class"))
        key, name, damage_class = (st.session_state[field] for field in fields)
        if key != texts.GRADE_OFF and (grade.id or name.strip()):
            rows.append((key, Grade(grade.id, name, damage_class)))
    labeling.choose_grades(layout, [grade for _, grade in sorted(rows, key=lambda row: row[0])])
