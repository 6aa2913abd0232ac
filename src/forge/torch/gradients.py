"""What autograd records of a graph: tracing sees it, and the tensors that compiled code returns or writes have the same history.

Compiled code computes without autograd. A result that is an argument, or a view of one, is made by PyTorch itself and has the
right gradients. All others that require gradients in eager PyTorch require them here too, as does what the graph writes where
autograd sees it; asking for one is an error, in the place of a wrong one.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from enum import Enum, auto
from operator import is_, itemgetter
from typing import Any

import torch
from torch._C._autograd import CreationMeta
from torch._C._autograd import _get_creation_meta as _creation
from torch._C._autograd import _set_creation_meta as _set_creation
from torch._subclasses.fake_tensor import FakeTensor
from torch.autograd.function import BackwardCFunction
from torch.fx import GraphModule, Node

from forge.errors import GradientError
from forge.torch.views import form_of, view_like

Call = Callable[..., Sequence[Any]]


class Kind(Enum):
    """What a result is to autograd."""

    PLAIN = auto()
    """Nothing."""
    SAME = auto()
    """An argument."""
    VIEW = auto()
    """A view of an argument."""
    UNRECORDED = auto()
    """A view of an argument that was made where autograd does not record: in ``torch.no_grad()``."""
    DETACHED = auto()
    """In the memory of an argument, and no view of it."""
    COMPUTED = auto()
    """A tensor that requires gradients."""


@dataclass(frozen=True)
class Result:
    """What a result is.

    Attributes:
        argument: the number of the one that it is, or in whose memory it lies.
        is_part: whether its elements are some of that one's.
    """

    kind: Kind
    argument: int = -1
    is_part: bool = True


@dataclass(frozen=True)
class History:
    """What autograd records while a graph runs.

    Attributes:
        written: numbers of the arguments whose history changes: writes to them, or to views of them, are recorded.
        repeated: results that are an earlier one: numbers of both.
        records: whether there are such writes, or results that require gradients.
    """

    written: tuple[int, ...]
    results: tuple[Result, ...]
    repeated: tuple[tuple[int, int], ...]
    records: bool


class Watched:
    """Arguments of a graph before it runs; asked afterwards what autograd recorded."""

    def __init__(self, arguments: Sequence[Any]) -> None:
        self._arguments = arguments
        self._before = [_writer(argument) for argument in arguments]
        self._hooked: list[Any] = []

    def note_hook(self, tensor: torch.Tensor) -> None:
        """The gradients of ``tensor`` are changed by a function of the user."""
        self._hooked.append(tensor.grad_fn)

    def history(self, results: Sequence[Any]) -> History:
        """Args: results: of the graph, which has run on the arguments."""
        written = tuple(
            number for number, (a, before) in enumerate(zip(self._arguments, self._before)) if _writer(a) is not before
        )
        tensors = [(number, result) for number, result in enumerate(results) if isinstance(result, torch.Tensor)]
        first = [(number, next(k for k, earlier in tensors if earlier is result)) for number, result in tensors]
        repeated = tuple((number, k) for number, k in first if k < number)
        records = bool(written) or any(result.requires_grad for _, result in tensors)
        return History(written, tuple(map(self._result, results)), repeated, records)

    def _result(self, result: Any) -> Result:
        if not isinstance(result, torch.Tensor):
            return Result(Kind.PLAIN)
        tensors = [(number, a) for number, a in enumerate(self._arguments) if isinstance(a, torch.Tensor)]
        same = next((number for number, argument in tensors if argument is result), None)
        if same is not None:
            return Result(Kind.SAME, same)
        related = [(number, argument) for number, argument in tensors if _is_related(result, argument)]
        if related and _is_unrecorded(result):
            return Result(Kind.UNRECORDED)
        if result.requires_grad:
            viewed = self._viewed(result, related)
            return Result(Kind.COMPUTED) if viewed is None else Result(Kind.VIEW, viewed, _is_part(result, related))
        if related:
            number, argument = related[0]
            return Result(Kind.PLAIN) if argument.requires_grad else Result(Kind.VIEW, number, _is_part(result, related))
        return Result(Kind.DETACHED if any(_share(result, argument) for _, argument in tensors) else Kind.PLAIN)

    def _viewed(self, view: torch.Tensor, arguments: Sequence[tuple[int, torch.Tensor]]) -> int | None:
        """The number of the argument that gets the gradients of a view; None: no argument, or nobody knows which one.

        A view that is given by strides may show elements of the memory that are none of the tensor that it was made of; functions
        and hooks of the user give what was viewed other gradients.
        """
        made = view.grad_fn
        while made is not None and not self._is_special(made):
            made = made.next_functions[0][0] if made.next_functions else None
            found = [number for number, argument in arguments if made is not None and _gets(argument, made)]
            if found:
                return found[0] if len(found) == 1 else None
        return None

    def _is_special(self, node: Any) -> bool:
        """Whether a node of autograd's graph does not only pick gradients of what was viewed."""
        is_own = isinstance(node, BackwardCFunction) or any(node is hooked for hooked in self._hooked)
        return is_own or "AsStrided" in node.name()


