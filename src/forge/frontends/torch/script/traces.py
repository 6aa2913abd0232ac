"""TorchScript graphs as modules that `torch.export` can export: each node is run by Python.

Numbers that a trace keeps as tensors (``prim::NumToTensor`` of a size, and what is computed from it) stay numbers, so that the
dimensions that were dynamic when the model was traced can be dynamic still.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import nn

from forge.errors import ImportModelError, OpNotImplemented
from forge.frontends.torch.script.operators import (
    ARITY,
    NUMBERS,
    NUMERIC,
    STRUCTURES,
    TENSORS,
    TYPES_OF_NUMBERS,
    VECTORS,
    WITH_NUMBERS,
    Number,
    Path,
    Vector,
    as_number,
    dtypes_by_number,
    has_axes,
    has_module,
    has_tensor,
    number_of,
    plain_number,
    reduced,
    result_dtype,
    truth,
    vector,
)
from forge.frontends.torch.script.quantized_tensors import Packed, Quantized, applied, takes_part

MAX_STEPS = 1_000_000
"""Nodes that are run, those of loops each time."""


class _Holder(nn.Module):  # type: ignore[misc]
    """A module of the trace, with its weights; it applies what the trace says that it applied."""

    def forward(self, function: Callable[..., Any], arguments: Sequence[Any], options: Mapping[str, Any]) -> Any:
        return function(*arguments, **options)


class Replayed(nn.Module):  # type: ignore[misc]
    """A TorchScript module as one of Python.

    Raises:
        OpNotImplemented: the graph has nodes that cannot be run.
    """

    def __init__(self, script: Any, integer_bias: bool = False) -> None:
        super().__init__()
        self.__dict__["_script"] = script
        self.__dict__["_graph"] = graph = script.inlined_graph
        if all(node.hasAttribute("Subgraph") for node in graph.findAllNodes("prim::PythonOp")):
            torch._C._jit_pass_onnx_autograd_function_process(graph)  # what functions of Python ran is a block of their nodes
        for path, module in script.named_modules():
            self._holder(path)
            for name, value in module.named_parameters(recurse=False):
                self._holder(path).register_parameter(name, _parameter(value))
            for name, value in module.named_buffers(recurse=False):
                self._holder(path).register_buffer(name, value)
        self.__dict__["_constants"] = {}
        self.__dict__["_values"] = {}
        self.__dict__["_assigned"] = {_path_of(node) for node in graph.findAllNodes("prim::SetAttr")} - {None}
        self._keep_constants(graph)
        self._keep_attributes(graph, integer_bias)
        for path in self._assigned:
            self._keep_tensor(path)
        dtypes_by_number()  # now: where the module is exported, the tensors that this makes would become part of it
        self.training = False

    def _holder(self, path: str) -> nn.Module:
        holder: nn.Module = self
        for part in filter(None, path.split(".")):
            if part not in holder._modules:
                holder.add_module(part, _Holder())
            holder = holder._modules[part]
        return holder

    def _keep_constants(self, block: Any) -> None:
        """Tensors that the graph holds become buffers; what is not known is refused."""
        for node in block.nodes():
            for inner in node.blocks():
                self._keep_constants(inner)
            if node.kind() == "prim::Constant" and node.hasAttribute("value") and node.kindOf("value") == "t":
                tensor, name = node.t("value"), node.output().debugName()
                number = as_number(tensor, _is_used_with_numbers(node.output()))
                if number is not None:
                    self._constants[name] = number
                    continue
                label = f"constant_{len(self._constants)}"
                while hasattr(self, label):
                    label += "_"
                self.register_buffer(label, tensor)
                self._constants[name] = label

    def _keep_attributes(self, block: Any, integer_bias: bool) -> None:
        """What is read of modules and is not a tensor for `torch.export`: packed weights, and buffers that are read as a number.

        Tensors that are attributes become buffers.
        """
        for node in block.nodes():
            for inner in node.blocks():
                self._keep_attributes(inner, integer_bias)
            if node.kind() != "prim::GetAttr":
                continue
            path = _path(node)
            users = {use.user.kind() for use in node.output().uses()}
            if path is None or path in self._values:
                continue
            if node.output().type().str().startswith(_PACKED):
                self._values[path] = self._keep_packed(path, Packed(self._found(path), integer_bias))
            elif isinstance(tensor := self._found(path), torch.Tensor):
                if users <= _NUMBER_READERS and tensor.numel() == 1 and path not in self._assigned:
                    self._values[path] = Number(tensor.item())
                self._keep_tensor(path)

    def _keep_tensor(self, path: str) -> None:
        """Makes a tensor that is an attribute of a module a buffer.

        Raises:
            OpNotImplemented: it is something else, which a call changes.
        """
        holder, _, name = path.rpartition(".")
        value = self._found(path)
        if not isinstance(value, torch.Tensor):
            raise OpNotImplemented(
                f"trace: a call sets attribute {path!r}, which is {type(value).__name__}; expected a tensor: register a buffer")
        if not hasattr(self._holder(holder), name):
            self._holder(holder).register_buffer(name, value, persistent=False)

    def _keep_packed(self, path: str, packed: Packed) -> Packed:
        parts = [part for part in path.split(".") if part not in ("_packed_params", "_packed_weight")]
        holder, names = self._holder(".".join(parts)), {}
        for name, array in packed.arrays.items():
            label = name
            while hasattr(holder, label):
                label += "_"
            holder.register_buffer(label, array)
            names[name] = label
        packed.buffer = lambda name: getattr(holder, names[name])
        return packed

    def _found(self, path: str) -> Any:
        found = self._script
        for part in filter(None, path.split(".")):
            found = getattr(found, part)
        return found

    def forward(self, *arguments: Any) -> Any:
        values = [*self._graph.inputs()]
        run = _Run(self)
        run.env.update(zip((v.debugName() for v in values), [Path(""), *arguments]))
        results = run.block(self._graph)
        run.keep()
        return _plain(results[0] if len(results) == 1 else tuple(results))


def _parameter(value: torch.Tensor) -> nn.Parameter:
    return value if isinstance(value, nn.Parameter) else nn.Parameter(value, requires_grad=value.requires_grad)


_PACKED = ("__torch__.torch.classes.quantized.", "__torch__.torch.classes.rnn.")
"""Where the classes of packed weights come from."""

_NUMBER_READERS = frozenset(
    f"aten::{name}" for name in ("Float", "Int", "FloatImplicit", "IntImplicit", "ScalarImplicit", "item", "quantize_per_tensor"))


def _path_of(node: Any) -> str | None:
    """What a node sets of the module, as `_path`."""
    of = next(iter(node.inputs()))
    base = "" if of.node().kind() == "prim::Param" else _path(of.node())
    return None if base is None else f"{base}.{node.s('name')}".removeprefix(".")


def _path(node: Any) -> str | None:
    """What a node reads of the module; None where that is not an attribute of a module in the graph's first input."""
    names = []
    while node.kind() == "prim::GetAttr":
        names.append(node.s("name"))
        node = node.input().node()
    return ".".join(reversed(names)) if node.kind() == "prim::Param" else None


