"""What the tests of the driver share."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

import forge
from forge import peers
from forge.driver import check_options, compile_module

LIMIT = 1e-5
"""Of the largest output: sums in another order."""

HALF_LIMIT = 5e-3
"""Of the largest output: a few layers in float16."""

BFLOAT16_LIMIT = 4e-2
"""Of the largest output: bfloat16 has three bits less than float16."""

DIGITS = Path(__file__).parents[2] / "examples" / "digits"


def pictures(count: int = 5) -> np.ndarray:
    """Pictures of the demo's test split."""
    with np.load(DIGITS / "digits_test.npz") as stored:
        images: np.ndarray = stored["images"][:count].astype(np.float32)
    return images


def reference(module: forge.IRModule, *inputs: np.ndarray) -> list[np.ndarray]:
    return peers.as_list(module.get_inference_function("reference")(*inputs))


def difference(module: forge.IRModule, *inputs: np.ndarray, **options: Any) -> float:
    """Between the interpreter and compiled code, relative to the largest output."""
    runtime = compile_module(module.mod, check_options(**options)).runtime()
    return peers.disagreement(peers.as_list(runtime(*inputs)), reference(module, *inputs))


def files(folder: Path) -> list[str]:
    """Everything below ``folder``."""
    return sorted(str(p.relative_to(folder)) for p in folder.rglob("*"))
