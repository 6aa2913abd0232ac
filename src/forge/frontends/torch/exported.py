"""Programs from `torch.export.ExportedProgram` and from its graphs."""

from __future__ import annotations

import operator
import re
from collections.abc import Iterable, Mapping
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from forge import dtypes
from forge.dims import Dim
from forge.errors import ImportModelError
from forge.frontends.torch import symbols
from forge.frontends.torch.parts import inlined
from forge.frontends.torch.program import (
    COMPARISONS,
    FUNCTIONALIZED,
    WITH_EFFECTS,
    Input,
    Meta,
    Program,
    Ref,
    ScalarMeta,
    Step,
    TensorMeta,
    Weight,
)

if TYPE_CHECKING:
    import torch
    from torch.export import ExportedProgram
    from torch.fx import GraphModule, Node

_SOURCE = re.compile(r'File "([^"]+)", line (\d+), in \S+\s*\n\s*(.*)')


def program_of(exported: ExportedProgram, where: str = "exported program") -> Program:
    """The program that ``exported`` holds; its weights are read when they are needed, without a copy."""
    return inlined(_Reader(exported, where).read())


class _Reader:
    def __init__(self, exported: ExportedProgram, where: str) -> None:
        self.exported = exported
        self.program = Program(where)

    def read(self) -> Program:
        from torch.export.graph_signature import ConstantArgument, InputKind, OutputKind

        exported, program = self.exported, self.program
        for spec in exported.graph_signature.input_specs:
            if spec.kind is InputKind.USER_INPUT:
                constant = isinstance(spec.arg, ConstantArgument)
                value = spec.arg.value if isinstance(spec.arg, ConstantArgument) else None
                program.inputs.append(Input(spec.arg.name, spec.arg.name, value, constant))
            elif spec.kind in (InputKind.PARAMETER, InputKind.BUFFER, InputKind.CONSTANT_TENSOR):
                program.weights[spec.arg.name] = Weight(
                    str(spec.target), partial(self._weight, str(spec.target)), spec.kind is InputKind.PARAMETER,
                    spec.kind is InputKind.BUFFER)
            elif spec.kind is not InputKind.TOKEN:
                raise ImportModelError(f"{program.where}: input {spec.arg.name!r} is {spec.kind.name}; expected tensors")
        read_graph(exported.graph_module, program)
        labels = iter(output_labels(exported))
        for spec_ in exported.graph_signature.output_specs:
            name = spec_.arg.name
            if spec_.kind in (OutputKind.BUFFER_MUTATION, OutputKind.USER_INPUT_MUTATION, OutputKind.PARAMETER_MUTATION):
                of = next(s.arg.name for s in exported.graph_signature.input_specs if spec_.target in (s.target, s.arg.name))
                program.mutations[of] = _alias(exported.graph_module, name)
            elif spec_.kind in (OutputKind.USER_OUTPUT, OutputKind.LOSS_OUTPUT):
                result = spec_.arg.value if isinstance(spec_.arg, ConstantArgument) else Ref(_alias(exported.graph_module, name))
                program.results.append((next(labels), result))
        self._name_symbols()
        return program

    def _name_symbols(self) -> None:
        """The user's names of dimensions, and their bounds."""
        for symbol, bounds in self.exported.range_constraints.items():
            low, high = (_bound(b) for b in (bounds.lower, bounds.upper))
            self.program.bounds[str(symbol)] = (low, high)
        self.program.guards.extend(getattr(self.exported, "_guards_code", None) or ())
        self.program.symbol_names.update(symbol_names(self.exported))

    def _weight(self, target: str) -> np.ndarray:
        exported = self.exported
        found = exported.state_dict[target] if target in exported.state_dict else exported.constants[target]
        return array_of(found, target)


def symbol_names(exported: ExportedProgram) -> dict[str, str]:
    """What the user calls torch's symbols."""
    values = (n.meta.get("val") for n in exported.graph.nodes if n.op == "placeholder")
    environment = next((m for v in values if (m := _shape_env(v)) is not None), None)
    names = getattr(environment, "source_name_to_debug_name", {})
    sources = getattr(environment, "source_to_var", {}).items()
    return {str(symbol): names[s] for s, symbol in sources if s in names and re.fullmatch(r"[A-Za-z_]\w*", names[s])}


