"""Inputs that are made up, for measurements."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import numpy as np

from forge import dims, dtypes
from forge.errors import OptionError
from forge.ir.graph import Graph
from forge.ir.nodes import Value
from forge.lowering.objects import described
from forge.samples import Spec as Spec


def specs_of(values: Iterable[Value]) -> list[Spec]:
    """What inputs are."""
    return [(value.name, dtype, shape or ()) for value in values for dtype, shape in [described(value)]]


def states_of(graph: Graph) -> list[Spec]:
    """What the states are that a function reads, in logical order of axes."""
    return specs_of(value for value in graph.inputs if value.name in graph.states)


def random_inputs(specs: Iterable[Spec], sizes: Mapping[str, int], seed: int = 0) -> dict[str, np.ndarray]:
    """Inputs that fit: normal floats, integers 0 or 1; symbols get ``sizes``, else 1.

    Args:
        specs: as of `specs_of`.

    Raises:
        OptionError: an input cannot be made up, or ``sizes`` names a symbol that no input has.
    """
    rng = np.random.default_rng(seed)
    arrays: dict[str, np.ndarray] = {}
    symbols: set[str] = set()
    for name, dtype, shape in specs:
        if dtype in ("string", "sequence", "optional") or None in shape:
            element = "[0]" if dtype == "sequence" else ""
            raise OptionError(f"input {name!r}: cannot be made up; pass --input {name}{element}=FILE.npy")
        extents = [dims.symbol(d) if isinstance(d, str) else d for d in shape if d is not None]
        used = dims.symbols(*extents)
        symbols.update(used)
        counts = [dims.evaluate(d, {s: sizes.get(s, 1) for s in used}) for d in extents]
        floating = dtypes.is_float(dtype) or dtypes.is_complex(dtype)
        values = rng.standard_normal(counts) if floating else rng.integers(0, 2, counts)
        arrays[name] = np.asarray(values).astype(dtypes.numpy_dtype(dtype))
    unknown = [s for s in sizes if s not in symbols]
    if unknown:
        known = ", ".join(sorted(symbols)) or "none"
        raise OptionError(f"--dim {unknown[0]}: no input that is made up has such a dimension; expected one of: {known}")
    return arrays
