"""Expected times of trainings, what they reached elsewhere, and the button that measures how fast this machine is."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import streamlit as st

from pu_geo import jobs
from pu_geo.errors import PuGeoError
from pu_geo.project.layout import Layout
from pu_geo.services.train import training, training_times
from pu_geo.ui.components import job_card
from pu_geo.ui.frame import show_errors


class Times:
    """Expected times for one project on this machine, as they are shown in one run of a page."""

    def __init__(self, layout: Layout) -> None:
        self._amount = training_times.amount_of(layout)
        self._speed = training_times.speed()

    def preset_words(self, card: training.MethodCard, preset: str) -> str:
        """Name a preset with its time, such as "quick (about 10 s)"."""
        found = self._found(card, preset, {})
        return f"{preset} ({found.short})" if found else preset

    def tell(self, card: training.MethodCard, preset: str, changed: Mapping[str, str]) -> None:
        """Draw how long a training by this form will take; nothing before there are chips, or where a value is wrong."""
        found = self._found(card, preset, changed)
        if found is None:
            return
        words = f"Preset {preset}: {found.words}"
        if found.is_long:
            st.warning(words, icon=":material/hourglass_top:")
        else:
            st.caption(f":material/schedule: {words}")

    def _found(
        self, card: training.MethodCard, preset: str, changed: Mapping[str, str]
    ) -> training_times.ExpectedTime | None:
        if self._amount is None:
            return None
        try:
            return training_times.expected_time(card.name, preset, self._amount, self._speed, changed)
        except PuGeoError:  # a value that is out of bounds is told when the training is started
            return None


def figures(lines: Sequence[str]) -> None:
    """Draw what a method reached where the truth is known, a line an event."""
    if lines:
        st.caption(
            "\n".join(
                ["Reached with quick, AUC / AP, the instant ranker's in brackets:", "", *(f"- {line}" for line in lines)]
            ),
            help="AUC: chance that a damaged building scores above an undamaged one. AP: how pure the top of the list is. Methods "
            "were tuned while looking at these events, so expect less on yours. All figures: docs/tables.md.",
        )


def machine(layout: Layout) -> None:
    """Draw what expected times rest on, and a button that measures this machine in the background."""
    newest = next((job for job in jobs.all_jobs(layout) if job.task == training_times.PROBE_TASK), None)
    words, button = st.columns([4, 1], vertical_alignment="center")
    known = training_times.speed()
    words.caption(training_times.measured_words(known))
    is_running = newest is not None and newest.is_active
    if button.button(
        "Measure this machine" if known.is_shipped else "Measure again",
        disabled=is_running,
        key="measure",
        help="Some short trainings on made-up chips: about 15 s.",
    ):
        with show_errors():
            training_times.measure_speed(layout)
            st.rerun()
    if newest is not None and newest.state != "done":
        job_card.watch(layout, [training_times.PROBE_TASK])
