"""From a graph that Dynamo captured to one of ATen operators, with layers whole and writes in place as the model has them."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

import torch
import torch.fx.traceback
from torch._dispatch.python import enable_python_dispatcher
from torch._export.utils import _compiling_state_context
from torch._guards import TracingContext
from torch._ops import HigherOrderOperator
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode
from torch.fx import GraphModule, Interpreter, Node
from torch.fx.experimental.proxy_tensor import make_fx
from torch.fx.experimental.symbolic_shapes import ShapeEnv
from torch.nn.utils.stateless import _reparametrize_module
from torch.utils import _pytree as pytree

from forge.errors import ForgeError, OpNotImplemented
from forge.frontends.torch.converters.core.views import SHARING
from forge.frontends.torch.exported import source_line, target_name
from forge.frontends.torch.loader import decompositions
from forge.frontends.torch.lost_writes import without_batch
from forge.frontends.torch.steps import lookup
from forge.frontends.torch.whole_layers import whole_layers
from forge.torch.gradients import History, Kind, Watched, of_arguments
from forge.torch.results import memory_of, origin_of
from forge.torch.wrappers import parts, rebuilt


class Traced(NamedTuple):
    """A graph of ATen operators.

    Attributes:
        own: tensors of the traced module itself by name, which are arguments of the graph after those that it was traced with; of
            tensors that are several in one, these are its arguments.
        history: what autograd records while it runs.
    """

    graph: GraphModule
    own: dict[str, torch.Tensor]
    history: History


def trace(module: GraphModule, examples: Sequence[Any]) -> Traced:
    """``module``, of functions and methods of torch, as a graph of ATen operators; ``val`` of a node is what torch says of it.

    Casts of autocast become operators, and functions over a batch operators on all of it; these take the larger layers apart, as
    torch does before it casts. Operators without a converter are taken apart by torch's own decompositions, if it has them.

    Raises:
        OpNotImplemented: torch's tracing does not see through a higher-order operator.
    """
    _check_examples(examples)
    context = TracingContext.try_get()
    mode = context.fake_mode if context is not None else None
    if mode is None:
        mode = FakeTensorMode(shape_env=ShapeEnv(), allow_non_fake_inputs=True)
    own = {**dict(module.named_parameters()), **dict(module.named_buffers())}
    fakes = [_fake(mode, context, part) for example in (*examples, *own.values()) for _, part in parts(example)]
    enters = any(node.target is torch.amp.autocast_mode._enter_autocast for node in module.graph.nodes)
    casts = enters or torch.is_autocast_enabled("cpu")

    histories = []

    def run(*plain: Any) -> Any:
        watched = Watched(plain)
        given = iter(plain)
        arguments = [rebuilt(example, given) for example in (*examples, *own.values())]
        kept = dict(zip(own, arguments[len(examples) :]))
        with torch.fx.traceback.preserve_node_meta(), _reparametrize_module(module, kept, tie_weights=True):
            results = _Interpreter(module, watched).run(*arguments[: len(examples)])
        histories.append(watched.history(results))
        return results

    whole = not casts and not any(map(_is_of_transform, module.graph.nodes))
    with mode, enable_python_dispatcher():
        make = partial(_traced, run, fakes, whole)
        traced = _first_traced(make)
        if whole and any(map(_is_of_transform, traced.graph.nodes)):
            make = partial(_traced, run, fakes, False)
            traced = _first_traced(make)
        if unknown := _unknown(traced):
            with contextlib.suppress(Exception):  # torch raises anything; what it cannot take apart is refused as it is
                traced = _taken_apart(make, unknown)
    for inner in [inner for inner in traced.modules() if isinstance(inner, GraphModule)]:
        for node in [node for node in inner.graph.nodes if node.target is torch._C._set_grad_enabled]:
            inner.graph.erase_node(node)  # what is recorded, the graph that Dynamo gave says: compiled code records nothing
        inner.recompile()
    _check_constants(traced)
    _check_views(traced)
    history = histories[0]  # of arguments that no earlier run has written
    _unite_results(traced, history)
    return Traced(traced, own, of_arguments(history, _origins(traced)))


def _unite_results(traced: GraphModule, history: History) -> None:
    """One tensor is one node among the results: an operator may return what it was given, as it wrote it or had nothing to do."""
    nodes = list(traced.graph.nodes)
    arguments = [node for node in nodes if node.op == "placeholder"]
    results = list(nodes[-1].args[0])
    for number, found in enumerate(history.results):
        if found.kind is Kind.SAME:
            results[number] = arguments[found.argument]
    for number, first in history.repeated:
        results[number] = results[first]
    nodes[-1].args = (tuple(results),)


def _origins(traced: GraphModule) -> list[int | None]:
    """The numbers of the arguments that results are views of."""
    nodes = list(traced.graph.nodes)
    numbers = {node: number for number, node in enumerate(node for node in nodes if node.op == "placeholder")}
    found = [origin_of(value) if isinstance(value, Node) else None for value in nodes[-1].args[0]]
    return [None if origin is None else numbers[origin] for origin in found]


class _Interpreter(Interpreter):  # type: ignore[misc]
    """Runs what is marked to be computed again for gradients once, in the graph, and notes whose gradients hooks change."""

    def __init__(self, module: GraphModule, watched: Watched) -> None:
        super().__init__(module)
        self._watched = watched

    def call_function(self, target: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        if target is torch.ops.higher_order.tag_activation_checkpoint:
            return _Interpreter(args[0], self._watched).run(*args[1:])
        if isinstance(target, HigherOrderOperator) and target.name() == "register_hook":
            self._watched.note_hook(args[0])
        return super().call_function(target, args, kwargs)


def _check_examples(examples: Sequence[Any]) -> None:
    """Raises OpNotImplemented: arguments have no memory of their own that could be read."""
    if any(isinstance(example, torch.Tensor) and example.is_nested for example in examples):
        raise OpNotImplemented(
            "torch.compile: got a nested tensor (torch.nested); expected plain tensors: give its values and offsets, or padded "
            "ones, or fallback=True")
    wrapped = [example for example in examples if isinstance(example, torch.Tensor) and _is_wrapped(example)]
    if wrapped:
        raise OpNotImplemented(
            f"torch.compile: got an argument of a function that torch.func transforms ({str(wrapped[0]).partition('(')[0]}); "
            "expected tensors with memory: compile the function that calls torch.func, or give fallback=True")


def _is_wrapped(tensor: torch.Tensor) -> bool:
    return bool(torch._C._functorch.is_functorch_wrapped_tensor(tensor))


def _check_constants(traced: GraphModule) -> None:
    """A tensor without contents is not a constant: tracing lost where it comes from."""
    for node in traced.graph.nodes:
        value = getattr(traced, node.target, None) if node.op == "get_attr" else None
        if isinstance(without_batch(value), FakeTensor) or without_batch(value) is not value:
            source = next((source_line(user.meta.get("stack_trace") or "") for user in node.users), "")
            raise OpNotImplemented(
                f"torch.compile: {source or node.name}: torch does not trace this function, which a higher-order operator runs; "
                "supported: operators that torch.export takes apart; use IRModule.from_torch, or fallback=True")


def _first_traced(make: Callable[[Mapping[Any, Any]], GraphModule]) -> GraphModule:
    """Raises OpNotImplemented: torch cannot trace the graph."""
    try:
        return make({})
    except Exception as error:  # torch raises anything
        if isinstance(error, ForgeError):
            raise
        line = source_line(str(error))
        raise OpNotImplemented(
            f"torch.compile: {line}{': ' if line else ''}torch does not trace this graph: {type(error).__name__}: "
            f"{str(error).splitlines()[0][:200] if str(error) else ''}; expected functions that torch.fx traces with tensors "
            "without contents; leave them out with torch.compiler.disable, or give fallback=True") from error


def _traced(run: Callable[..., Any], fakes: Sequence[Any], whole: bool, table: Mapping[Any, Any]) -> GraphModule:
    """``whole``: with layers whole, and functions over a batch (``vmap``) between marks of where they begin and end."""
    with _compiling_state_context(), _kept_levels(), whole_layers(whole):  # without a state of compiling there are no marks
        return make_fx(run, table, tracing_mode="real", pre_dispatch=whole, _allow_non_fake_inputs=True)(*fakes)


@contextlib.contextmanager
def _kept_levels() -> Iterator[None]:
    """What functions of ``torch.func`` change while they run is as before where one of them fails."""
    functorch, hooks, forward = torch._C._functorch, torch._C._autograd, torch.autograd.forward_ad
    depth, is_allowed = functorch.get_dynamic_layer_stack_depth(), functorch.get_inplace_requires_grad_allowed()
    has_hooks, has_level = hooks._saved_tensors_hooks_is_enabled(), forward._current_level >= 0
    with torch.set_grad_enabled(torch.is_grad_enabled()), forward._set_fwd_grad_enabled(forward._is_fwd_grad_enabled()):
        try:
            yield
        except BaseException:
            if not has_level:
                with contextlib.suppress(RuntimeError):  # none was entered
                    torch._C._exit_dual_level(level=0)
            functorch.pop_dynamic_layer_stack_and_undo_to_depth(depth)
            functorch.set_inplace_requires_grad_allowed(is_allowed)
            if has_hooks:
                hooks._saved_tensors_hooks_enable()
            raise


def _is_of_transform(node: Node) -> bool:
    """Whether a node is a mark of where a function of ``torch.func`` begins or ends."""
    return str(getattr(node.target, "__module__", "")).startswith(_TRANSFORMS)


_TRANSFORMS = ("torch._functorch.", "torch._C._functorch")


def _taken_apart(traced: Callable[[Mapping[Any, Any]], GraphModule], unknown: Sequence[Node]) -> GraphModule:
    """The graph without those operators that torch takes apart into ones that have converters."""
    table = {op: function for op, function in decompositions(()).items() if _is_unknown(op)}
    rest = list(unknown)
    while True:
        more = {node.target: node.target.decompose for node in rest if node.target not in table and node.target._can_decompose()}
        table.update(more)
        found = traced(table)
        if not (rest := _unknown(found)):
            return found
        if not any(node.target not in table and node.target._can_decompose() for node in rest):
            break
    kept = {target_name(node.meta["original_aten"]) for node in rest if "original_aten" in node.meta}
    return traced({op: function for op, function in table.items() if target_name(op) not in kept})


def _unknown(traced: GraphModule) -> list[Node]:
    """Nodes that are to be taken apart: they have no converter, or one that makes no view."""
    return [
        node for node in traced.graph.nodes
        if _is_unknown(node.target) or _is_hidden_view(node) and node.target._can_decompose()]


def _is_unknown(target: Any) -> bool:
    """Whether an operator has no converter; those that draw random numbers run eagerly."""
    is_operator = isinstance(target, torch._ops.OpOverload) and torch.Tag.nondeterministic_seeded not in target.tags
    return is_operator and lookup(target_name(target)) is None


def _is_hidden_view(node: Node) -> bool:
    """Whether an operator that is none of views has given one here, as ``einsum`` does where it only moves axes."""
    is_operator = isinstance(node.target, torch._ops.OpOverload) and not node.target._schema.is_mutable
    if not is_operator or target_name(node.target) in SHARING:
        return False
    given = {storage for argument in node.all_input_nodes for storage in _storages(argument)}
    return not given.isdisjoint(_storages(node))


def _check_views(traced: GraphModule) -> None:
    """Raises OpNotImplemented: the graph writes, and who sees it is not known."""
    targets = [node.target for node in traced.graph.nodes if isinstance(node.target, torch._ops.OpOverload)]
    hidden = next(filter(_is_hidden_view, traced.graph.nodes), None)
    if hidden is not None and any(target._schema.is_mutable for target in targets):
        place = source_line(hidden.meta.get("stack_trace") or "") or hidden.name
        raise OpNotImplemented(
            f"torch.compile: {place}: {target_name(hidden.target)} gives a view here, in a graph that writes; expected an "
            "operator that says so: clone its result, or give fallback=True")


def _storages(node: Node) -> list[int]:
    return [storage for value in pytree.tree_leaves(node.meta.get("val")) if (storage := memory_of(value)) is not None]


def _fake(mode: FakeTensorMode, context: TracingContext | None, example: Any) -> Any:
    """A tensor without contents, of the sizes that Dynamo chose for ``example``; sizes are not negative, other integers fixed."""
    if isinstance(example, torch.SymInt):
        return example if example >= 0 else int(example)  # each is a guard: other calls are compiled again
    if not isinstance(example, torch.Tensor) or isinstance(example, FakeTensor) and example.fake_mode is mode:
        return example
    sizes = None if context is None else context.tensor_to_context.get(example)
    if sizes is None:
        return mode.from_tensor(example, static_shapes=True)
    return mode.from_tensor(example, symbolic_context=sizes, source=sizes.tensor_source, trace=False)
