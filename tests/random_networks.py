"""Random graphs: of all operators, element types, ranks and sizes, with control flow."""

from __future__ import annotations

import numpy as np

from forge.ir.graph import Graph
from forge.ir.op import get_op
from tests.ops.case import Case
from tests.passes.random_graphs import IMAGE_STEPS, SEQUENCE_STEPS
from tests.random_control import control_steps
from tests.random_graphs import DTYPES, EXTENTS, LARGEST_RANK, LARGEST_SIZE, OWN_STEPS, AnyNetwork, is_drawn

CONTROL_SHARE = 0.6
"""Of the graphs that may contain control flow."""


def _any_shape(net: AnyNetwork) -> tuple[int, ...]:
    if net.rng.random() < 0.15:
        return tuple(net.pick(1, 1, 2, 2, 3, net.pick(0, 1)) for _ in range(net.rng.integers(6, LARGEST_RANK + 1)))
    shape = tuple(net.pick(*EXTENTS) for _ in range(net.rng.integers(0, 6)))
    while np.prod(shape) > LARGEST_SIZE:
        shape = shape[1:]
    return shape


def any_network(seed: int, cases: list[Case]) -> tuple[Graph, list[np.ndarray]]:
    """A random graph, and contents of its inputs.

    Normalizations in parts are left to the tests of passes: one kernel computes their differences again, and of equal elements
    nothing but rounding errors is left.
    """
    net = AnyNetwork(seed, [c for c in cases if is_drawn(get_op(c.op))])
    for _ in range(int(net.rng.integers(1, 4))):
        shape = _any_shape(net)
        net.input(net.array(shape, net.pick(*DTYPES)), net.symbolic)
    if net.rng.random() < 0.3:
        net.input(net.array((net.pick(1, 2), net.pick(1, 3, 16), 7, 6), "float32"), net.symbolic)
    networks = [s for s in (*IMAGE_STEPS, *SEQUENCE_STEPS) if s.__name__ != "_normalization"]
    steps = [*OWN_STEPS, *networks] if net.rng.random() < 0.4 else OWN_STEPS
    if net.rng.random() < CONTROL_SHARE:
        steps = [*steps, *control_steps(steps) * 2]
    net.extend(steps, int(net.rng.integers(3, 16)))
    return net.finish(), net.inputs
