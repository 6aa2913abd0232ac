"""Compares outputs as the suite does: same number, kind, dtype, shape, and values within the case's tolerances."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

BFLOAT16_ULPS = 2**-6


def check_outputs(expected: Sequence[Any], got: Sequence[Any], rtol: float, atol: float) -> None:
    """Raises AssertionError at the first difference."""
    assert len(got) == len(expected), f"got {len(got)} outputs; expected {len(expected)}"
    for index, (want, have) in enumerate(zip(expected, got)):
        _check(f"output {index}", want, have, rtol, atol)


def _check(where: str, want: Any, have: Any, rtol: float, atol: float) -> None:
    if want is None:
        assert have is None, f"{where}: got {type(have).__name__}; expected nothing"
    elif isinstance(want, list | tuple):
        assert isinstance(have, list | tuple), f"{where}: got {type(have).__name__}; expected a sequence"
        assert len(have) == len(want), f"{where}: got {len(have)} elements; expected {len(want)}"
        for index, (w, h) in enumerate(zip(want, have)):
            _check(f"{where}[{index}]", w, h, rtol, atol)
    else:
        _check_array(where, np.asarray(want), have, rtol, atol)


def _check_array(where: str, want: np.ndarray, have: Any, rtol: float, atol: float) -> None:
    assert isinstance(have, np.ndarray), f"{where}: got {type(have).__name__}; expected an array"
    assert have.shape == want.shape, f"{where}: got shape {have.shape}; expected {want.shape}"
    if want.dtype.kind in "OUS":
        assert have.dtype.kind in "OUS", f"{where}: got {have.dtype}; expected strings"
        np.testing.assert_array_equal(have.astype(str), want.astype(str), err_msg=where)
        return
    assert have.dtype == want.dtype, f"{where}: got {have.dtype}; expected {want.dtype}"
    if want.dtype.name == "bfloat16":
        rtol = max(rtol, BFLOAT16_ULPS)
    if want.dtype.kind not in "biufc":
        want, have = want.astype(np.float32), have.astype(np.float32)
    np.testing.assert_allclose(have, want, rtol=rtol, atol=atol, err_msg=where)