def _shape_env(value: Any) -> Any:
    return getattr(getattr(value, "fake_mode", None), "shape_env", None)


def _bound(value: Any) -> int | None:
    """None where ``value``, of sympy, is infinite."""
    number = int(value) if isinstance(value, int) or value.is_Integer else None
    return number if number is not None and abs(number) < symbols.MAX_INT else None


def output_labels(exported: ExportedProgram) -> list[str]:
    """Names of the outputs, from where they are in what the model returns: ``logits``, ``past_key_values.0``, ``output_1``."""
    import torch
    from torch.utils import _pytree as pytree

    spec = exported.call_spec.out_spec
    assert spec is not None
    # tensors: containers such as the caches of transformers take nothing else for a leaf
    tree = pytree.tree_unflatten([torch.empty(0, device="meta") for _ in range(spec.num_leaves)], spec)
    paths = [path for path, _ in pytree.tree_flatten_with_path(tree)[0]]
    if len(paths) == 1 and not paths[0]:
        return ["output"]
    return [output_label([str(getattr(k, "key", getattr(k, "name", getattr(k, "idx", k)))) for k in path]) for path in paths]


def output_label(path: Iterable[str]) -> str:
    """The name of an output, from the keys and positions that lead to it."""
    label = ".".join(path)
    return label if re.match(r"[A-Za-z_]", label) else f"output_{label}"


def read_graph(module: GraphModule, program: Program) -> None:
    """Adds the steps and types of a graph to ``program``."""
    for node in module.graph.nodes:
        if node.op == "get_attr":
            _read_attribute(module, node, program)
        elif node.op == "placeholder":
            program.metas[node.name] = meta_of(node.meta.get("val"))
        elif node.op == "call_function" and not _is_item(node):
            _read_step(node, program)


def _read_attribute(module: GraphModule, node: Node, program: Program) -> None:
    """A graph that steps take as an argument, or a constant."""
    import torch

    found = module
    for part in str(node.target).split("."):
        found = getattr(found, part)
    if isinstance(found, torch.Tensor):
        program.weights[node.name] = Weight(str(node.target), partial(array_of, found, str(node.target)))
        program.metas[node.name] = meta_of(found)
        return
    if not isinstance(found, torch.fx.GraphModule):
        return  # what only functions of Python take; these have no converters
    inner = Program(f"{program.where}: {node.target}")
    read_graph(found, inner)
    for placeholder in (n for n in found.graph.nodes if n.op == "placeholder"):
        inner.inputs.append(Input(placeholder.name, placeholder.name))
    (output,) = (n for n in found.graph.nodes if n.op == "output")
    results = output.args[0] if isinstance(output.args[0], list | tuple) else [output.args[0]]
    inner.results = [(f"output_{k}", _argument(r)) for k, r in enumerate(results)]
    program.parts[node.name] = inner


def _is_item(node: Node) -> bool:
    """Whether a node takes one of several results of an operator, which are outputs of its step."""
    return node.target is operator.getitem


def _alias(module: GraphModule, name: str) -> str:
    node = next((n for n in module.graph.nodes if n.name == name), None)
    return name if node is None else value_name(node)


def value_name(node: Node) -> str:
    """The name of a value: of an item of a result, that of the result with its number."""
    return f"{value_name(node.args[0])}.{node.args[1]}" if node.op == "call_function" and _is_item(node) else node.name


def _read_step(node: Node, program: Program) -> None:
    value = node.meta.get("val")
    if isinstance(value, list | tuple):
        used = {user.args[1] for user in node.users if _is_item(user)}
        outputs = tuple(f"{node.name}.{k}" if k in used else "" for k in range(len(value)))
        program.metas.update({f"{node.name}.{k}": meta_of(v) for k, v in enumerate(value)})
    else:
        outputs = (node.name,) if value is not None else ()
        program.metas[node.name] = meta_of(value)
    target, arguments = target_name(node.target), _arguments(node)
    if target == WITH_EFFECTS:
        _, effect, *given = node.args
        target, outputs = target_name(effect), outputs[1:]
        arguments = _named_arguments(effect, given, node.kwargs)
    step = Step(node.name, target, arguments, outputs, _module(node), source_line(node.meta.get("stack_trace") or ""))
    if target in FUNCTIONALIZED:
        program.steps.extend(_functionalized(node, step, program))
        return
    effect = node.args[1] if target_name(node.target) == WITH_EFFECTS else node.target
    program.steps.append(replace(step, mutates=_mutated(effect)))


