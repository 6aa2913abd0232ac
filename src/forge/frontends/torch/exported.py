"""Programs from `torch.export.ExportedProgram` and from its graphs."""

from __future__ import annotations

import operator
import re
from collections.abc import Iterable, Iterator
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from forge import dtypes
from forge.dims import Dim
from forge.errors import ImportModelError
from forge.frontends.torch import reader, symbols
from forge.frontends.torch.parts import inlined
from forge.frontends.torch.program import Meta, Program, Ref, ScalarMeta, Step, TensorMeta, Weight
from forge.frontends.torch.reader import WITH_EFFECTS, Spec

if TYPE_CHECKING:
    import torch
    from torch.export import ExportedProgram
    from torch.export.graph_signature import InputSpec
    from torch.fx import GraphModule, Node

FUNCTIONALIZED = frozenset(("higher_order.auto_functionalized", "higher_order.auto_functionalized_v2"))
"""They apply an operator that writes its arguments to copies of them."""

_SOURCE = re.compile(r'File "([^"]+)", line (\d+), in \S+\s*\n\s*(.*)')


def program_of(exported: ExportedProgram, where: str = "exported program") -> Program:
    """The program that ``exported`` holds; its weights are read when they are needed, without a copy."""
    graph, signature = _Graph(exported.graph_module, Program(where)), exported.graph_signature
    inputs = [_input(exported, spec, f"{where}: input {spec.arg.name!r}") for spec in signature.input_specs]
    outputs = [
        Spec(spec.kind.name.lower(), result, f"{where}: output {spec.arg.name!r}", str(spec.target))
        for spec, result in zip(signature.output_specs, graph.results(), strict=True)]
    program = reader.read(graph, inputs, outputs, lambda _: output_labels(exported))
    program.bounds.update((str(s), (_bound(b.lower), _bound(b.upper))) for s, b in exported.range_constraints.items())
    program.guards.extend(getattr(exported, "_guards_code", None) or ())
    program.symbol_names.update(symbol_names(exported))
    return inlined(program)


def _input(exported: ExportedProgram, spec: InputSpec, where: str) -> Spec:
    from torch.export.graph_signature import ConstantArgument, InputKind

    if isinstance(spec.arg, ConstantArgument):
        return Spec("constant_input", spec.arg.name, where, constant=spec.arg.value)
    is_weight = spec.kind in (InputKind.PARAMETER, InputKind.BUFFER, InputKind.CONSTANT_TENSOR)
    array = partial(_array, exported, str(spec.target)) if is_weight else None
    return Spec(spec.kind.name.lower(), spec.arg.name, where, str(spec.target), array)


def _array(exported: ExportedProgram, target: str) -> np.ndarray:
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
    reader.read_graph(_Graph(module, program))


class _Graph:
    """A graph of `torch.fx`, as the reader takes it."""

    def __init__(self, module: GraphModule, program: Program, depth: int = 0) -> None:
        self.module = module
        self.program = program
        self.depth = depth

    def metas(self) -> Iterator[tuple[str, Meta]]:
        for node in self.module.graph.nodes:
            value = node.meta.get("val")
            if _is_call(node) and isinstance(value, list | tuple):
                yield from ((f"{node.name}.{k}", meta_of(v)) for k, v in enumerate(value))
            elif node.op == "placeholder" or _is_call(node):
                yield node.name, meta_of(value)

    def steps(self) -> Iterator[Step]:
        for node in self.module.graph.nodes:
            if node.op == "get_attr":
                self._read_attribute(node)
            elif _is_call(node):
                step = _step(node)
                yield from _functionalized(node, step, self.program) if step.target in FUNCTIONALIZED else [step]

    def inputs(self) -> list[str]:
        return [node.name for node in self.module.graph.nodes if node.op == "placeholder"]

    def results(self) -> list[Any]:
        (output,) = (node for node in self.module.graph.nodes if node.op == "output")
        results = output.args[0] if isinstance(output.args[0], list | tuple) else [output.args[0]]
        return [Ref(value_name(r)) if hasattr(r, "op") else _argument(r) for r in results]

    def _read_attribute(self, node: Node) -> None:
        """A graph that steps take as an argument, or a constant; others are what only functions of Python take."""
        import torch

        found = self.module
        for part in str(node.target).split("."):
            found = getattr(found, part)
        if isinstance(found, torch.Tensor):
            self.program.weights[node.name] = Weight(str(node.target), partial(array_of, found, str(node.target)))
            self.program.metas[node.name] = meta_of(found)
        elif isinstance(found, torch.fx.GraphModule):
            inner = Program(f"{self.program.where}: {node.target}")
            reader.read_part(self.program, node.name, _Graph(found, inner, self.depth + 1))