def _plain(value: Any) -> Any:
    """Tensors in the place of numbers that stand for them."""
    if isinstance(value, Number | Vector):
        return value.tensor()
    if isinstance(value, Quantized):
        raise OpNotImplemented("trace: an output is a quantized tensor; expected real numbers: dequantize it in the model")
    if isinstance(value, dict):
        return {k: _plain(v) for k, v in value.items()}
    return type(value)(_plain(v) for v in value) if type(value) in (list, tuple) else value


class _Run:
    """One run of a graph."""

    def __init__(self, module: Replayed) -> None:
        self.module = module
        self.env: dict[str, Any] = {}
        self.assigned: dict[str, torch.Tensor] = {}
        self.steps = 0

    def block(self, block: Any) -> list[Any]:
        for node in block.nodes():
            self.steps += 1
            if self.steps > MAX_STEPS:
                raise ImportModelError(f"trace: runs more than {MAX_STEPS} nodes; expected fewer turns of its loops")
            results = self.node(node)
            for output, result in zip(node.outputs(), results):
                self.env[output.debugName()] = result
        return [self.env[v.debugName()] for v in block.outputs()] if hasattr(block, "outputs") else []

    def node(self, node: Any) -> Sequence[Any]:
        kind = node.kind()
        if kind == "prim::Constant":
            return [self.constant(node)]
        inputs = [self.env[v.debugName()] for v in node.inputs()]
        if kind == "prim::GetAttr":
            return [self.attribute(inputs[0], node.s("name"))]
        if kind == "prim::SetAttr":
            self.set_attribute(inputs[0], node.s("name"), inputs[1])
            return []
        if kind == "prim::If":
            chosen = [*node.blocks()][0 if truth(inputs[0]) else 1]
            return self.block(chosen)
        if kind == "prim::Loop":
            return self.loop(node, inputs)
        if kind == "prim::PythonOp":
            return self.function(node, inputs)
        structural = STRUCTURES.get(kind)
        if structural is not None:
            return structural(inputs)
        return self.operator(node, kind, inputs)

    def constant(self, node: Any) -> Any:
        known = self.module._constants.get(node.output().debugName())
        if known is None:
            return node.output().toIValue()
        return getattr(self.module, known) if isinstance(known, str) else known

    def attribute(self, of: Any, name: str) -> Any:
        if not isinstance(of, Path):
            return getattr(of, name)
        path = f"{of.path}.{name}" if of.path else name
        if path in self.module._values:
            return self.module._values[path]
        holder = self.module.get_submodule(of.path)
        if name in holder._modules:
            return Path(path)
        if path in self.module._assigned and name in holder._buffers:
            return self.assigned.setdefault(path, getattr(holder, name).clone())
        if name in holder._parameters or name in holder._buffers:
            return getattr(holder, name)
        script = self.module._script
        for part in filter(None, of.path.split(".")):
            script = getattr(script, part)
        return getattr(script, name)

    def set_attribute(self, of: Any, name: str, value: Any) -> None:
        """The attribute is another tensor from now on; at the end of the call it is kept."""
        if not isinstance(of, Path):
            raise OpNotImplemented(f"trace: prim::SetAttr of {type(of).__name__}.{name}; expected a buffer of a module")
        self.assigned[f"{of.path}.{name}" if of.path else name] = _plain(value)

    def keep(self) -> None:
        """Writes what was assigned.

        Raises:
            OpNotImplemented: it has another shape or type than before.
        """
        for path, tensor in self.assigned.items():
            holder, _, name = path.rpartition(".")
            kept = getattr(self.module.get_submodule(holder), name)
            if tensor.dtype != kept.dtype or tensor.shape != kept.shape:
                raise OpNotImplemented(
                    f"trace: a call makes attribute {path!r} {tensor.dtype}{list(tensor.shape)}; expected {kept.dtype}"
                    f"{list(kept.shape)}, as before")
            kept.copy_(tensor)

    def loop(self, node: Any, inputs: Sequence[Any]) -> Sequence[Any]:
        (body,) = node.blocks()
        most, condition, *carried = inputs
        names = [v.debugName() for v in body.inputs()]
        turn = 0
        while truth(condition) and (most is None or turn < int(plain_number(most))):
            self.env.update(zip(names, [turn, *carried]))
            condition, *carried = self.block(body)
            turn += 1
        return carried

    def function(self, node: Any, inputs: Sequence[Any]) -> Sequence[Any]:
        """What a ``torch.autograd.Function`` computed while it was traced."""
        blocks = [*node.blocks()]
        if not blocks:
            raise OpNotImplemented(
                f"trace: {node.pyname()} at {_line(node)} is a function of Python, of which TorchScript has no graph; expected "
                "none: trace the model, or give the module itself")
        self.env.update(zip((v.debugName() for v in blocks[0].inputs()), inputs))
        results = self.block(blocks[0])
        return [tuple(results)] if node.output().type().kind() == "TupleType" else results

    def operator(self, node: Any, kind: str, inputs: Sequence[Any]) -> Sequence[Any]:
        name = kind.partition("::")[2]
        count = node.outputsSize()
        if takes_part(kind, inputs):
            return self.of_quantized(node, kind, inputs, count)
        if any(isinstance(x, Vector) for x in inputs):
            known = self.of_vector(node, name, inputs)
            if known is not None:
                return [known]
            inputs = [x.tensor() if isinstance(x, Vector) else x for x in inputs]
        if not has_tensor(inputs) and not has_module(inputs):
            function = NUMBERS.get(name)
            if function is not None:
                result = function(*map(plain_number, inputs[: ARITY.get(name, 3)]))
                if name in NUMERIC and any(isinstance(x, Number) for x in inputs):
                    result = number_of(result, result_dtype(name, inputs))
                return [] if count == 0 else [result]
            if name == "to" and isinstance(inputs[0], Number):
                dtype = _dtype_argument(node, inputs)
                if dtype is None or dtype in TYPES_OF_NUMBERS:
                    return [number_of(inputs[0].value, dtype) if dtype else inputs[0]]
            stacked = vector(*inputs) if name == "stack" else None
            if stacked is not None:
                return [stacked]
        special = TENSORS.get(name)
        if special is not None:
            return [special(*inputs)] if count else []
        return self.dispatched(node, kind, inputs, count)

    def of_quantized(self, node: Any, kind: str, inputs: Sequence[Any], count: int) -> Sequence[Any]:
        def itself(operands: Sequence[Any]) -> Any:
            results = self.dispatched(node, kind, operands, count)
            return results[0] if count == 1 else results

        result = self.within(node)(applied, (kind, inputs, itself), {})
        return list(result) if count > 1 else [result]

    def within(self, node: Any) -> Callable[..., Any]:
        """Applies a function as part of the module that a node comes from."""
        path = re.sub(r".*/", "", node.scopeName()).removeprefix("__module").removeprefix(".")
        try:
            holder = self.module.get_submodule(path) if path else self.module
        except AttributeError:
            holder = self.module
        return holder if isinstance(holder, _Holder) else _apply

    def of_vector(self, node: Any, name: str, inputs: Sequence[Any]) -> Number | Vector | None:
        """What is known of an operator on a vector; None: nothing."""
        given = inputs[0]
        if not isinstance(given, Vector):
            return None
        if name in VECTORS and len(inputs) == 1 or name in ("sum", "prod") and [*inputs[1:]] == [None]:
            return reduced(name, given.values)
        is_same = name in ("detach", "clone") or name == "to" and _dtype_argument(node, inputs) in (None, given.values[0].dtype)
        return given if is_same else None

    def dispatched(self, node: Any, kind: str, inputs: Sequence[Any], count: int) -> Sequence[Any]:
        text = node.schema()
        if text == "(no schema)" or "..." in text:  # the dispatcher crashes without its own kind of stack
            raise OpNotImplemented(f"trace: node {kind} at {_line(node)} cannot be run; trace the model without it")
        schema = torch._C.parse_schema(text)
        namespace, _, name = schema.name.partition("::")
        function = getattr(getattr(torch.ops, namespace), name)
        with_number = name.rstrip("_") in WITH_NUMBERS and isinstance(inputs[1], Number) and inputs[1].is_like_plain
        if with_number and has_axes(inputs[0]):
            inputs = [inputs[0], inputs[1].value, *inputs[2:]]
        else:
            function = getattr(function, schema.overload_name or "default")
        positional, named = [], {}
        for argument, value in zip(schema.arguments, inputs):
            given = _argument(argument.name, value, str(argument.type))
            if argument.kwarg_only:
                named[argument.name] = given
            else:
                positional.append(given)
        results = self.within(node)(function, positional, named)
        return list(results) if count > 1 else [results]


