"""Loads programs: finds what is wanted of them, checks that all operators are known, and converts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from forge import ops  # noqa: F401
from forge.errors import ImportModelError, OptionError, option
from forge.frontends.convert import located
from forge.frontends.inputs import DimensionNames, ShapeDict, add_inputs, check_arguments, check_names
from forge.frontends.state.writes import module_of
from forge.frontends.support import MISSING, Use, check_supported
from forge.frontends.tensorflow import converters
from forge.frontends.tensorflow.importer import evaluate
from forge.frontends.tensorflow.model import (
    ITERATOR,
    PLACEHOLDERS,
    FunctionName,
    Node,
    Ref,
    Shape,
    Signature,
    Tensor,
    TensorFlowModel,
    parse_ref,
)
from forge.frontends.tensorflow.operators import used_operators
from forge.frontends.tensorflow.registry import OUTPUTS, REGISTRY
from forge.frontends.tensorflow.resources import Resource, Resources, tables_of
from forge.frontends.tensorflow.scope import TensorFlowScope, TensorFlowState, name_of
from forge.ir import types
from forge.ir.graph import Graph, Module
from forge.ir.nodes import Value

LAYOUTS = ("NHWC", "NCHW")
CONFIG = ("use_dense", "use_nt_batch_matmul")
MAX_OUTPUTS = 1 << 16
"""Outputs of a node: a list of types, or a number that an attribute says and nothing else bounds."""
_PASSING = ("Identity", "NoOp")
_ROUNDS = 8
_RESULT_TYPES = ("dtype", "element_dtype", "output_type", "out_type", "DstT", "T")
"""Attributes that say the element type of a result; the last one where no other does."""
_RESULTS = {
    **dict.fromkeys(("Equal", "NotEqual", "Less", "LessEqual", "Greater", "GreaterEqual", "IsNan", "IsInf", "IsFinite"), "bool"),
    **dict.fromkeys(("Where", "StringToHashBucket", "StringToHashBucketFast", "StringToHashBucketStrong"), "int64"),
    "StringLength": "int32",
}
"""Element types of results that no attribute says."""


def import_model(
    model: TensorFlowModel, layout: str | None, shape: ShapeDict | None, outputs: Sequence[str] | None,
    convert_config: Mapping[str, bool] | None,
) -> Module:
    """The module of the graph IR that a program means; see `from_tensorflow`.

    Raises:
        ImportModelError: it is not valid; OpNotImplemented: it has operators without a converter, all listed.
    """
    config = _check(layout, shape, outputs, convert_config)
    with located(model.where):
        first, *others = _chosen(model, shape or {}, outputs)
        _check_operators(model, first, others)
        check_names([name for s in (first, *others) for name in s.inputs], shape or {}, {})
        how = Resources(tables=tables_of(model))
        for _ in range(_ROUNDS):
            module = _converted(model, first, shape or {}, layout or "", config, how)
            for signature in others:
                module.graphs[signature.name] = _converted(model, signature, shape or {}, layout or "", config, how).main
                module.graphs[signature.name].attributes["public"] = True
            if how.seen <= how.written:
                return module
            how = Resources(tables=how.tables, written=how.written | how.seen)
    raise ImportModelError(f"{model.where}: variables {', '.join(sorted(how.seen)[:3])} are written in ways that do not settle")


def _check_operators(model: TensorFlowModel, first: Signature, others: Sequence[Signature]) -> None:
    """Raises OpNotImplemented: operators have no converter; what to do where only signatures besides the first need them."""

    def used(*signatures: Signature) -> list[Use]:
        wanted = [tensor.ref[0] for s in signatures for tensor in s.outputs.values()]
        inputs = {tensor.ref[0] for s in signatures for tensor in s.inputs.values()}
        return used_operators(model, [*wanted, *model.effects], inputs)

    everything = used(first, *others)
    if any(use.how == MISSING for use in used(first)):
        check_supported(everything, REGISTRY)
    with located(f"signatures besides {first.name!r}, which outputs={list(first.outputs)!r} leaves out"):
        check_supported(everything, REGISTRY)


def _check(layout: Any, shape: Any, outputs: Any, convert_config: Any) -> dict[str, bool]:
    check_arguments("from_tensorflow", shape, {}, None, {})
    if layout is not None and layout not in LAYOUTS:
        raise OptionError(f"from_tensorflow: {option('layout')}: got {layout!r}; expected one of: {', '.join(LAYOUTS)}")
    if outputs is not None and (isinstance(outputs, str) or not all(isinstance(name, str) and name for name in outputs)):
        raise OptionError(
            f"from_tensorflow: {option('outputs')}: got {outputs!r}; expected a list of names, as in ['logits', 'split:1']")
    config = dict(convert_config or {})
    wrong = [key for key, value in config.items() if key not in CONFIG or not isinstance(value, bool)]
    if wrong:
        raise OptionError(
            f"from_tensorflow: {option('convert_config')}: got {wrong[0]!r}: {config[wrong[0]]!r}; expected True or False for: "
            f"{', '.join(CONFIG)}")
    return config


def _chosen(model: TensorFlowModel, shape: ShapeDict, outputs: Sequence[str] | None) -> tuple[Signature, ...]:
    """What is converted: the signatures of the model, or one for outputs of its graph."""
    if model.signatures and outputs is None:
        different = {_meaning(model, signature): signature for signature in reversed(model.signatures)}
        return tuple(reversed(different.values()))
    for signature in model.signatures[:1]:
        if outputs and all(name in signature.outputs for name in outputs):
            return (Signature("main", signature.inputs, {name: signature.outputs[name] for name in outputs}),)
    refs = {name: _existing(model, name) for name in outputs} if outputs else _last(model)
    inputs = _placeholders(model, list(refs.values()), shape)
    by_ref = {tensor.ref: name for s in model.signatures[:1] for name, tensor in s.inputs.items()}
    named = {by_ref.get(tensor.ref, name): tensor for name, tensor in inputs.items()}
    return (Signature("main", named, {name: Tensor(ref, "", None) for name, ref in refs.items()}),)


def _meaning(model: TensorFlowModel, signature: Signature) -> object:
    """What is equal for signatures that call the same function with the same inputs, as Keras writes two."""
    names = {tensor.ref: name for name, tensor in signature.inputs.items()}
    found: list[object] = [tuple(names.values())]
    for name, tensor in signature.outputs.items():
        node = model.main.node(tensor.ref[0])
        called = node.attributes.get("f")
        if not isinstance(called, FunctionName):
            return signature.name
        found.append((name, tensor.ref[1], _wrapped(model, called.name), tuple(names.get(ref, ref) for ref in node.inputs)))
    return tuple(found)


def _wrapped(model: TensorFlowModel, name: str) -> object:
    """What is equal for functions that do no more than to call the same ones."""
    body = model.function(name)
    if not all(node.op in _PASSING or isinstance(node.attributes.get("f"), FunctionName) for node in body.nodes.values()):
        return name
    called = [(n.name, n.op, n.inputs, n.attributes["f"].name if "f" in n.attributes else "") for n in body.nodes.values()]
    return tuple(a.name for a in body.arguments), tuple(called), tuple(body.results.items())


def _existing(model: TensorFlowModel, name: str) -> Ref:
    ref = parse_ref(name)
    if ref[0] not in model.main.nodes:
        known = list(model.main.nodes)
        raise OptionError(
            f"from_tensorflow: {option('outputs')}: got {name!r}, which is not a node; expected nodes of the graph, as in "
            f"{', '.join(map(repr, known[-3:]))}, the last of {len(known)}")
    return ref


def _last(model: TensorFlowModel) -> dict[str, Ref]:
    """All outputs of the last node.

    Raises:
        ImportModelError: it says that it has more than any operator can give.
    """
    name = list(model.main.nodes)[-1]
    node = model.main.nodes[name]
    total = 0
    for _, counted_by in OUTPUTS.get(node.op, [("", "")]):
        count = node.attributes.get(counted_by, node.types.get(counted_by, 1))
        total += len(count) if isinstance(count, tuple) else max(int(count), 0)
    if total > MAX_OUTPUTS:
        raise ImportModelError(
            f"node {name!r}: {node.op} has {total} outputs; expected at most {MAX_OUTPUTS}; the model is invalid")
    return {name_of((name, k)): (name, k) for k in range(1 if node.op.startswith("FusedBatchNorm") else total)}


def _placeholders(model: TensorFlowModel, wanted: Sequence[Ref], shape: ShapeDict) -> dict[str, Tensor]:
    """Inputs that outputs need, in the order of the graph; one with a default is one where the user gives its shape."""
    pending, needed = list(wanted), set[Ref]()
    while pending:
        ref = pending.pop()
        if ref in needed or ref[0] not in model.main.nodes:
            continue
        needed.add(ref)
        node = model.main.nodes[ref[0]]
        if name_of(ref) not in shape and node.op != ITERATOR:
            pending += [*node.inputs, *((name, 0) for name in node.controls)]
    order = {name: place for place, name in enumerate(model.main.nodes)}
    found = {}
    for ref in sorted(needed, key=lambda r: (order[r[0]], r[1])):
        node = model.main.nodes[ref[0]]
        if node.op in (*PLACEHOLDERS, ITERATOR) or name_of(ref) in shape:
            found[name_of(ref)] = _input(node, ref[1])
    return found


def _input(node: Node, number: int) -> Tensor:
    """An output of a node that is an input of the graph."""
    listed, shapes = node.types.get("output_types"), node.attributes.get("output_shapes")
    if isinstance(listed, tuple):
        dtype = listed[number] if number < len(listed) else None
        sizes = shapes[number] if isinstance(shapes, tuple) and number < len(shapes) else None
    else:
        dtype = _RESULTS.get(node.op) or next((node.types[name] for name in _RESULT_TYPES if name in node.types), None)
        sizes = node.attributes.get("shape") if node.types.get("dtype") else None
    if not isinstance(dtype, str):
        label = name_of((node.name, number))
        raise ImportModelError(f"input {label!r}: {node.op} does not say its element type; expected a node that does")
    return Tensor((node.name, number), dtype, sizes)


def _converted(
    model: TensorFlowModel, signature: Signature, shape: ShapeDict, layout: str, config: dict[str, bool], resources: Resources
) -> Module:
    """A module whose main graph is what a signature says. It is not right yet if ``resources`` have not known what it writes."""
    state = TensorFlowState(
        size=model.size, model=model, resources=resources, layout=layout, config=config,
        wanted={tensor.ref for tensor in signature.outputs.values()}, evaluate=evaluate)
    scope = TensorFlowScope(Graph(name="main"), state, {}, body=model.main)
    _add_inputs(scope, signature, shape)
    results = evaluate(scope, [tensor.ref for tensor in signature.outputs.values()], model.effects)
    named = [(name, _tensor(scope, name, value)) for name, value in zip(signature.outputs, results)]
    changed = {label: v for label, v in scope.variables.items() if label in resources.written}
    for label in changed.keys() - scope.graph.states.keys():
        scope.first(label)
    before = {value.name: value for value in scope.graph.inputs}
    return module_of(scope, named, [(label, v) for label, v in changed.items() if v is not before.get(label)])


def _tensor(scope: TensorFlowScope, name: str, value: Any) -> Value:
    if isinstance(value, Value):
        return value
    if isinstance(value, Resource) and value.kind == "reference":
        return scope.variable(value.name)
    raise ImportModelError(f"output {name!r}: got a handle, or a list without elements; expected a tensor")


def _add_inputs(scope: TensorFlowScope, signature: Signature, shape: ShapeDict) -> None:
    labels = DimensionNames()
    shape = {name: sizes for name, sizes in shape.items() if name in signature.inputs}
    typed: list[tuple[str, types.Type]] = []
    for name, tensor in signature.inputs.items():
        if tensor.dtype in ("resource", "variant"):
            raise ImportModelError(f"input {name!r}: got a {tensor.dtype}; expected a tensor")
        sizes = _sizes(name, tensor.shape, shape, labels)
        typed.append((name, types.TensorType(sizes, tensor.dtype)))
    inner = TensorFlowScope(scope.graph, scope.state, {}, taken=scope.taken)
    add_inputs(inner, typed, labels, shape)
    for name, tensor in signature.inputs.items():
        scope.put(tensor.ref, inner.required(name))
        scope.done.add(tensor.ref[0])


def _sizes(name: str, declared: Shape, shape: ShapeDict, labels: DimensionNames) -> tuple[Any, ...]:
    if declared is None:
        if name not in shape:
            raise ImportModelError(
                f"input {name!r}: its rank is not known; expected {option('shape')} with its sizes: shape={{{name!r}: (...)}}")
        declared = (None,) * len(shape[name])
    return tuple(labels.unknown(f"{name}_dim{axis}") if size is None else size for axis, size in enumerate(declared))


converters.load_all()
