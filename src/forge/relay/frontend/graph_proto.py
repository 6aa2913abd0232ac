"""The importer of an ONNX graph as a class to derive from, by the name and with the methods of Relay's.

    class Mine(GraphProto):
        def _convert_operator(self, op_name, inputs, attrs, opset):
            ...

    with Mine(shape, dtype) as g:
        mod, params = g.from_onnx(model.graph, opset)

`forge.from_onnx` is the importer that knows functions and files; this one goes from node to node. Nodes of sub-graphs are
converted as those of any model.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import nullcontext
from typing import Any, ClassVar, Self

import onnx

from forge import errors
from forge.errors import ImportModelError, OpNotImplemented
from forge.frontends.class_helpers import CUSTOM, get_relay_op
from forge.frontends.converter_class import Text
from forge.frontends.onnx.convert_map import OnnxConvertMap, get_convert_map
from forge.frontends.onnx.tensors import TensorReader, attribute_value, declared_type
from forge.ir.types import TensorType
from forge.module import IRModule
from forge.nd import NDArray, viewed
from forge.relay.expr import Expr, Function, Tuple, TupleWrapper, const, free_vars
from forge.relay.expr import var as new_var

_identity_list: list[str] = []
"""Operators that are Relay's by their own name: none, as ``_get_convert_map`` has them all."""


class Unknown(str):
    """A size that is known at run time only, by its label."""

    __slots__ = ()

    def __repr__(self) -> str:
        return "?"


class onnx_input:  # noqa: N801
    """The inputs of a node, by name and by position; None stands for an absent one, also after the last."""

    def __init__(self) -> None:
        self._keys: list[str] = []
        self._values: dict[str, Any] = {}

    def __setitem__(self, name: str, value: Any) -> None:
        self._keys.append(name)
        self._values[name] = value

    def __getitem__(self, item: int | str | slice) -> Any:
        if isinstance(item, str):
            return self._values[item]
        if isinstance(item, slice):
            return [self._values[name] for name in self._keys[item]]
        return self._values[self._keys[item]] if item < len(self._keys) else None

    def keys(self) -> list[str]:
        """The names, in order."""
        return list(self._keys)

    def __len__(self) -> int:
        return len(self._keys)

    def __iter__(self) -> Iterator[Any]:
        return (self._values[name] for name in self._keys)


def get_info(info_proto: onnx.ValueInfoProto) -> tuple[str, list[Any], str, list[Any]]:
    """Name, sizes, element type, and the sizes as the model writes them; a size that is unknown prints as ``?``.

    Raises:
        ImportModelError: it is not a tensor of known rank.
    """
    where = f"input {info_proto.name!r}"
    declared = declared_type(info_proto.type, lambda axis, dim: dim.dim_value, where)
    if not isinstance(declared, TensorType):
        raise ImportModelError(f"{where}: got {declared}; expected a tensor of known rank")
    dim = info_proto.type.tensor_type.shape.dim
    sizes = [int(d.dim_value) if d.HasField("dim_value") else Unknown(d.dim_param or "?") for d in dim]
    return info_proto.name, sizes, declared.dtype, [s if isinstance(s, int) else str(s) for s in sizes]


def fold_constant(node: Any, mod: Any = None) -> Any:
    """``node``: what depends on constants alone is computed when operators are applied."""
    return node