def _is_used_with_numbers(value: Any) -> bool:
    """Whether all that is computed of a tensor of rank 0 are such, or numbers, as far as the trace says shapes."""
    for use in value.uses():
        node = use.user
        if node.kind() in ("aten::to", "aten::detach", "aten::clone"):
            if not _is_used_with_numbers(node.output()):
                return False
        elif node.kind() == "prim::Return" or not all(_is_number(output.type()) for output in node.outputs()):
            return False
    return True


def _is_number(type_: Any) -> bool:
    if type_.kind() == "TensorType":
        return bool(type_.sizes() == [])
    return type_.kind() in ("IntType", "FloatType", "BoolType", "NumberType")


def _dtype_argument(node: Any, inputs: Sequence[Any]) -> torch.dtype | None:
    """The type that a conversion names."""
    arguments = torch._C.parse_schema(node.schema()).arguments
    number = next((value for argument, value in zip(arguments, inputs) if argument.name == "dtype"), None)
    return None if number is None else dtypes_by_number()[number]


def _apply(function: Callable[..., Any], arguments: Sequence[Any], options: Mapping[str, Any]) -> Any:
    return function(*arguments, **options)


def _line(node: Any) -> str:
    """The line of Python that a node comes from."""
    return str(node.sourceRange()).strip().splitlines()[0] if str(node.sourceRange()).strip() else "an unknown line"


def _argument(name: str, value: Any, type_: str) -> Any:
    """A value as the dispatcher takes it: types, layouts and formats are numbers in TorchScript."""
    if isinstance(value, Number):
        return value.tensor() if "Tensor" in type_ else value.value
    if isinstance(value, Vector):
        return value.tensor()
    if isinstance(value, list | tuple):
        return [_argument("", item, type_) for item in value]
    if isinstance(value, int) and not isinstance(value, bool):
        if name in ("dtype", "out_dtype", "output_dtype"):
            return dtypes_by_number()[value]
        if name == "memory_format":
            return _FORMATS[value]
        if name == "layout":
            return torch.strided
    if isinstance(value, str) and name == "device":
        return torch.device(value)
    return value


_FORMATS = (torch.contiguous_format, torch.preserve_format, torch.channels_last, torch.channels_last_3d)