def _base(tensor: torch.Tensor) -> torch.Tensor:
    return tensor._base if tensor._is_view() else tensor


def _is_related(result: torch.Tensor, argument: torch.Tensor) -> bool:
    """Whether both are views of one tensor, or one is a view of the other."""
    return result._is_view() and _base(argument) is result._base


def _is_part(result: torch.Tensor, related: Sequence[tuple[int, torch.Tensor]]) -> bool:
    return all(form_of(argument) == form_of(result) for _, argument in related)


def _is_unrecorded(view: torch.Tensor) -> bool:
    """Whether a view was made where autograd does not record; even if it requires gradients, its base gets none of them."""
    made = _creation(view)
    return view.grad_fn is None and made in (CreationMeta.NO_GRAD_MODE, CreationMeta.INFERENCE_MODE)


def _gets(argument: torch.Tensor, node: Any) -> bool:
    """Whether the gradients of a node of autograd's graph are those of ``argument``."""
    return argument.grad_fn is node or getattr(node, "variable", None) is argument


def _writer(argument: Any) -> Any:
    """What made the tensor whose history writes to ``argument`` change."""
    return _base(argument).grad_fn if isinstance(argument, torch.Tensor) else None


def _share(one: torch.Tensor, other: torch.Tensor) -> bool:
    is_strided = one.layout is torch.strided and other.layout is torch.strided
    return is_strided and one.untyped_storage()._cdata == other.untyped_storage()._cdata


def with_history(call: Call, history: History, module: GraphModule) -> Call:
    """``call``, which stands for ``module``, with the history that eager PyTorch gives results and written arguments.

    `GradientError` is raised where somebody asks for gradients that compiled code does not have.
    """
    (output,) = (node for node in module.graph.nodes if node.op == "output")
    known = [_known(found, node) for found, node in zip(history.results, output.args[0], strict=True)]
    inside = [
        (number, found.argument) for number, found in enumerate(known)
        if found.kind is Kind.COMPUTED and found.argument >= 0 and found.argument not in history.written]
    refused = [number for number, found in enumerate(known) if found.kind is Kind.COMPUTED and number not in dict(inside)]
    views = [(number, found.argument, found.is_part) for number, found in enumerate(known) if found.kind is Kind.VIEW]
    detached = [number for number, found in enumerate(known) if found.kind is Kind.DETACHED]
    are_computed = len(refused) == len(known) and not history.written and not history.repeated
    is_unrecorded = any(found.kind is Kind.UNRECORDED for found in known)
    is_on = torch.is_grad_enabled()
    if not (history.records or refused or inside or views or detached or (is_on and is_unrecorded)):
        return call

    kept: list[_Anchors] = []

    def called(*arguments: Any) -> list[Any]:
        if not (kept and kept[0].are_of(arguments)):
            kept[:] = [_Anchors(arguments)]
        anchors = kept[0].of(arguments)
        if are_computed:  # the code itself makes nothing that autograd could record
            return list(_Refused.apply(call(*arguments), *anchors))
        _record_writes(arguments, history.written, anchors)
        with torch.no_grad():
            results = list(call(*arguments))
        for number in detached:
            results[number] = results[number].detach()
        for number, argument, is_part in views:
            made = results[number]
            results[number] = (
                arguments[argument].as_strided(made.shape, made.stride(), made.storage_offset()) if is_part
                else view_like(arguments[argument], made))
        for number, argument in inside:
            results[number] = _RefusedView.apply(arguments[argument], results[number], *anchors)
            _set_creation(results[number], CreationMeta.DEFAULT)  # writes to it are autograd's: they are seen in the argument
        if refused:
            made = _Refused.apply([results[number] for number in refused], *anchors)
            for number, result in zip(refused, made):
                results[number] = result
        for number, first in history.repeated:
            results[number] = results[first]
        return results

    return called if is_on else torch.enable_grad()(called)


