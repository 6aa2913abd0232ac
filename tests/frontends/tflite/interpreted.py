"""TFLite's interpreter on whole models, those with custom operators of MediaPipe included.

The interpreter does not have these: it runs the operators between them, and NumPy computes them.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from forge.frontends.tflite import flexbuffer
from forge.frontends.tflite.model import Operator, TfliteModel
from forge.frontends.tflite.sources import read
from tests.frontends.tflite import mediapipe_kernels as kernels
from tests.frontends.tflite.record import FAST, PLAIN

Kernel = Callable[[bytes, Sequence[np.ndarray]], list[np.ndarray]]
_KERNELS: dict[str, Kernel] = {
    "Convolution2DTransposeBias": lambda options, values: kernels.transposed_convolution(options, *values),
    "TransformTensorBilinear": lambda options, values: kernels.transformed_image(flexbuffer.read(options), *values),
    "Landmarks2TransformMatrix": lambda options, values: kernels.landmarks_matrix(flexbuffer.read(options), *values),
    "TransformLandmarks": lambda options, values: kernels.transformed_landmarks(*values),
}


def interpreter_of(data: bytes, kind: str, shape: Sequence[int] | None = None) -> Any:
    """The interpreter of a model, with kernels of a kind that `record` names; ``shape`` is that of its input."""
    from ai_edge_litert.interpreter import Interpreter, OpResolverType

    by_kind = {FAST: OpResolverType.AUTO, PLAIN: OpResolverType.BUILTIN_WITHOUT_DEFAULT_DELEGATES}
    found = Interpreter(
        model_content=data, experimental_op_resolver_type=by_kind.get(kind, OpResolverType.BUILTIN_REF), num_threads=1)
    if shape is not None:
        found.resize_tensor_input(found.get_input_details()[0]["index"], shape)
    found.allocate_tensors()
    return found


class Model:
    """A model that is run again and again, whose variables stay."""

    def __init__(self, path: Path, kind: str, shape: Sequence[int] | None = None) -> None:
        model = read(path).model
        main = model.subgraphs[0]
        self.inputs, self.outputs = main.inputs, main.outputs
        self._steps: list[tuple[Any, Sequence[int], Sequence[int]]] = []
        self._known = {n: t.contents for n, t in enumerate(main.tensors) if t.contents is not None}
        data = path.read_bytes()
        for is_custom, part in _parts(model):
            if is_custom:
                self._steps += [(one, one.inputs, one.outputs) for one in part]
            else:
                is_whole = len(part) == len(main.operators)
                own, given, found = (data, self.inputs, self.outputs) if is_whole else _cut(data, model, part)
                kernels_of = PLAIN if kind == FAST and not is_whole else kind  # XNNPACK fails on some parts of graphs
                self._steps.append((interpreter_of(own, kernels_of, shape), given, found))

    @property
    def details(self) -> list[dict[str, Any]]:
        """Of the inputs, as the interpreter describes them."""
        every = [entry for step, *_ in self._steps if not isinstance(step, Operator) for entry in step.get_input_details()]
        by_name = {entry["index"]: entry for entry in reversed(every)}
        return [by_name[number] for number in self.inputs]

    def __call__(self, *inputs: np.ndarray) -> list[np.ndarray]:
        values = dict(zip(self.inputs, inputs, strict=True))
        for step, given, found in self._steps:
            if isinstance(step, Operator):
                operands = [values[n] if n in values else self._known[n]() for n in given]
                values |= zip(found, _KERNELS[step.name](step.custom_options, operands))
                continue
            for number in given:
                step.set_tensor(number, values[number])
            step.invoke()
            values |= {number: step.get_tensor(number) for number in found}
        return [values[number] for number in self.outputs]


def _parts(model: TfliteModel) -> Iterator[tuple[bool, list[Operator]]]:
    for is_custom, part in itertools.groupby(model.subgraphs[0].operators, lambda one: one.name in _KERNELS):
        yield is_custom, list(part)


def _cut(data: bytes, model: TfliteModel, part: Sequence[Operator]) -> tuple[bytes, list[int], list[int]]:
    """A model of some of the operators, what it takes, and what it gives to the others."""
    import flatbuffers
    from ai_edge_litert import schema_py_generated as schema

    main = model.subgraphs[0]
    places = [main.operators.index(one) for one in part]
    made = {number for one in part for number in one.outputs}
    others = {number for one in main.operators if one not in part for number in one.inputs}
    given = list(dict.fromkeys(
        n for one in part for n in one.inputs if n >= 0 and n not in made and main.tensors[n].contents is None))
    found = [number for number in made if number in others or number in main.outputs]
    whole = schema.ModelT.InitFromObj(schema.Model.GetRootAs(data))
    graph = whole.subgraphs[0]
    graph.operators = [graph.operators[place] for place in places]
    graph.inputs, graph.outputs, whole.signatureDefs = given, found, []
    builder = flatbuffers.Builder(len(data))
    builder.Finish(whole.Pack(builder), b"TFL3")
    return bytes(builder.Output()), given, found
