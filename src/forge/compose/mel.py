"""Weights of bands of a spectrum on the mel scale, of known sizes; ``signal.mel_weights`` is ONNX's, of whole bins."""

from __future__ import annotations

import numpy as np

MAX_WINDOW = 1 << 20
"""Most samples of a frame that a model may ask for."""
MAX_WEIGHTS = 1 << 24
"""Most weights of bands."""


def triangles(bins: int, rate: float, count: int, low: float, high: float) -> np.ndarray:
    """Weights ``[bins, count]`` of triangles of height 1 whose corners are even on HTK's mel scale, from ``low`` to ``high`` Hz.

    Bins are from 0 to half the ``rate``, both included.
    """
    mel = 1127 * np.log1p(np.linspace(0, rate / 2, bins) / 700)[:, None]
    ends = 1127 * np.log1p(np.array([low, high]) / 700)
    corners = np.linspace(ends[0], ends[1], count + 2)
    rising = (mel - corners[:-2]) / (corners[1:-1] - corners[:-2])
    falling = (corners[2:] - mel) / (corners[2:] - corners[1:-1])
    weights: np.ndarray = np.maximum(0, np.minimum(rising, falling))
    return weights
