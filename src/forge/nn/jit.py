"""Modules that are compiled in memory and called with tensors."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from forge import loaders
from forge.errors import OptionError
from forge.nn.effects import KVCache
from forge.nn.export import Exporter
from forge.nn.nested import flattened, rebuilt
from forge_runtime import Runtime, Session


class CompiledModule:
    """What ``Module.jit`` gives: ``compiled["forward"](x)``, or ``compiled(x)`` for the first method.

    Effects are kept from one call to the next. Arguments are tensors of torch, arrays and integers, nested as the specification
    says; results are nested as the method nests them.
    """

    def __init__(self, exporter: Exporter, run: Runtime | Session, out_format: str) -> None:
        self._exporter = exporter
        self._run = run
        self._convert: Callable[[Any], Any] = np.asarray if out_format == "numpy" else _as_torch

    def __getitem__(self, method: str) -> Callable[..., Any]:
        """The method of that name.

        Raises:
            OptionError: it is none of the specification.
        """
        methods = self._exporter.spec.methods
        if method not in methods:
            raise OptionError(f"jit: {method!r} is not a method of the specification; expected one of: {', '.join(methods)}")

        def call(*args: Any, **kwargs: Any) -> Any:
            return self._call(method, args, kwargs)

        return call

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self._call(next(iter(self._exporter.spec.methods)), args, kwargs)

    def reset(self) -> None:
        """Makes effects what they are at first."""
        if isinstance(self._run, Session):
            self._run.reset()

    def _call(self, method: str, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
        names = list(self._exporter.spec.methods[method].arguments)
        if len(args) + len(kwargs) != len(names) or not set(kwargs) <= set(names[len(args) :]):
            given = ", ".join([f"{len(args)} by position", *kwargs])
            raise OptionError(f"jit: {method}: got arguments {given}; expected: {', '.join(names)}")
        leaves, _ = flattened([*args, *(kwargs[name] for name in names[len(args) :])])
        results = self._run[method](*(np.int64(leaf) if isinstance(leaf, int) else leaf for leaf in leaves))
        listed = list(results) if isinstance(results, list | tuple) else [] if results is None else [results]
        return rebuilt([self._convert(result) for result in listed], self._exporter.structures[method])


def compiled(module: Any, spec: Any, device: Any, out_format: str, debug: bool, options: Mapping[str, Any]) -> CompiledModule:
    """`CompiledModule` of ``module``.

    Raises:
        OptionError: an argument does not fit, or a parameter has no data.
    """
    if out_format not in ("torch", "numpy"):
        raise OptionError(f"jit: out_format: got {out_format!r}; expected 'torch' or 'numpy'")
    if str(device) not in ("cpu", "cpu(0)"):
        raise OptionError(f"jit: device: got {device}; expected 'cpu'")
    unbound = [name for name, parameter in module.named_parameters() if parameter.data is None]
    if unbound:
        shown = ", ".join(unbound[:5]) + (", ..." if len(unbound) > 5 else "")
        raise OptionError(f"jit: {len(unbound)} parameters have no data: {shown}; load a state_dict first")
    exporter = Exporter(module, spec, debug)
    run = loaders.compile(exporter.module(keep_params_as_input=False), **options)
    room = max((e.init_seq_len for e in exporter.effects.values() if isinstance(e, KVCache)), default=0)
    if isinstance(run, Session) and room:
        run = run.runtime.session(capacity=room)
    return CompiledModule(exporter, run, out_format)


def _as_torch(array: Any) -> Any:
    import torch

    return torch.from_dlpack(array)
