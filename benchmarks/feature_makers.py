"""What features of several views cost beside plain forward passes, and what the linear ranker makes of each maker's features.

`python -m benchmarks.feature_makers views` takes no data: random chips and random weights, processor time of one thread.
`python -m benchmarks.feature_makers ranking FOLDER` reads chips from each NAME.npz there (`chips` uint8 [N, 6, H, W], `is_damaged`
bool [N]) and prints average precision on the unlabeled after 10 clicks, the mean of 10 draws.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import torch
import torchvision
from numpy.typing import NDArray
from safetensors.torch import save_file

from benchmarks.timing import best_times
from pu_geo.analysis import estimates, metrics, ranker
from pu_geo.features import bank, networks
from pu_geo.features.networks import NetworkMaker
from pu_geo.features.rcf import RcfBank, RcfSettings
from pu_geo.records import FeatureRequest

CPU = torch.device("cpu")
N_CHIPS, SIDE_PX, N_VIEWS, N_CLICKS, N_DRAWS = 256, 64, 17, 10, 10


def random_weights(name: str, folder: Path) -> str:
    """Write random weights of a network of torchvision; return the file."""
    path = folder / f"{name}.safetensors"
    torch.manual_seed(0)
    save_file(torchvision.models.get_model(name, weights=None).state_dict(), path)
    return str(path)


def bench_views(name: str, size_px: int = 0, n_chips: int = N_CHIPS) -> dict[str, float]:
    """Return seconds of one plain pass (chips to features, without augmentation), of all views, and the ratio a view."""
    chips = np.random.default_rng(0).integers(0, 256, (n_chips, 6, SIDE_PX, SIDE_PX)).astype(np.uint8)
    with TemporaryDirectory() as folder:
        request = FeatureRequest("backbone", random_weights(name, Path(folder)), layer="last", size_px=size_px or SIDE_PX)
        maker = bank.fit_maker(request, chips, generator=torch.Generator().manual_seed(0), device=CPU)
    assert isinstance(maker, NetworkMaker)
    network = maker._quick((SIDE_PX, SIDE_PX), CPU)
    step = max(1, networks.PIXELS_AT_ONCE_CPU // 2 // (size_px or SIDE_PX) ** 2)

    def plain() -> None:
        with torch.inference_mode():
            for first in range(0, n_chips, step):
                maker._describe(network, torch.from_numpy(chips[first : first + step]).float(), None)

    _, once = best_times(3, plain)
    _, views = best_times(2, lambda: maker.transform(chips, N_VIEWS, seed=0, device=CPU))
    return {"plain_s": once, "views_s": views, "ratio": views / (N_VIEWS * once)}


def average_precisions(features: NDArray[np.floating], is_damaged: NDArray[np.bool_]) -> list[float]:
    """Rank by 10 clicks at random, in 10 draws: average precision on the unlabeled."""
    prepared, found = ranker.prepare(features), []
    for draw in range(N_DRAWS):
        is_positive = np.zeros(len(is_damaged), np.bool_)
        is_positive[np.random.default_rng(draw).choice(np.flatnonzero(is_damaged), N_CLICKS, replace=False)] = True
        scores, _ = estimates.rank_with_estimate(prepared, is_positive)
        found.append(metrics.average_precision(scores[~is_positive], is_damaged[~is_positive]))
    return found


def makers(chips: NDArray[np.uint8], folder: Path) -> Iterator[tuple[str, Callable[[], NDArray[np.floating]]]]:
    """Yield names, and what computes features of the chips as they were cut."""
    seed = torch.Generator().manual_seed

    def rcf(stride_px: int, n_views: int) -> NDArray[np.floating]:
        return RcfBank.fit(chips, seed(0), RcfSettings(stride_px=stride_px)).transform(chips, n_views, seed=0, device=CPU)

    def made(request: FeatureRequest) -> NDArray[np.floating]:
        maker = bank.fit_maker(request, chips, generator=seed(0), device=CPU)
        return maker.transform(chips, 1, seed=0, device=CPU)[0]

    weights = random_weights("resnet18", folder)
    yield "rcf, stride 4, 17 views: the plain one", lambda: rcf(4, N_VIEWS)[0]
    yield "rcf, stride 4, mean of 17 views", lambda: rcf(4, N_VIEWS).astype(np.float32).mean(0)
    yield "rcf, stride 2, 1 view", lambda: rcf(2, 1)[0]
    yield "resnet18, random weights", lambda: made(FeatureRequest("backbone", weights, layer="last", size_px=SIDE_PX))
    yield "self-supervised", lambda: made(FeatureRequest("self-supervised"))


def run_ranking(folder: Path) -> None:
    """Print a line a set and maker."""
    for path in sorted(folder.glob("*.npz")):
        with np.load(path, allow_pickle=False) as arrays, TemporaryDirectory() as weights:
            chips, is_damaged = arrays["chips"], arrays["is_damaged"]
            for name, compute in makers(chips, Path(weights)):
                began = time.process_time()
                features = compute()
                seconds = (time.process_time() - began) / len(chips) * 1000
                found = average_precisions(features, is_damaged)
                print(
                    f"{path.stem} | {name} | {np.mean(found):.3f} ± {np.std(found):.3f} | {seconds:.1f} s per 1,000",
                    flush=True,
                )


def main(arguments: Sequence[str] | None = None) -> None:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", choices=("views", "ranking"))
    parser.add_argument("folder", nargs="?", type=Path)
    options = parser.parse_args(arguments)
    torch.set_num_threads(1)
    if options.what == "ranking":
        if options.folder is None:
            parser.error("FOLDER is missing.")
        run_ranking(options.folder)
        return
    for name, size_px, n_chips in (("resnet18", 0, N_CHIPS), ("resnet50", 0, N_CHIPS // 2), ("resnet18", 128, N_CHIPS // 2)):
        found = bench_views(name, size_px, n_chips)
        print(f"{name}, {size_px or SIDE_PX} px, {n_chips} chips: {found['plain_s']:.2f} s once, {found['views_s']:.2f} s in "
              f"{N_VIEWS} views, {found['ratio']:.2f} plain passes a view", flush=True)  # fmt: skip


if __name__ == "__main__":
    main()
