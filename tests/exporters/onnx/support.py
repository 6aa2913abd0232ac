"""Exports modules, checks what comes out, and runs it: by onnxruntime, onnx's own evaluator, and Forge after importing it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import onnx
from onnx.reference import ReferenceEvaluator

from forge import dtypes
from forge.exporters.onnx import export_model, with_weights
from forge.frontends.onnx import import_model
from forge.ir import interp
from forge.ir.graph import Module

Run = Callable[[onnx.ModelProto, Sequence[Any]], list[Any]]


class NotRun(Exception):
    """A runtime refuses the model; what else goes wrong is an error of the test."""


def exported(module: Module, opset: int | None = None) -> onnx.ModelProto:
    """The module as a model that the checker and strict shape inference accept."""
    model, document = export_model(module, opset)
    check(with_weights(model, document.tensors))
    return model


def check(model: onnx.ModelProto) -> None:
    onnx.checker.check_model(model, full_check=True)
    onnx.shape_inference.infer_shapes(model, check_type=True, strict_mode=True)


def onnxruntime_outputs(model: onnx.ModelProto, inputs: Sequence[Any]) -> list[Any]:
    """Outputs of onnxruntime without its optimizations.

    Raises:
        NotRun: it lacks an operator for an element type, or fails.
    """
    import onnxruntime

    inputs = [np.asarray(x) if isinstance(x, np.generic) else x for x in inputs]
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.intra_op_num_threads = 1
    options.log_severity_level = 4
    try:
        session = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
        names = [i.name for i in session.get_inputs()]
        if any(not isinstance(x, np.ndarray) or x.dtype == object for x in inputs):
            return list(session.run(None, dict(zip(names, inputs, strict=True))))
        feeds = {name: _ort_value(onnxruntime, x) for name, x in zip(names, inputs, strict=True)}
        found = [value.numpy() for value in session.run_with_ort_values(None, feeds)]
    except (RuntimeError, ValueError, UnicodeError, onnxruntime.capi.onnxruntime_pybind11_state.RuntimeException) as error:
        raise NotRun(str(error)) from error
    except Exception as error:
        if type(error).__module__.startswith("onnxruntime"):
            raise NotRun(str(error)) from error
        raise
    codes = [o.type.tensor_type.elem_type for o in model.graph.output]
    return [_viewed(x, code) for x, code in zip(found, codes, strict=True)]


def _ort_value(onnxruntime: Any, array: np.ndarray) -> Any:
    array = np.asarray(array, order="C")
    if array.dtype.isbuiltin == 1:
        return onnxruntime.OrtValue.ortvalue_from_numpy(array)
    code = onnx.helper.np_dtype_to_tensor_dtype(array.dtype)
    if dtypes.bits(dtypes.canonical(array.dtype)) < 8:
        raise NotRun("packed elements cannot be passed in from here")
    return onnxruntime.OrtValue.ortvalue_from_numpy_with_onnx_type(array.view(f"uint{8 * array.itemsize}"), code)


def _viewed(array: np.ndarray, code: int) -> np.ndarray:
    """Element types that NumPy lacks come as integers."""
    wanted = onnx.helper.tensor_dtype_to_np_dtype(code)
    return array if array.dtype == wanted or wanted.kind == "O" else array.view(wanted)


def reference_outputs(model: onnx.ModelProto, inputs: Sequence[Any]) -> list[Any]:
    """Outputs of the onnx package's evaluator.

    Raises:
        NotRun: it fails, as it does for many element types.
    """
    try:
        session = ReferenceEvaluator(model)
        with np.errstate(all="ignore"):
            return list(session.run(None, dict(zip(session.input_names, inputs, strict=True))))
    except Exception as error:
        raise NotRun(str(error)) from error


def forge_outputs(model: onnx.ModelProto, inputs: Sequence[Any]) -> list[Any]:
    """Outputs of Forge's interpreter on the model, imported again."""
    with np.errstate(all="ignore"):
        return list(interp.run_graph(import_model(model).main, list(inputs)))


def as_strings(array: Any) -> Any:
    """Text as NumPy objects."""
    return array.astype(object) if isinstance(array, np.ndarray) and array.dtype.kind in "US" else array


def dtype_of(array: np.ndarray) -> str:
    return dtypes.canonical(array.dtype)
