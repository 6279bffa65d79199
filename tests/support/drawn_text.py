"""Images with drawn letters, on which trained networks of text recognition decide something."""

from __future__ import annotations

import string
from typing import Any

import cv2
import numpy as np

FONTS = (cv2.FONT_HERSHEY_SIMPLEX, cv2.FONT_HERSHEY_DUPLEX, cv2.FONT_HERSHEY_COMPLEX, cv2.FONT_HERSHEY_TRIPLEX)
LINE = 40  # pixels between the lines of a page


def drawn(count: int, shape: tuple[int, int], seed: int) -> Any:
    """Return images of this height and width, from -1 to 1: words in several fonts, sizes and colours, some of them
    turned by half a circle, some blurred, with noise."""
    rng = np.random.default_rng(seed)
    return np.stack([_drawn(rng, *shape) for _ in range(count)])


def _drawn(rng: np.random.Generator, height: int, width: int) -> Any:
    paper, ink = rng.uniform(150, 255, 3), rng.uniform(0, 100, 3)
    if rng.random() < 0.3:
        paper, ink = ink, paper
    image: Any = np.full((height, width, 3), paper, np.uint8)
    for baseline in range(36, height, LINE):
        letters = "".join(rng.choice(list(string.ascii_letters + string.digits), int(rng.integers(3, 9))))
        at = int(rng.integers(2, 16)), baseline - int(rng.integers(0, 8))
        cv2.putText(image, letters, at, int(rng.choice(FONTS)), float(rng.uniform(0.6, 1.1)), ink.tolist(), 2)
    if rng.random() < 0.5:
        image = cv2.GaussianBlur(image, (3, 3), 0)
    if rng.random() < 0.3:
        image = image[::-1, ::-1]
    noisy = np.clip(image + rng.normal(0, rng.uniform(0, 12), image.shape), 0, 255)
    return (noisy / 127.5 - 1).astype(np.float32).transpose(2, 0, 1)
