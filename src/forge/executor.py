"""Executors: a model as a function of its inputs and weights, compiled under the ``PassContext`` around it.

    with forge.PassContext(opt_level=1):
        executor = forge.create_executor("graph", mod, forge.cpu(0), "llvm")
    y = executor.evaluate()(x, **params)
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from forge.driver import check_options, compile_module, optimized_graph
from forge.driver.pass_context import PassContext
from forge.errors import InputError, InvalidGraphError, OptionError
from forge.ir.graph import Module
from forge.module import IRModule
from forge.nd import Device, check_device, cpu, viewed
from forge.target import TargetLike

Run = Callable[..., Any]


class Executor:
    """What ``create_executor`` gives; ``evaluate`` compiles."""

    def __init__(self, kind: str, ir: IRModule, target: TargetLike, context: PassContext | None) -> None:
        self.kind = kind
        self._ir = ir
        self._target = target
        self._context = context

    def evaluate(self) -> Evaluation:
        """The model as a function, compiled as the ``PassContext`` says that is around this call, else around the creation.

        Raises:
            OptionError, TargetError: a bad option; CompileError: an operator cannot be compiled.
        """
        context = PassContext.current() or self._context
        build = {"graph": _compiled, "debug": _interpreted}[self.kind]

        def prepare(module: Module) -> Run:
            with context or contextlib.nullcontext():
                return build(module, self._target)

        return Evaluation(self._ir.mod.copy(), prepare)


class Evaluation:
    """A model as a function: inputs by position or by name, weights by name; an ``NDArray`` or a list of them out.

    Weights are part of the compiled code. Those that a call names take their place: equal ones cost a comparison, at most,
    different ones a compilation.
    """

    def __init__(self, module: Module, prepare: Callable[[Module], Run]) -> None:
        self._module = module
        self._prepare = prepare
        self._weights = dict(module.params)
        self._run = prepare(module)

    def __call__(self, /, *inputs: Any, **named: Any) -> Any:
        """Raises InputError when inputs or weights do not fit the model."""
        weights = {name: np.asarray(value) for name, value in named.items() if name in self._weights}
        if any(not _same(array, self._weights[name]) for name, array in weights.items()):
            self._bind(weights)
        return viewed(self._run(*inputs, **{name: value for name, value in named.items() if name not in weights}))

    def _bind(self, weights: Mapping[str, np.ndarray]) -> None:
        try:
            ir = IRModule(self._module, weights, fold_constants=False, fold_batch_norms=False)
        except InvalidGraphError as error:
            raise InputError(f"evaluate: {error}") from error
        self._run = self._prepare(ir.mod)
        self._weights = dict(ir.params)
        self._module = ir.mod


def create_executor(
    kind: str,
    mod: IRModule | Module | str,
    device: Device | None = None,
    target: TargetLike = "llvm",
    params: Mapping[str, np.ndarray] | None = None,
) -> Executor:
    """A way to run a model in this process.

    Args:
        kind: "graph" compiles the model; "debug" runs the optimized graph operator by operator, with NumPy.
        mod: the model.
        device: where to run: ``forge.cpu(0)``, or None for the same.
        target: what to compile for; must be able to run here.
        params: weights by name, for inputs of ``main``.

    Raises:
        OptionError: there is no such kind or device; InvalidGraphError: ``params`` do not fit.
    """
    if kind not in ("graph", "debug"):
        raise OptionError(f"create_executor: kind: got {kind!r}; expected 'graph' or 'debug'")
    check_device("create_executor", device)
    ir = IRModule(mod, params, fold_constants=False, fold_batch_norms=False)
    check_options(target)
    return Executor(kind, ir, target, PassContext.current())


def _compiled(module: Module, target: TargetLike) -> Run:
    return compile_module(module, check_options(target)).runtime()


def _interpreted(module: Module, target: TargetLike) -> Run:
    graph = optimized_graph(module, check_options(target))
    return IRModule(module.with_main(graph), fold_constants=False, fold_batch_norms=False).get_inference_function("reference")


def _same(array: np.ndarray, kept: np.ndarray) -> bool:
    """Whether two arrays have the same type and bits."""
    if array.dtype != kept.dtype or array.shape != kept.shape:
        return False
    if array.__array_interface__ == kept.__array_interface__:
        return True  # the same memory, and ``kept`` is read-only
    if array.dtype == object:
        return bool(array.tolist() == kept.tolist())
    return bool(np.array_equal(_bytes(array), _bytes(kept)))


def _bytes(array: np.ndarray) -> np.ndarray:
    return np.ascontiguousarray(array).reshape(-1).view(np.uint8)


__all__ = ["Device", "Evaluation", "Executor", "cpu", "create_executor"]
