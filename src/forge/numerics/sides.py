"""Ways to run a model, each seen through the same values: by machine code, by the interpreter, or by its source framework."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np

from forge import peers
from forge.driver import check_options, compile_module
from forge.errors import OptionError
from forge.ir.graph import Graph, Module
from forge.ir.interp import run_module
from forge.ir.nodes import Node, Value
from forge.ir.quantized import is_quantized
from forge.loaders import load
from forge.module import IRModule
from forge.options import CompileOptions
from forge.progress import Progress
from forge.samples import Sample

Run = Callable[[Sample], tuple[list[Any], list[Any]]]
"""Of a sample: the outputs, and the values that were asked for."""

WAYS = ("compiled", "interpreter", "onnxruntime", "torch")


@dataclass(frozen=True, eq=False)
class Side:
    """A model and how it is run.

    Attributes:
        module: as it was loaded; of several functions, ``main`` counts. States are plain inputs and outputs.
        way: one of ``WAYS``.
        options: with which it is compiled.
        source: for a framework: the path of the .onnx or .pt2, or the exported program.
    """

    module: IRModule
    way: str
    options: CompileOptions
    source: Any = None
    name: str = "module"

    @property
    def title(self) -> str:
        level = f" at level {self.options.opt_level}" if self.way == "compiled" else ""
        return f"{self.name}, {self.way}{level}"

    @cached_property
    def plain(self) -> Module:
        return without_states(self.module.mod)

    @property
    def graph(self) -> Graph:
        return self.plain.main

    @property
    def inputs(self) -> list[Value]:
        """Those that a sample gives."""
        return [v for v in self.graph.inputs if v.name not in self.graph.params]

    @property
    def is_quantized(self) -> bool:
        return any(map(is_quantized, self.graph.walk()))

    @cached_property
    def named(self) -> Collection[str] | None:
        """Names of the values that can be asked for; None: all of the graph."""
        if self.way not in ("onnxruntime", "torch"):
            return None
        with _loading(self.way):
            is_onnx = self.way == "onnxruntime"
            return peers.onnx_values(Path(self.source)) if is_onnx else peers.torch_values(_program(self.source))

    @cached_property
    def scales(self) -> Mapping[str, tuple[np.ndarray, np.ndarray]]:
        """Scales and zero points of integers by name, of which only the file knows that they are quantized numbers."""
        is_onnx = isinstance(self.source, Path) and self.source.suffix == ".onnx"
        return peers.onnx_scales(self.source) if is_onnx else {}

    def open(self, values: Sequence[Value], progress: Progress | None = None) -> Run:
        """The model, ready to run.

        Raises:
            OptionError: the package of the framework is not installed, or refuses the model. What `compile_module` raises.
        """
        if self.way == "compiled":
            return _compiled(self.plain, values, self.options, progress)
        if self.way == "interpreter":
            return _interpreted(self.plain, values)
        count = len(self.graph.outputs)
        call = _peer(self.way, self.source, [v.name for v in values], count)
        names = [v.name for v in self.inputs]

        def run(sample: Sample) -> tuple[list[Any], list[Any]]:
            found = call({name: sample[name] for name in names})
            return found[:count], found[count:]

        return run


def side(model: Any, way: str | None = None, options: CompileOptions | None = None) -> Side:
    """Makes a model one of the two that are compared.

    Args:
        model: an `IRModule`, the path of a model, or an exported program of PyTorch.
        way: one of ``WAYS``; None: compiled.
        options: of the compilation; None: the defaults.

    Raises:
        OptionError: no way has this name, or the model cannot be run so. What the loaders raise.
    """
    if isinstance(model, Side):
        return model
    way = "compiled" if way is None else way
    source = Path(model) if isinstance(model, str | PathLike) else model
    name = source.name if isinstance(source, Path) else "module" if isinstance(model, IRModule) else type(model).__name__
    check_way(way, source, name)
    is_module = isinstance(model, IRModule)
    loaded = model if is_module else load(source)
    return Side(loaded, way, options or check_options(), None if is_module else source, name)


def check_way(way: str, source: Any, name: str) -> None:
    """Raises OptionError where ``source`` cannot be run so."""
    if way not in WAYS:
        raise OptionError(f"compare: {name}: no way to run it is called {way!r}; expected one of: {', '.join(WAYS)}")
    suffix = source.suffix if isinstance(source, Path) else None
    if way == "onnxruntime" and suffix != ".onnx":
        raise OptionError(f"compare: {name}: onnxruntime reads ONNX files; got {suffix or 'a module'}; expected an .onnx file")
    if way == "torch" and (isinstance(source, IRModule) or suffix not in (None, ".pt2")):
        raise OptionError(f"compare: {name}: torch reads exported programs; got {suffix or 'a module'}; expected a .pt2 file")


def source_way(source: Any) -> str | None:
    """Returns the way in which the framework that a model comes from runs it; None: it comes from none."""
    suffix = source.suffix if isinstance(source, Path) else ""
    return {".onnx": "onnxruntime", ".pt2": "torch"}.get(suffix)


def without_states(module: Module) -> Module:
    """Returns a copy of ``main`` and of what it calls, whose states and donated inputs are plain ones."""
    copied = module.copy()
    main = copied.main
    copied.graphs = {name: graph for name, graph in copied.graphs.items() if graph is main or name not in copied.public}
    main.states, main.donated = {}, {}
    return copied


def with_outputs(module: Module, values: Sequence[Value]) -> Module:
    """Returns a copy of ``module`` whose ``main`` gives ``values``, which are of its graph, after its outputs."""
    copied = module.copy()
    mapping = dict(zip(module.main.values(), copied.main.values(), strict=True))
    copied.main.outputs.extend(mapping[v] for v in values)
    return copied


def _compiled(module: Module, values: Sequence[Value], options: CompileOptions, progress: Progress | None) -> Run:
    """Outputs come from the model as users compile it, other values from a copy that has them as outputs, too."""
    own = compile_module(module, options, progress=progress).runtime()
    count = len(module.main.outputs)
    other = compile_module(with_outputs(module, values), options, progress=progress).runtime() if values else None
    names = own.input_names

    def run(sample: Sample) -> tuple[list[Any], list[Any]]:
        given = [sample[name] for name in names]
        return list(own.run(given)), [] if other is None else list(other.run(given))[count:]

    return run


def _interpreted(module: Module, values: Sequence[Value]) -> Run:
    def run(sample: Sample) -> tuple[list[Any], list[Any]]:
        found: dict[Value, Any] = {}
        wanted = set(values)

        def observe(node: Node, results: Sequence[Any]) -> None:
            found.update((v, r) for v, r in zip(node.results, results) if v in wanted)

        outputs = run_module(module, sample, observe)
        return outputs, [found[v] for v in values]

    return run


def _program(source: Any) -> Any:
    return peers.torch_program(source) if isinstance(source, Path) else source


def _peer(way: str, source: Any, names: Sequence[str], outputs: int) -> Callable[[peers.Feed], list[Any]]:
    with _loading(way):
        if way == "onnxruntime":
            return peers.onnx_reference(Path(source), names)
        return peers.torch_reference(_program(source), names, outputs)


@contextmanager
def _loading(way: str) -> Iterator[None]:
    """Says which framework is missing, or refuses the model."""
    try:
        yield
    except ImportError as error:
        problem = f"the package {way} is not installed"
        raise OptionError(f"compare: {problem}; pip install {way}, or choose another way to run it") from error
    except peers.load_errors() as error:
        raise OptionError(f"compare: {way} cannot load the model: {type(error).__name__}: {error}") from error
