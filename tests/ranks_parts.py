"""What two processes do that train together, for the tests: each writes what it has into a file of its own."""

from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, distributed, multiprocessing, nn

from pu_geo.losses import contrastive
from pu_geo.methods import catalog
from pu_geo.training import loop
from pu_geo.training.data import ChipImages, FeatureViews, PUData
from pu_geo.training.distributed import Ranks
from pu_geo.training.heads import projection_head
from pu_geo.training.run import Run

CPU = torch.device("cpu")
Work = Callable[[Ranks], Any]
N_CHIPS, WIDTH = 13, 6  # an odd batch: one rank has a chip more
LOSSES: dict[str, Callable[..., Tensor]] = {
    "sscl": lambda z1, z2, _: contrastive.sscl_loss(z1, z2),
    "scl_pu": contrastive.scl_pu_loss,
    "pucl": contrastive.pucl_loss,
    "mcl": partial(contrastive.mcl_loss, supervised_share=0.3),
    "dcl": lambda z1, z2, _: contrastive.dcl_loss(z1, z2, same_class_share=0.1),
}


def on_ranks(works: Mapping[str, Work], folder: Path, n: int = 2) -> dict[str, list[Any]]:
    """Do all of some works in n processes that started together; return what each returned, by name, a rank after the other."""
    folder.mkdir(exist_ok=True)
    multiprocessing.spawn(_one, (n, dict(works), folder), n)  # type: ignore[no-untyped-call]
    found = [torch.load(folder / f"{number}.pt", weights_only=False) for number in range(n)]
    return {name: [each[name] for each in found] for name in works}


def _one(number: int, n: int, works: Mapping[str, Work], folder: Path) -> None:
    torch.set_num_threads(1)
    distributed.init_process_group("gloo", f"file://{folder / 'store'}", rank=number, world_size=n)
    found = {name: work(Ranks(number, n)) for name, work in works.items()}
    distributed.barrier()
    distributed.destroy_process_group()
    torch.save(found, folder / f"{number}.pt")


def features(n: int = 61) -> PUData:
    """Views of features that tell two kinds of damage; batches of 20 leave one over, which joins the last."""
    draw = np.random.default_rng(0)
    kinds = np.arange(n) % 3
    views = (draw.normal(size=(n, 12)) + np.eye(3, 12)[kinds] * 4 + draw.normal(size=(4, n, 12)) * 0.3).astype(np.float32)
    known = np.where(np.arange(n) < 24, kinds, -1)
    return PUData(FeatureViews(views), known >= 1, np.zeros(n, np.bool_), known.astype(np.int64), ("no", "roof", "wall"))


def chips(n: int = 25) -> PUData:
    """Chips of two dates; the damaged ones have a bright patch, and some lack a date."""
    draw = np.random.default_rng(1)
    pixels = draw.integers(60, 120, (n, 6, 16, 16)).astype(np.uint8)
    kinds = np.arange(n) % 3
    pixels[kinds > 0, 3:, 4:10, 4:10] = 220
    pixels[3:6, :3] = 0
    known = np.where(np.arange(n) < 15, kinds, -1)
    return PUData(ChipImages(pixels), known >= 1, np.zeros(n, np.bool_), known.astype(np.int64), ("no", "roof", "wall"))


def trained(
    ranks: Ranks, method: str, data: Callable[[], PUData], settings: Mapping[str, Any], **of_run: Any
) -> dict[str, Any]:
    """Train; return the model's state, what was reported of the epochs, warnings, and what was kept after the last epoch."""
    reports: list[Mapping[str, object]] = []
    run = Run(CPU, 3, report=reports.append, ranks=ranks, **of_run)
    states: list[Any] = []
    keep = loop.snapshot

    def kept(learner: Any) -> Any:
        states.append(keep(learner))
        return states[-1]

    loop.snapshot = kept
    try:
        model = catalog.load_fit(method)(data(), catalog.settings_for(method, "quick", settings), run)
    finally:
        loop.snapshot = keep
    return {"state": model.state(), "losses": [report["loss"] for report in reports], "warnings": run.warnings,
            "kept": states[-1:]}  # fmt: skip


def two_heads() -> tuple[nn.Module, nn.Module]:
    generator = torch.Generator().manual_seed(4)
    images = nn.Sequential(nn.Conv2d(2, 4, 3, padding=1, bias=False), nn.BatchNorm2d(4), nn.ReLU(), nn.Flatten())
    nn.init.normal_(images[0].weight, generator=generator)
    return projection_head(WIDTH, 8, 5, generator), images


def inputs_and_labels() -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Two views, labels, and images; another mean in each row, so that statistics of a share are others than those of all."""
    draw = torch.Generator().manual_seed(5)
    views = torch.randn(2, N_CHIPS, WIDTH, generator=draw) + torch.arange(N_CHIPS)[:, None] / 4
    images = torch.randn(N_CHIPS, 2, 4, 4, generator=draw) + torch.arange(N_CHIPS)[:, None, None, None] / 4
    return views[0], views[1], torch.arange(N_CHIPS) % 3 == 0, images


def loss_and_gradients(ranks: Ranks, loss: str) -> dict[str, Any]:
    """Compute a contrastive loss of two views through a head with BatchNorm, and the gradients of the head's weights."""
    first, second, labels, _ = inputs_and_labels()
    head, own = two_heads()[0], ranks.share(N_CHIPS)
    ranks.synchronize(head)
    value = LOSSES[loss](*(ranks.gather(head(view[own]), N_CHIPS) for view in (first, second)), labels)
    value.backward()
    ranks.sum_gradients(head)
    gradients = {f"gradient {name}": weight.grad for name, weight in head.named_parameters()}
    return {"loss": value.detach(), **gradients, **head.state_dict()}


def batch_norm_of_images(ranks: Ranks) -> dict[str, Any]:
    """Normalize images with weights that are no ones, twice in training and once in evaluation mode."""
    network, images, own = two_heads()[1], inputs_and_labels()[3], ranks.share(N_CHIPS)
    ranks.synchronize(network)
    for _ in range(2):
        network.zero_grad()
        found = ranks.gather(network(images[own].bfloat16().float()), N_CHIPS)
        (found * torch.linspace(-1, 1, found.numel()).view(found.shape)).sum().backward()
        ranks.sum_gradients(network)
    gradients = {f"gradient {name}": weight.grad for name, weight in network.named_parameters()}
    judged = ranks.gather(network.eval()(images[own]), N_CHIPS)
    return {"found": found.detach(), "judged": judged.detach(), **gradients, **network.state_dict()}


def exchanged(ranks: Ranks) -> dict[str, Any]:
    """Gather along both axes, bools too; agree, and keep alike."""
    own = ranks.share(3)
    rows, columns = torch.arange(6.0).view(3, 2), torch.arange(6).view(2, 3) % 2 == 0
    mine = torch.full((2,), float(ranks.number))
    ranks.keep_alike(mine)
    return {"rows": ranks.gather(rows[own], 3), "columns": ranks.gather(columns[:, own], 3, dim=1), "mine": mine,
            "agreed": ranks.agree(0.1 + ranks.number), "empty": ranks.gather(rows[:1][ranks.share(1)], 1)}  # fmt: skip