def _is_call(node: Node) -> bool:
    return node.op == "call_function" and not _is_item(node)


def _is_item(node: Node) -> bool:
    """Whether a node takes one of several results of an operator, which are outputs of its step."""
    return node.target is operator.getitem


def value_name(node: Node) -> str:
    """The name of a value: of an item of a result, that of the result with its number."""
    return f"{value_name(node.args[0])}.{node.args[1]}" if node.op == "call_function" and _is_item(node) else node.name


def _step(node: Node) -> Step:
    value = node.meta.get("val")
    if isinstance(value, list | tuple):
        used = {user.args[1] for user in node.users if _is_item(user)}
        outputs = tuple(f"{node.name}.{k}" if k in used else "" for k in range(len(value)))
    else:
        outputs = (node.name,) if value is not None else ()
    target = target_name(node.target)
    effect = node.args[1] if target == WITH_EFFECTS else node.target
    source = source_line(node.meta.get("stack_trace") or "")
    return reader.step_of(node.name, target, _arguments(node, target), outputs, _module(node), source, _mutated(effect))


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


def _arguments(node: Node, target: str) -> dict[str, Any]:
    names = ["a", "b", *_names(node.args[1], len(node.args))] if target == WITH_EFFECTS else _names(node.target, len(node.args))
    return {name: _argument(value, target) for name, value in (*zip(names, node.args), *node.kwargs.items())}


def _names(function: Any, count: int) -> Iterable[str]:
    schema = getattr(function, "_schema", None)
    return map(reader.letter, range(count)) if schema is None else [argument.name for argument in schema.arguments]


def _argument(value: Any, target: str = "") -> Any:
    """An argument of ``target`` as steps have it."""
    import torch
    from torch.fx import Node

    if isinstance(value, Node):
        size = value.meta.get("val")
        name = value_name(value)
        return reader.number(name, ScalarMeta("int", _size(size)), target) if isinstance(size, torch.SymInt) else Ref(name)
    if isinstance(value, list | tuple):
        return [_argument(item) for item in value]
    if isinstance(value, torch.dtype):
        return dtype_of(value)
    if isinstance(value, torch.SymInt):
        return _size(value)
    if isinstance(value, torch._ops.OperatorBase):
        return target_name(value)
    return None if isinstance(value, torch.device | torch.layout | torch.memory_format) else value


def _size(value: torch.SymInt) -> Dim | None:
    """None: it is not arithmetic on integers."""
    try:
        return size_of(value)
    except ImportModelError:
        return None


def meta_of(value: Any) -> Meta:
    import torch

    if isinstance(value, torch.Tensor):
        strides, offset = (value.stride(), value.storage_offset()) if value.layout is torch.strided else (None, 0)
        return reader.tensor_meta(dtype_of(value.dtype), tuple(map(size_of, value.shape)), strides, offset, size_of)
    if isinstance(value, torch.SymInt):
        return ScalarMeta("int", _size(value))
    for kind, types in (("bool", (bool, torch.SymBool)), ("int", int), ("float", (float, torch.SymFloat))):
        if isinstance(value, types):
            return ScalarMeta(kind, value if type(value) is int else None)
    return None


def size_of(value: Any) -> Dim:
    """A size of torch, fixed or symbolic.

    Raises:
        ImportModelError: it is not arithmetic on integers.
    """
    if isinstance(value, int):
        return value
    import sympy

    return symbols.parse(str(sympy.srepr(value.node.expr)))


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
    frames = [f for f in _SOURCE.findall(stack_trace) if "/forge/frontends/torch/script/" not in f[0]]
    own = [f for f in frames if "/torch/" not in f[0]] or frames
    if not own:
        return ""
    file, line, text = own[-1]
    return f"{file}:{line}: {text.strip()[:100]}"
