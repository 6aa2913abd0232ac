"""A model that asks the program for what it does not have: prices of articles, from a table of the program.

    python examples/callbacks/demo.py FOLDER

compiles the model into FOLDER and runs it here; ``main.c`` runs the same library from C, with a function of its own.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np

import forge

Array = np.ndarray[Any, Any]

MODEL = """
def @main(%articles: Tensor[(n), int64], %counts: Tensor[(n), float32]) {
  %0 = call_registered(%articles, function="shop.prices", shapes=[[n]], dtypes=["float32"]);
  %1 = multiply(%0, %counts);
  sum(%1)
}
"""
PRICES = np.array([0.5, 2.0, 7.25], np.float32)


def prices(articles: Array, results: Array) -> None:
    """Fills ``results``, which has the size that the model says."""
    if articles.min(initial=0) < 0 or articles.max(initial=0) >= len(PRICES):
        raise LookupError(f"articles {articles.tolist()}; expected numbers from 0 to {len(PRICES) - 1}")
    np.take(PRICES, articles, out=results)


def main(folder: Path) -> None:
    """Compiles, registers, loads, runs."""
    forge.IRModule(MODEL).compile(output_path=folder, force_overwrite=True)
    forge.register_func("shop.prices", prices, override=True)
    run = forge.Runtime(folder)
    print("total", run(np.array([0, 2, 2]), np.array([4, 1, 2], np.float32)))
    try:
        run(np.array([9]), np.array([1], np.float32))
    except LookupError as error:
        print(error, *error.__notes__, sep="\n")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