def _mutated(operator_: Any) -> tuple[str, ...]:
    """The arguments that an operator of another library than torch writes; names of torch's own say what they write."""
    schema = getattr(operator_, "_schema", None)
    if schema is None or getattr(operator_, "namespace", "aten") == "aten":
        return ()
    return tuple(a.name for a in schema.arguments if a.alias_info is not None and a.alias_info.is_write)


def _functionalized(node: Node, step: Step, program: Program) -> list[Step]:
    """An operator that writes its arguments, on copies of what these are views of; the copies are results after its own."""
    effect, given = node.args[0], dict(node.kwargs)
    mutated, count = _mutated(effect), max(1, len(effect._schema.returns))
    bases = [given[name] for name in mutated] if "_all_bases" not in given else given["_all_bases"]
    if not mutated or any(isinstance(given.get(name), list | tuple) for name in mutated):
        where = f"{program.where}: node {node.name!r} ({step.target})"
        raise ImportModelError(f"{where}: {target_name(effect)} writes lists of tensors; expected tensors")
    steps, copies = [], []
    for k, base in enumerate(bases):
        copies.append(f"{node.name}/base_{k}")
        program.metas[copies[k]] = program.metas[value_name(base)]
        steps.append(Step(copies[k], "aten.clone.default", {"self": Ref(value_name(base))}, (copies[k],)))
    arguments = {name: _argument(value) for name, value in given.items() if not name.startswith("_")}
    for position, name in enumerate(mutated):
        number = given.get(f"_{name}_base_index", position)
        if number is None:
            arguments[name] = None
            continue
        copy, view = Ref(copies[number]), f"{node.name}/{name}"
        if f"_{name}_size" in given:
            size, stride, offset = (_argument(given[f"_{name}_{what}"]) for what in ("size", "stride", "storage_offset"))
            found = program.metas[copy.name]
            assert isinstance(found, TensorMeta)
            program.metas[view] = TensorMeta(found.dtype, tuple(size), tuple(stride), offset)
            viewed = {"self": copy, "size": size, "stride": stride, "storage_offset": offset}
            steps.append(Step(view, "aten.as_strided.default", viewed, (view,)))
            arguments[name] = Ref(view)
        elif f"_{name}_slice_dim" in given:
            dim, start, end = (_argument(given[f"_{name}_slice_{what}"]) for what in ("dim", "start", "end"))
            steps.append(Step(view, "aten.slice.Tensor", {"self": copy, "dim": dim, "start": start, "end": end}, (view,)))
            arguments[name] = Ref(view)
        else:
            arguments[name] = copy
    own = step.outputs[:count] if effect._schema.returns else ()
    ordered = {a.name: arguments[a.name] for a in effect._schema.arguments if a.name in arguments}
    steps.append(replace(step, target=target_name(effect), arguments=ordered, outputs=own, mutates=mutated))
    read = [(name, Ref(copy)) for name, copy in zip(step.outputs[count:], copies) if name]
    return steps + [Step(name, "aten.alias.default", {"self": copy}, (name,)) for name, copy in read]


def target_name(target: Any) -> str:
    """``aten.add.Tensor``, ``higher_order.cond``, ``operator.mul``."""
    if hasattr(target, "_schema"):
        return f"{target.namespace}.{target._opname}.{target._overloadname}"
    if type(target).__module__.startswith("torch._ops") or hasattr(target, "namespace"):
        return f"higher_order.{target.__name__}"
    module = getattr(target, "__module__", "").lstrip("_")
    return f"{module}.{target.__name__}"


def _arguments(node: Node) -> dict[str, Any]:
    return _named_arguments(node.target, node.args, node.kwargs)


def _named_arguments(target: Any, args: Iterable[Any], kwargs: Mapping[str, Any]) -> dict[str, Any]:
    schema = getattr(target, "_schema", None)
    names: Iterable[str] = [a.name for a in schema.arguments] if schema is not None else "abcdefghijklmnopqrstuvwxyz"
    keeps = target_name(target) in COMPARISONS
    return {name: _argument(value, keeps) for name, value in (*zip(names, args), *kwargs.items())}