class GraphProto:
    """Converts the nodes of one graph, in order; a ``with`` block makes it ``GraphProto.current``.

    Args:
        shape: sizes of inputs, by name, in the place of the model's.
        dtype: the element types of inputs, by name; one text is not looked at, as inputs say theirs.
        freeze_params: weights are constants instead of parameters.
    """

    current: ClassVar[GraphProto | None] = None

    def __init__(
        self,
        shape: Mapping[str, Sequence[Any]] | None = None,
        dtype: str | Mapping[str, str] = "float32",
        freeze_params: bool = False,
    ) -> None:
        self._nodes: dict[str, Any] = {}
        self._params: dict[str, NDArray] = {}
        self._inputs: dict[str, Expr] = {}
        self._renames: dict[str, str] = {}
        self._num_input = 0
        self._num_param = 0
        self._shape = dict(shape or {})
        self._input_names: list[str] = []
        self._dtype = dtype
        self.opset: int | None = None
        self._freeze_params = freeze_params
        self._old_manager: GraphProto | None = None
        self._outer_names = OnnxConvertMap.names

    def __enter__(self) -> Self:
        self._old_manager, GraphProto.current = GraphProto.current, self
        self._outer_names, OnnxConvertMap.names = OnnxConvertMap.names, self._lookup
        return self

    def __exit__(self, *_: object) -> None:
        GraphProto.current, OnnxConvertMap.names = self._old_manager, self._outer_names

    def from_onnx(self, graph: onnx.GraphProto, opset: int, get_output_expr: bool = False) -> Any:
        """The module and its weights by name; with ``get_output_expr`` the expression of the results, a `Tuple` of several.

        Raises:
            ImportModelError: a tensor has no name, nothing defines a value, or ``shape`` names no input.
            OpNotImplemented: operators without a converter, all listed.
            ConverterError: a converter failed.
        """
        with nullcontext() if GraphProto.current is self else self:
            return self._converted(graph, opset, get_output_expr)

    def _converted(self, graph: onnx.GraphProto, opset: int, get_output_expr: bool) -> Any:
        self.opset = opset
        self._take_weights(graph)
        self._take_inputs(graph)
        convert_map = get_convert_map(opset)
        known = {"Constant", *_identity_list}
        missing = sorted({n.op_type for n in graph.node if n.op_type not in known and n.op_type not in convert_map})
        if missing:
            raise OpNotImplemented(f"The following operators are not supported for frontend ONNX: {', '.join(missing)}")
        for node in graph.node:
            self._take_node(node, opset)
        outputs = [self._named(self._parse_value_proto(output)) for output in graph.output]
        body = outputs[0] if len(outputs) == 1 else Tuple(outputs)
        if get_output_expr:
            return body
        names = {v: name for name, v in self._nodes.items()}
        needed = {names[v] for v in free_vars(body)}
        for name in self._params:
            if name in needed and name not in self._inputs:
                self._inputs[name] = self._nodes[name]
        return IRModule.from_expr(Function(self._inputs.values(), body)), self._params

    def _take_weights(self, graph: onnx.GraphProto) -> None:
        for tensor in graph.initializer:
            if not tensor.name.strip():
                raise ImportModelError("an initializer has no name; expected one; the model is invalid")
            array = self._parse_array(tensor)
            if self._freeze_params:
                self._nodes[tensor.name] = const(array)
            else:
                self._params[tensor.name] = array
                self._nodes[tensor.name] = new_var(tensor.name, shape=array.shape, dtype=str(array.dtype))

    def _take_inputs(self, graph: onnx.GraphProto) -> None:
        for info in graph.input:
            name = info.name
            if name in self._nodes:
                self._num_param += name in self._params
                continue
            _, shape, dtype, sizes = get_info(info)
            self._num_input += 1
            self._input_names.append(name)
            if name in self._shape:
                shape = list(self._shape[name])
            elif "?" in str(shape):
                errors.warn(
                    f"Input {name} has unknown dimension shapes: {sizes}. Specifying static values may improve performance")
            if isinstance(self._dtype, Mapping):
                dtype = self._dtype.get(name, dtype)
            self._inputs[name] = self._nodes[name] = new_var(name, shape=shape, dtype=dtype)
        unknown = [name for name in self._shape if name not in self._input_names]
        if self._old_manager is None and unknown:
            raise ImportModelError(
                f"User specified the shape for inputs that weren't found in the graph: {', '.join(map(repr, unknown))}; expected "
                f"inputs: {', '.join(self._input_names)}")

    def _take_node(self, node: onnx.NodeProto, opset: int) -> None:
        """Converts ``node`` and makes its results known by their names."""
        inputs = onnx_input()
        for name in node.input:
            inputs[name] = self._named(name) if name else None
        outputs = self._fix_outputs(node.op_type, node.output)
        attributes = self._parse_attr(node.attribute)
        attributes[CUSTOM] = {"name": self._parse_value_proto(node), "num_outputs": len(outputs)}
        result = self._convert_operator(node.op_type, inputs, attributes, opset)
        results = list(result) if isinstance(result, TupleWrapper) else [result]
        wanted = [(name, value) for name, value in zip(outputs, results) if name]
        if len(wanted) != sum(map(bool, outputs)):
            raise ImportModelError(
                f"node {node.name!r} ({node.op_type}): got {len(results)} results; expected {len(outputs)}, one for each output")
        self._nodes.update((name, fold_constant(value)) for name, value in wanted)

    def _lookup(self, name: str) -> Any:
        return self._nodes.get(self._renames.get(name, name))

    def _named(self, name: str) -> Any:
        found = self._lookup(name)
        if found is None:
            raise ImportModelError(f"value {name!r} is used but nothing before defines it; expected nodes in topological order")
        return found

    def _convert_operator(self, op_name: str, inputs: Any, attrs: dict[str, Any], opset: int) -> Any:
        """What an operator gives: an expression, or a `TupleWrapper` of several."""
        if op_name in _identity_list:
            return get_relay_op(op_name)(*inputs, **{key: value for key, value in attrs.items() if key != CUSTOM})
        return get_convert_map(opset)[op_name](inputs, attrs, self._params)

    def _parse_array(self, tensor_proto: onnx.TensorProto) -> NDArray:
        array: NDArray = viewed(TensorReader().array(tensor_proto))
        return array

    def _parse_attr(self, attr_proto: Sequence[onnx.AttributeProto]) -> dict[str, Any]:
        """Attributes by name, as Python values."""
        found = {a.name: attribute_value(a, TensorReader()) for a in attr_proto}
        return {name: Text(value) if isinstance(value, str) else value for name, value in found.items()}

    def _parse_value_proto(self, value_proto: onnx.ValueInfoProto | onnx.NodeProto) -> str:
        return value_proto.name

    def _fix_outputs(self, op_name: str, outputs: Sequence[str]) -> list[str]:
        """Names of the outputs that an operator gives; an empty one is not wanted."""
        return list(outputs)


__all__ = ["GraphProto", "Unknown", "_identity_list", "fold_constant", "get_info", "new_var", "onnx_input"]
