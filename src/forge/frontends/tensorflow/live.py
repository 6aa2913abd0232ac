"""Programs that TensorFlow has in memory: graphs, concrete functions, and what SavedModels become when TensorFlow loads them."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import numpy as np

from forge.errors import ImportModelError, OptionError
from forge.frontends.tensorflow.messages import dtype_of, parse
from forge.frontends.tensorflow.model import Signature, Tensor, TensorFlowModel, read_graph

_SERVE = "serving_default"


def read(source: Any) -> TensorFlowModel | None:
    """The program of an object of TensorFlow; None for others.

    Raises:
        OptionError: it has no graph, or several; ImportModelError: what it captures has no contents.
    """
    kind = type(source)
    if kind.__name__ in ("GraphDef", "SavedModel") and hasattr(source, "SerializeToString"):
        from forge.frontends.tensorflow.sources import read as read_source

        return read_source(source.SerializeToString())
    framework = sys.modules.get("tensorflow")
    if framework is None:
        return None
    if isinstance(source, framework.Graph):
        return read(source.as_graph_def())
    if hasattr(source, "captured_inputs") and hasattr(source, "structured_input_signature"):
        return _of_concrete_function(source)
    if hasattr(source, "get_concrete_function"):
        return _of_concrete_function(_only_trace(source))
    signatures = getattr(source, "signatures", None)
    if signatures is not None:
        if not len(signatures):
            raise OptionError("from_tensorflow: the model has no signatures; expected a concrete function of it: "
                              "function.get_concrete_function(...)")
        return _of_concrete_function(signatures[_SERVE if _SERVE in signatures else next(iter(signatures))])
    return None


def _only_trace(function: Any) -> Any:
    if getattr(function, "input_signature", None) is not None:
        return function.get_concrete_function()
    raise OptionError("from_tensorflow: got a tf.function without an input signature; expected a concrete function: "
                      "function.get_concrete_function(tf.TensorSpec(...))")


def _of_concrete_function(function: Any) -> TensorFlowModel:
    """Arguments are the inputs; what it captures are variables and constants."""
    graph = parse("GraphDef", function.graph.as_graph_def().SerializeToString(), "GraphDef")
    captured = {internal.name.rpartition(":")[0]: external for external, internal in function.graph.captures}
    own = [t for t in function.inputs if t.name.rpartition(":")[0] not in captured]
    variables: dict[str, Callable[[], np.ndarray]] = {}
    known = {id(v.handle): v for v in function.graph.variables}
    for node in graph.node:
        if node.name in captured:
            _fill(node, captured[node.name], known, variables)
    inputs = {_input_name(t): _described(t) for t in own}
    outputs = {_output_name(function, k, t): _described(t) for k, t in enumerate(function.outputs)}
    library = {f.signature.name: f for f in graph.library.function}
    model = TensorFlowModel("concrete function", read_graph(graph), library, (Signature("main", inputs, outputs),), variables)
    model.effects = tuple(op.name for op in getattr(function.graph, "control_outputs", ()))
    return model


def _fill(node: Any, external: Any, known: dict[int, Any], variables: dict[str, Callable[[], np.ndarray]]) -> None:
    """Makes a placeholder that stands for something captured a variable, or a constant."""
    if external.dtype.name == "resource":
        variable = known.get(id(external))
        if variable is None:
            raise ImportModelError(
                f"{node.name!r} is a resource that is not a variable; expected variables; save the model (tf.saved_model.save) "
                "and load its folder")
        node.op = "VarHandleOp"
        node.attr.clear()
        node.attr["shared_name"].s = node.name.encode()
        variables[node.name] = lambda: np.asarray(variable.numpy())
        return
    from tensorflow import make_tensor_proto

    node.op = "Const"
    node.attr.clear()
    node.attr["value"].tensor.ParseFromString(make_tensor_proto(external.numpy()).SerializeToString())


def _input_name(tensor: Any) -> str:
    name = tensor.name.rpartition(":")[0]
    attribute = tensor.op.node_def.attr.get("_user_specified_name")
    return attribute.s.decode() if attribute is not None and attribute.s else str(name)


def _output_name(function: Any, position: int, tensor: Any) -> str:
    structured = function.structured_outputs
    if isinstance(structured, dict) and len(structured) == len(function.outputs):
        return str(sorted(structured)[position])
    return f"output_{position}"


def _described(tensor: Any) -> Tensor:
    name, _, number = tensor.name.rpartition(":")
    sizes = None if tensor.shape.rank is None else tuple(tensor.shape.as_list())
    return Tensor((name, int(number)), dtype_of(tensor.dtype.as_datatype_enum), sizes)
