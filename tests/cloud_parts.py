"""A made-up town seen from above, and clouds to paint over it."""

import cv2
import numpy as np
from numpy.typing import NDArray

Picture = NDArray[np.uint8]


def town(side: int, seed: int = 0, *, white_roofs: float = 0.3) -> Picture:
    """Draw ground and roofs of 10 to 25 pixels, many of them bright and without color, uint8 [side, side, 3]."""
    rng = np.random.default_rng(seed)
    ground = cv2.resize(rng.normal(0, 14, (side // 4, side // 4)).astype(np.float32), (side, side))
    picture = np.array([95.0, 105.0, 80.0]) + (ground + rng.normal(0, 10, (side, side)))[..., None]
    for x, y in rng.integers(0, side, (side * side // 1600, 2)).tolist():
        width, height = rng.integers(10, 26, 2).tolist()
        roof = [235.0] * 3 if rng.random() < white_roofs else rng.uniform(60, 190, 3).tolist()
        cv2.rectangle(picture, (x, y), (x + width, y + height), roof, -1)
    return np.clip(picture, 1, 255).astype(np.uint8)


def disc(side: int, middle: tuple[float, float], radius: float, soft: float, thick: float = 1.0) -> NDArray[np.float64]:
    """Return how thick a round cloud is, float64 [side, side], 0..1; it fades over `soft` pixels around `radius`."""
    y, x = np.ogrid[:side, :side]
    along = np.clip((radius + soft / 2 - np.hypot(x - middle[0], y - middle[1])) / max(soft, 1e-6), 0, 1)
    return np.asarray(thick * along * along * (3 - 2 * along))


def under_clouds(picture: Picture, thick: NDArray[np.float64], *, white: float = 235.0, seed: int = 0) -> Picture:
    """Paint a cloud that is white with faint billows over a picture."""
    rng = np.random.default_rng(seed)
    coarse = rng.normal(0, 5, (picture.shape[0] // 40 + 2,) * 2)
    billows = cv2.resize(coarse, picture.shape[1::-1], interpolation=cv2.INTER_CUBIC)
    cloud = (white + billows)[..., None] * np.array([1.0, 0.99, 0.985])
    return np.clip(picture * (1 - thick[..., None]) + cloud * thick[..., None], 1, 255).astype(np.uint8)
