"""Research: the other methods, comparisons of runs and layers, models, federations, and model cards."""

from __future__ import annotations

import streamlit as st

from pu_geo.federation import federating
from pu_geo.runs import training
from pu_geo.scenes import features
from pu_geo.ui import frame
from pu_geo.ui.train import federation_panel, layer_panel, method_cards, model_panel, runs_panel, texts

layout = frame.needs_project()
with frame.title_bar(texts.RESEARCH, texts.RESEARCH_PURPOSE):
    frame.link("train", texts.TO_TRAIN)
found = training.all_runs(layout)
first, layers = None, ()
with frame.show_errors():
    first = texts.FEDERATION if federating.all_of(layout) else None
    layers = features.layers_here(layout)
panels = {
    texts.METHODS: lambda: method_cards.draw(layout, training.data_summary(layout), "types", "baseline"),
    texts.COMPARE: lambda: runs_panel.draw_comparison(layout, found),
    **({texts.LAYERS: lambda: layer_panel.draw(layout)} if layers else {}),
    texts.MODELS: lambda: model_panel.draw(layout),
    texts.FEDERATION: lambda: federation_panel.draw(layout),
    texts.CARD: lambda: runs_panel.draw_card(layout, found),
}
for place, draw in zip(
    st.tabs([*panels], default=first, key="research-tab", on_change="rerun"), panels.values(), strict=True
):
    if place.open:
        with place, frame.show_errors():
            draw()
