"""Modules whose ``forward`` becomes a function of its own, which equal modules share."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable
from typing import Any, ClassVar

from forge import dims
from forge.dims import DimExpr
from forge.errors import OptionError, TypeInferenceError
from forge.ir import call, retype
from forge.ir.graph import Graph, Module
from forge.ir.nodes import Value
from forge.ir.saved import hashing
from forge.ir.types import TensorType, symbols
from forge.nn.effects import Effect
from forge.nn.nested import flattened, rebuilt
from forge.nn.tensor import Tensor
from forge.nn.tracing import Context, Trace, current, traced


class SubroutineMixin:
    """Gives classes of modules the attribute ``define_subroutine``.

    Where it is True, each call of ``forward`` becomes a call of a private function of the graph, which is named after the class,
    and whose inputs are the arguments and all parameters of the module. Modules that compute the same share one function: a model
    of 32 equal layers is as short as one of 2. Modules with effects, and calls whose arguments do not say what all sizes are, are
    part of the graph that calls them.
    """

    define_subroutine: ClassVar[bool] = False

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        if "forward" in vars(cls):
            cls.forward = _shared(vars(cls)["forward"])  # type: ignore[attr-defined]


def _shared(forward: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(forward)
    def call_forward(self: Any, *args: Any, **kwargs: Any) -> Any:
        trace = current()
        inlined = not self.define_subroutine or next(self.named_parts(Effect), None) is not None
        if inlined or trace is None or trace.module is self:  # as in ``super().forward``
            return forward(self, *args, **kwargs)
        return _Subroutine(forward, self, trace).call(args, kwargs)

    return call_forward


class _Subroutine:
    """One call of ``forward`` of a module."""

    def __init__(self, forward: Callable[..., Any], module: Any, outer: Trace) -> None:
        self.forward = forward
        self.module = module
        self.outer = outer
        self.name = _snake_case(type(module).__name__)
        self.inner = Trace(self.name, outer.functions, outer)
        self.inner.io, self.inner.module = outer.io, module
        self.inner.paths = {id(part): path for path, part in module.named_modules()}
        self.operands: list[Value] = []

    def call(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        g = Context(self.name)
        leaves, structure = flattened((args, kwargs))
        inside = [self._argument(g, leaf, k) for k, leaf in enumerate(leaves)]
        for path, parameter in self.module.named_parameters():
            self.operands.append(g.value(parameter))
            self.inner.bind(parameter, path)
        if self._is_undetermined():
            return self.forward(self.module, *args, **kwargs)
        inner_args, inner_kwargs = rebuilt(inside, structure)
        with traced(self.inner):
            results, form = flattened(self.forward(self.module, *inner_args, **inner_kwargs))
            self.inner.graph.outputs = [self._result(result) for result in results]
        callee = self._known()
        values = call.call_function(g.builder, callee.name, callee, *self.operands, name=self.outer.scope.unique(self.name))
        return rebuilt(list(g.tensors(values)), form)

    def _argument(self, g: Context, leaf: Any, number: int) -> Any:
        """What ``forward`` gets for an argument."""
        if isinstance(leaf, Tensor):
            self.operands.append(g.value(leaf))
            return Tensor(_expr=self.inner.input(leaf.type, f"argument_{number}"))
        if isinstance(leaf, DimExpr):
            known = {s for v in self.inner.graph.inputs for s in symbols(v.type)}
            if not known.issuperset(dims.symbols(leaf)):
                self.operands.append(g.size(leaf))
                with traced(self.inner):
                    count = self.inner.input(TensorType((), "int64"), f"argument_{number}")
                    return self.inner.count(Context(self.name), count)
        return leaf

    def _is_undetermined(self) -> bool:
        """Whether sizes of the arguments do not say what their symbols are."""
        try:
            call.bind_parameters(self.name, self.inner.graph, self.operands)
        except TypeInferenceError:
            return True
        return False

    def _result(self, result: Any) -> Value:
        if not isinstance(result, Tensor):
            raise OptionError(f"{type(self.module).__name__}.forward: got {type(result).__name__}; expected tensors")
        return Context(self.name).value(result)

    def _known(self) -> Graph:
        """The function that computes the same, else this one, which is one from now on."""
        graph, known = self.inner.graph, self.inner.functions
        retype.number_symbols(graph)
        digest = hashing.fingerprint(Module(graph))
        if digest not in known:
            taken = {function.name for function in known.values()}
            numbered = (f"{self.name}_{k}" for k in range(2, len(known) + 3))
            graph.name = next(name for name in (self.name, *numbered) if name not in taken)
            known[digest] = graph
        return known[digest]


def _snake_case(name: str) -> str:
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "_", name).lower()
