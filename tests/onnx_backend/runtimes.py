"""The ways to run a case. Each imports the model anew and evaluates it on one set of inputs."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
import onnx
from onnx import numpy_helper

from forge.frontends.onnx import import_model
from forge.ir import interp
from forge.ir.graph import Module
from forge.ir.op import all_ops
from forge.ir.verifier import verify

Prepared = Callable[[Sequence[Any]], list[Any]]


def imported(model: bytes) -> Module:
    """The model's graphs, checked: whoever gets a module from ``forge.from_onnx`` gets it so."""
    module = import_model(model)
    verify(module)
    return module


def prepare_interpreter(model: bytes, _: Sequence[Any]) -> Prepared:
    """Imports; evaluates with the operators' NumPy meanings."""
    module = imported(model)
    names = [v.name for v in module.main.inputs]
    return lambda inputs: interp.run_module(module, dict(zip(names, inputs, strict=True)))


def frozen(model: bytes, inputs: Sequence[Any]) -> tuple[onnx.ModelProto, list[int]]:
    """The model with all tensor inputs but the first as constants, as most real models have; positions of the inputs left."""
    proto = onnx.ModelProto.FromString(model)
    weights = {tensor.name for tensor in proto.graph.initializer}
    given = [info for info in proto.graph.input if info.name not in weights]
    kept = []
    for index, (info, value) in enumerate(zip(given, inputs)):
        if index == 0 or not isinstance(value, np.ndarray):
            kept.append(index)
        else:
            proto.graph.initializer.append(numpy_helper.from_array(value, info.name))
    declared = [given[index] for index in kept]
    del proto.graph.input[:]
    proto.graph.input.extend(declared)
    return proto, kept


def prepare_frozen(model: bytes, inputs: Sequence[Any]) -> Prepared:
    """As ``interpreter``, of the `frozen` model."""
    proto, kept = frozen(model, inputs)
    run = prepare_interpreter(proto.SerializeToString(), ())
    return lambda values: run([values[index] for index in kept])


def prepare_compiled(model: bytes, _: Sequence[Any]) -> Prepared:
    """Imports and compiles, before any input is known; what is returned runs without the operators' NumPy meanings."""
    from forge.driver.compiler import compile_module

    module = imported(model)
    runtime = compile_module(module).runtime()
    names = [v.name for v in module.main.inputs]

    def run(inputs: Sequence[Any]) -> list[Any]:
        with without_references():
            outputs = runtime(**{n: _given(x) for n, x in zip(names, inputs, strict=True)})
        return as_outputs(module, outputs)

    return run


def as_outputs(module: Module, outputs: Any) -> list[Any]:
    return [outputs] if len(module.main.outputs) == 1 else list(outputs)


def _given(value: Any) -> Any:
    """Arrays in row-major order; sequences and optionals as they are."""
    return value if value is None or isinstance(value, list | tuple) else np.asarray(value, order="C")


@contextmanager
def without_references() -> Iterator[None]:
    """Makes every ``reference`` raise."""

    def forbidden(*_: Any, **__: Any) -> Any:
        raise AssertionError("compiled code called an operator's NumPy meaning")

    ops: list[Any] = list(all_ops())
    for op in ops:
        op.__dict__["reference"] = forbidden
        op.__dict__["reference_regions"] = forbidden
    try:
        yield
    finally:
        for op in ops:
            del op.__dict__["reference"], op.__dict__["reference_regions"]


def prepare_exported(model: bytes, _: Sequence[Any]) -> Prepared:
    """Imports, exports and checks; onnxruntime runs what was exported, or where it cannot the onnx package's evaluator."""
    from tests.exporters.onnx.support import NotRun, exported, onnxruntime_outputs, reference_outputs

    written = exported(imported(model))

    def run(inputs: Sequence[Any]) -> list[Any]:
        try:
            return onnxruntime_outputs(written, inputs)
        except NotRun as error:
            try:
                return reference_outputs(written, inputs)
            except NotRun as other:
                raise NotRun(f"onnxruntime: {error}; reference: {other}") from other

    return run


PREPARE: dict[str, Callable[[bytes, Sequence[Any]], Prepared]] = {
    "interpreter": prepare_interpreter,
    "frozen": prepare_frozen,
    "compiled": prepare_compiled,
    "exported": prepare_exported,
}
"""Ours. Those of others are in ``peers.py``; their processes import nothing of ours."""
