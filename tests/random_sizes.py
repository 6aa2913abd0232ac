"""Random ONNX graphs with symbolic batch, heights, widths, lengths: node by node, each evaluated by onnxruntime at several sizes.

What onnxruntime refuses at one of them does not become a node, so that a graph is valid at all. Most nodes are those of networks
for pictures, sequences and volumes (``tests.random_sizes_steps``), with channels as they are there.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx

from tests.random_onnx import Drawn, Network, Unfit, run_onnxruntime

OPSETS = (11, 13, 17, 18, 21)
LARGEST_SIZE = 40_000
LARGEST_INPUT = 8_000
CHANNELS = (1, 3, 3, 4, 8, 13, 16, 16, 24, 32)
HIDDEN_SHARE = 0.85
"""Of the results that others read: where few are outputs, nodes are fused, and layouts go through the whole graph."""

SIZES: dict[str, tuple[tuple[int, ...], tuple[int, ...]]] = {
    "typical": ((1, 1, 2, 4), (8, 12, 16, 20, 32)),
    "prime": ((1, 3, 5), (5, 7, 11, 13, 17, 31)),
    "beyond": ((1, 2, 9, 17), (1, 4, 8, 67, 131, 300)),
    "least": ((1, 1, 2), (1, 1, 2, 3, 5)),
}
"""Of each run: of the batch, and of every other symbol."""


@dataclass
class Run:
    """One set of sizes: contents of all values by name; ``made`` are the results of the latest node."""

    sizes: dict[str, int]
    arrays: dict[str, np.ndarray]
    made: list[np.ndarray]


class SizedNetwork(Network):
    """A graph under construction, with the contents of its values at several sizes; ``arrays`` are those of the first."""

    largest_size = LARGEST_SIZE

    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        self.opset = int(self.rng.choice(OPSETS))
        self.runs: list[Run] = []

    def begin(self, axes: Sequence[int | str], count: int) -> None:
        """Draws sizes and adds ``count`` float32 inputs, whose axes are extents or symbols, ``batch`` among them."""
        for batches, extents in SIZES.values():
            drawn = {str(a): self.pick(*(batches if a == "batch" else extents)) for a in axes if isinstance(a, str)}
            while drawn and np.prod([drawn.get(str(a), a) for a in axes]) > LARGEST_INPUT:
                largest = max(drawn, key=lambda name: drawn[name])
                drawn[largest] = drawn[largest] // 2
            self.runs.append(Run(drawn, {}, []))
        self.arrays = self.runs[0].arrays
        for number in range(count):
            self.inputs.append(onnx.helper.make_tensor_value_info(f"x{number}", onnx.TensorProto.FLOAT, list(axes)))
            for run in self.runs:
                run.arrays[f"x{number}"] = self.contents(self.extents(axes, run.sizes), "float32")

    @staticmethod
    def extents(axes: Sequence[int | str], sizes: dict[str, int]) -> list[int]:
        return [sizes[a] if isinstance(a, str) else a for a in axes]

    def input(self, array: np.ndarray, is_data: bool = True) -> str:
        """The same contents at all sizes."""
        return self._shared(super().input(array, False))

    def constant(self, array: Any, dtype: str = "") -> str:
        return self._shared(super().constant(array, dtype))

    def _shared(self, name: str) -> str:
        for run in self.runs[1:]:
            run.arrays[name] = self.arrays[name]
        return name

    def is_fixed(self, value: str, axis: int) -> bool:
        """Whether an axis has the same extent at all sizes."""
        return len({run.arrays[value].shape[axis] for run in self.runs}) == 1

    def least(self, value: str, axis: int) -> int:
        """The smallest extent of an axis."""
        return min(int(run.arrays[value].shape[axis]) for run in self.runs)

    def node(self, op: str, *operands: str, outputs: int = 1, **attributes: Any) -> list[str]:
        names = super().node(op, *operands, outputs=outputs, **attributes)
        for run in self.runs[1:]:
            run.arrays.update(zip(names, run.made, strict=True))
        return names

    def evaluate(self, node: onnx.NodeProto) -> list[np.ndarray]:
        """Results at the first sizes; those at the others are kept.

        Raises:
            Unfit: onnxruntime refuses the node at some sizes, or a result is too large or has no elements.
        """
        try:
            for run in self.runs:
                self.arrays = run.arrays
                run.made = super().evaluate(node)
                if any(not 0 < a.size <= self.largest_size for a in run.made):
                    raise Unfit
        finally:
            self.arrays = self.runs[0].arrays
        return self.runs[0].made

    def finish(self) -> Drawn:
        drawn = super().finish()
        read = {name for node in self.nodes for name in node.input}
        hidden = [o for o in drawn.model.graph.output if o.name in read and self.rng.random() < HIDDEN_SHARE]
        for output in hidden:
            drawn.model.graph.output.remove(output)
        return drawn

    def feeds(self) -> dict[str, dict[str, np.ndarray]]:
        """The inputs of each run, by its name."""
        return {name: {i.name: run.arrays[i.name] for i in self.inputs} for name, run in zip(SIZES, self.runs, strict=True)}

    def other_feeds(self) -> dict[str, dict[str, np.ndarray]]:
        """Inputs at sizes that operators may refuse: the first ones, but one of them 0; and all of them 1."""
        first = self.runs[0].sizes
        chosen = {f"{name} = 0": first | {name: 0} for name in first} | {"all 1": dict.fromkeys(first, 1)}
        return {what: {i.name: self._resized(i, sizes) for i in self.inputs} for what, sizes in chosen.items()}

    def _resized(self, info: onnx.ValueInfoProto, sizes: dict[str, int]) -> np.ndarray:
        array = self.arrays[info.name]
        axes = [d.dim_param or d.dim_value for d in info.type.tensor_type.shape.dim]
        return np.resize(array, self.extents(axes, sizes))


def random_sized_network(seed: int) -> tuple[SizedNetwork, onnx.ModelProto]:
    """A random graph of 3 to 12 nodes over pictures, sequences or volumes, and its model."""
    from tests.random_sizes_steps import STEPS

    net = SizedNetwork(seed)
    rank = net.pick(1, 1, 2, 2, 2, 3)
    names = [net.pick(name, name, name, net.pick(6, 9)) for name in ("depth", "height", "width")[3 - rank :]]
    net.begin([net.pick("batch", "batch", 1, 2), net.pick(*CHANNELS), *names], net.pick(1, 1, 2))
    wanted = int(net.rng.integers(3, 13))
    for _ in range(6 * wanted):
        with contextlib.suppress(Unfit):
            net.pick(*STEPS)(net)
        if len(net.nodes) >= wanted:
            break
    if not net.nodes:
        net.node("Relu", "x0")
    return net, net.finish().model


Step = Callable[[SizedNetwork], None]

__all__ = ["SIZES", "SizedNetwork", "Step", "Unfit", "random_sized_network", "run_onnxruntime"]
