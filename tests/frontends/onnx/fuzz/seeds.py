"""Valid models that the fuzzer starts from: the onnx package's backend suite, as it is or with frozen inputs, and files."""

from __future__ import annotations

import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import numpy_helper

MAX_SEED_BYTES = 1 << 20

_BUILT_IN = Path(__file__).parents[4] / "examples" / "digits" / "digits.onnx"


class Seeds:
    """Draws a model; the same generator state gives the same one."""

    def __init__(self, files: Sequence[Path] = ()) -> None:
        from tests.onnx_backend.cases import collect

        self._cases = collect()
        self._files = [_BUILT_IN, *files]
        self._names = sorted(self._cases)

    def draw(self, rng: random.Random) -> onnx.ModelProto:
        """A model of its own, which the caller may change."""
        if rng.random() < 0.05:
            model = onnx.ModelProto()
            model.ParseFromString(rng.choice(self._files).read_bytes())
            return model
        while True:
            case = self._cases[rng.choice(self._names)]
            if case.model.ByteSize() <= MAX_SEED_BYTES:
                break
        model = onnx.ModelProto()
        model.CopyFrom(case.model)
        if rng.random() < 0.5:
            freeze_inputs(model, case.data_sets[0][0], rng)
        return model


def freeze_inputs(model: onnx.ModelProto, values: Sequence[Any], rng: random.Random) -> None:
    """Turns some of the tensors that a case feeds into initializers: sizes, axes and pads are constants in most real models."""
    weights = {tensor.name for tensor in model.graph.initializer}
    fed = [info.name for info in model.graph.input if info.name not in weights]
    keep_declared = rng.random() < 0.5
    for position, (name, value) in enumerate(zip(fed, values)):
        if position == 0 and rng.random() < 0.8 or not isinstance(value, onnx.TensorProto | np.ndarray):
            continue
        tensor = onnx.TensorProto()
        tensor.CopyFrom(value if isinstance(value, onnx.TensorProto) else numpy_helper.from_array(value))
        tensor.name = name
        model.graph.initializer.append(tensor)
        if not keep_declared:
            remaining = [info for info in model.graph.input if info.name != name]
            del model.graph.input[:]
            model.graph.input.extend(remaining)