def _record_writes(arguments: Sequence[Any], written: Sequence[int], anchors: list[torch.Tensor]) -> None:
    """Has autograd know that compiled code is about to write arguments, which become anchors, too.

    Raises:
        GradientError: they share memory with others that required no gradients, and do now; the graph says nothing of these.
    """
    others = [a for k, a in enumerate(arguments) if isinstance(a, torch.Tensor) and not a.requires_grad and k not in written]
    for number in written:
        argument = arguments[number]
        _Written.apply(argument, *(anchor for anchor in anchors if anchor is not argument))
        anchors.append(argument)
    if any(other.requires_grad for other in others):
        raise GradientError(
            "torch.compile(backend='forge'): got an argument that shares memory with one that is written where autograd records; "
            "expected arguments with memory of their own, as in the call for which the code was compiled; give a clone"
        )


def of_arguments(history: History, origins: Sequence[int | None]) -> History:
    """``history``, whose results lie in the arguments that the graph made them of: in another call, only these share memory.

    Args:
        origins: the numbers of the arguments in whose memory each result is, as the graph says; None: it does not say.
    """
    results = [
        replace(found, argument=origin) if found.kind is not Kind.SAME and origin is not None else found
        for found, origin in zip(history.results, origins, strict=True)
    ]
    return replace(history, results=tuple(results))


def _known(found: Result, node: Any) -> Result:
    """``found``; where autograd does not see through a function that Dynamo keeps whole, Dynamo knows what requires gradients."""
    value = node.meta.get("example_value") if isinstance(node, Node) else None
    requires_grad = isinstance(value, FakeTensor) and value.requires_grad
    return replace(found, kind=Kind.COMPUTED) if found.kind is Kind.PLAIN and requires_grad else found


class _Anchors:
    """Tensors by which results depend on all arguments that gradients may be asked of; there is always one.

    Parameters, which are many and the same ones at each call, share one, which is kept.
    """

    def __init__(self, arguments: Sequence[Any]) -> None:
        """Args: arguments: of a call; Dynamo sees to it that the same ones require gradients at all calls."""
        tensors = [(number, a) for number, a in enumerate(arguments) if isinstance(a, torch.Tensor) and a.requires_grad]
        self._parameters = [argument for _, argument in tensors if isinstance(argument, torch.nn.Parameter)]
        numbers = [number for number, argument in tensors if isinstance(argument, torch.nn.Parameter)]
        self._take = itemgetter(*numbers, *numbers[:1]) if numbers else lambda arguments: ()
        self._others = [number for number, argument in tensors if not isinstance(argument, torch.nn.Parameter)]
        nothing = torch.empty(0)
        roots = self._parameters or [torch.empty(0, requires_grad=True)]
        self._shared = list(_Refused.apply([nothing], *roots)) if self._parameters or not self._others else []

    def are_of(self, arguments: Sequence[Any]) -> bool:
        """Whether the parameters are those of another call."""
        return all(map(is_, self._parameters, self._take(arguments)))

    def of(self, arguments: Sequence[Any]) -> list[torch.Tensor]:
        return [*self._shared, *[arguments[number] for number in self._others]]


class _Refused(torch.autograd.Function):  # type: ignore[misc]
    """Results that depend on the anchors; there are no gradients."""

    @staticmethod
    def forward(ctx: Any, results: Sequence[torch.Tensor], *anchors: torch.Tensor) -> tuple[torch.Tensor, ...]:
        return tuple([result.detach() for result in results])

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> Any:
        raise GradientError(
            "torch.compile(backend='forge'): got a request for gradients; expected inference: compiled code has none; call the "
            "model in torch.no_grad() or torch.inference_mode(), or give options={'fallback': True}, with which it runs eagerly "
            "where autograd records"
        )


class _RefusedView(_Refused):
    """A result in the memory of an argument."""

    @staticmethod
    def forward(ctx: Any, argument: torch.Tensor, result: torch.Tensor, *anchors: torch.Tensor) -> torch.Tensor:
        return view_like(argument, result.detach())


class _Written(_Refused):
    """An argument that compiled code is about to write, as a result that depends on what it was and on the anchors."""

    @staticmethod
    def forward(ctx: Any, written: torch.Tensor, *anchors: torch.Tensor) -> torch.Tensor:
        ctx.mark_dirty(written)
        return written