def _argument(value: Any, keeps_known: bool = False) -> Any:
    """``keeps_known``: a computed number is a value even where its size is known to be an integer."""
    import torch
    from torch.fx import Node

    if isinstance(value, Node):
        size = value.meta.get("val")
        known = _size(size) if isinstance(size, torch.SymInt) else None
        if known is not None and not (keeps_known and isinstance(known, int)):
            return known
        return Ref(value_name(value))
    if isinstance(value, list | tuple):
        return [_argument(item) for item in value]
    if isinstance(value, torch.dtype):
        return dtype_of(value)
    if isinstance(value, torch.SymInt):
        return _size(value)
    return None if isinstance(value, torch.device | torch.layout | torch.memory_format) else value


def _size(value: torch.SymInt) -> Dim | None:
    """None: it is no arithmetic on integers."""
    import sympy

    try:
        return symbols.parse(sympy.srepr(value.node.expr))
    except ImportModelError:
        return None


def meta_of(value: Any) -> Meta:
    import torch

    if isinstance(value, torch.Tensor):
        return TensorMeta(dtype_of(value.dtype), tuple(size_of(d) for d in value.shape), *_layout(value))
    if isinstance(value, torch.SymInt):
        return ScalarMeta("int", _size(value))
    for kind, types in (("bool", (bool, torch.SymBool)), ("int", int), ("float", (float, torch.SymFloat))):
        if isinstance(value, types):
            return ScalarMeta(kind, value if type(value) is int else None)
    return None


def _layout(tensor: torch.Tensor) -> tuple[tuple[Dim, ...] | None, Dim]:
    """Strides and offset in the storage; None where a tensor has none, or they are no arithmetic on integers."""
    import torch

    if tensor.layout is not torch.strided:
        return None, 0
    try:
        return tuple(map(size_of, tensor.stride())), size_of(tensor.storage_offset())
    except ImportModelError:
        return None, 0


def size_of(value: Any) -> Dim:
    """A size of torch, fixed or symbolic.

    Raises:
        ImportModelError: it is no arithmetic on integers.
    """
    return symbols.parse(_text(value)) if not isinstance(value, int) else value


def _text(value: torch.SymInt) -> str:
    import sympy

    return str(sympy.srepr(value.node.expr))


def dtype_of(dtype: torch.dtype) -> str:
    """Forge's name of an element type.

    Raises:
        ImportModelError: there is none.
    """
    name = str(dtype).removeprefix("torch.")
    try:
        return dtypes.canonical(name)
    except TypeError as error:
        raise ImportModelError(f"element type {name}; {error}") from error


def array_of(tensor: torch.Tensor, label: str) -> np.ndarray:
    """The contents of a tensor on the CPU, without a copy.

    Raises:
        ImportModelError: it is none with contents in memory.
    """
    import torch

    if tensor.layout is not torch.strided or tensor.device.type == "meta":
        kind = "no data (it is on device 'meta')" if tensor.device.type == "meta" else f"a tensor of layout {tensor.layout}"
        raise ImportModelError(f"tensor {label!r}: got {kind}; expected a dense one")
    dtype = dtypes.numpy_dtype(dtype_of(tensor.dtype))
    plain = tensor.detach().cpu().resolve_conj().resolve_neg()
    if dtype.isbuiltin == 1:
        contents: np.ndarray = plain.numpy()
        return contents
    same_size = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}[dtype.itemsize]
    viewed: np.ndarray = plain.view(same_size).numpy().view(dtype)
    return viewed


def _module(node: Node) -> str:
    stack: dict[str, Any] = node.meta.get("nn_module_stack") or {}
    return str([*stack.values()][-1][0]) if stack else ""


def source_line(stack_trace: str) -> str:
    """The innermost line of Python outside of torch."""
    frames = [f for f in _SOURCE.findall(stack_trace) if not f[0].endswith("/forge/frontends/torch/traces.py")]
    own = [f for f in frames if "/torch/" not in f[0]] or frames
    if not own:
        return ""
    file, line, text = own[-1]
    return f"{file}:{line}: {text.strip()[:100]}"
