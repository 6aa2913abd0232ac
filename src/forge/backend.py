"""The boundary of a backend: what makes something that runs out of optimized graphs, for one kind of target.

The graph, its passes and the driver know a `Backend` only. It answers what its kernels want to read (`Layouts`), which passes
ask, builds the loops of operators (`KernelFamilies`), and brings the stages of the compiler that come after those of the graph.
The backends that come with Forge are registered by the package ``forge.backends``; others call `register`.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping, Sequence, Set
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from forge.errors import TargetError
from forge.target import Target, kinds

if TYPE_CHECKING:
    from forge.backends.compiled import CompiledModel
    from forge.driver.compilation import Compilation
    from forge.loops.contract import KernelCall, KernelFamily, Variant
    from forge.options import CompileOptions
    from forge.target.precision import Contraction
    from forge.tir.stmt import Function
    from forge_runtime import Runtime


@dataclass(frozen=True)
class Convolution3x3:
    """A 3x3 convolution of stride 1: what the choice of its algorithm depends on. ``height`` and ``width`` are the result's.

    Of volumes, input channels are those of all ``slices`` under an image. ``dilation`` is that of rows and columns.
    """

    dtype: str
    images: int
    in_channels: int
    out_channels: int
    height: int
    width: int
    slices: int = 1
    dilation: tuple[int, int] = (1, 1)


@dataclass(frozen=True)
class DirectConvolution:
    """A convolution of images in one group, of a result of ``height`` and ``width``."""

    images: int
    in_channels: int
    out_channels: int
    height: int
    width: int
    kernel: tuple[int, int]
    strides: tuple[int, int]
    dilation: tuple[int, int]


class Layouts(Protocol):
    """Layouts and packed forms of weights that the kernels for one target read best."""

    def channel_block(self, dtype: str = "float32") -> int:
        """Channels in the inner block of a blocked activation."""

    def group_size(self, data: str, weight: str, tiles: bool = True) -> int:
        """How many neighbours along the depth lie together in weights of this dtype, for data of that one; 1: none do.

        ``tiles``: False for what tile registers do not take: a single row, and convolutions of volumes.
        """

    def filled_group(self, dtype: str) -> int:
        """Of what number channels that are fewer than a block become a multiple, by zeros."""

    def dense_panel(self, dtype: str, units: int, rows: int = 0, depth: int = 0) -> int:
        """Columns of one panel of a matrix product's weights; 0 rows: not known."""

    def multiplies_parts(self, units: int, rows: int, depth: int, parts: int) -> bool | None:
        """Whether a float32 product is faster with each operand split into ``parts`` bfloat16 numbers; 0 rows: not known.

        None where nothing multiplies these quickly.
        """

    def convolves_parts(self, convolution: DirectConvolution, parts: int) -> bool | None:
        """As `multiplies_parts`, of the products of a convolution."""

    def blocks_panel(self, units: int) -> int:
        """Columns of one panel of weights of few bits."""

    def recurrent_panel(self, hidden: int) -> int:
        """Columns of one panel of a recurrent layer's weights."""

    def recurrent_steps(self, hidden: int, group: int) -> int:
        """Groups of numbers of a column of such a panel, whose last ones may be zeros."""

    def recurrent_group(self, dtype: str, hidden: int, dynamic: bool) -> int:
        """Neighbours along the depth of a recurrent layer's codes that lie together; 1: they are multiplied as real numbers."""

    def permutes_tables(self) -> bool:
        """Whether codes of 4 bits become numbers of a table in registers."""

    def winograd_tile(self, convolution: Convolution3x3) -> int:
        """The m of the fastest F(m x m, 3x3); 0 where the direct sum is faster."""

    def speedup(self, sums: Contraction, dtype: str, between: bool, window: Convolution3x3 | None) -> float:
        """The estimated time of sums of products in float32 over that in float16 or bfloat16.

        ``between``: data are in ``dtype`` already, and so are results where they are read. ``window``: the convolution that the
        sums are, where it may be computed with fewer multiplications.
        """


@dataclass(frozen=True)
class KernelFamilies:
    """What builds the loops of operators.

    Attributes:
        builders: kernel families, by the names that operators give.
        variants: of families some of whose calls share code: those for which this gives a variant.
        complex_numbers: families that work on complex numbers too.
        schedule: the loops of an operator without a family, from its tensor expressions.
        update: the same for an operator that writes a part of an operand.
    """

    builders: Mapping[str, KernelFamily]
    variants: Mapping[str, Callable[[KernelCall], Variant | None]]
    complex_numbers: Set[str]
    schedule: Callable[..., Function]
    update: Callable[..., Function]


@dataclass(frozen=True)
class Stage:
    """One step of the compiler.

    Attributes:
        level: the ``opt_level`` from which it runs.
        phase: to which its time is counted.
        text: what dumps show after it.
        otherwise: what runs in its place where it is off.
        when: options that turn it off where this is false.
        asks_layouts: it prepares the graph for a backend's kernels, and is off where there are none.
    """

    name: str
    level: int
    run: Callable[[Compilation], object]
    purpose: str
    phase: str = "graph"
    text: Callable[[Compilation], str] = lambda compilation: ""
    otherwise: Callable[[Compilation], object] = lambda compilation: None
    when: Callable[[CompileOptions], bool] = lambda options: True
    asks_layouts: bool = False

    def is_on(self, options: CompileOptions) -> bool:
        if self.name in options.disabled_pass or not self.when(options):
            return False
        if self.asks_layouts and of(options.target).layouts is None:
            return False
        return options.opt_level >= self.level or self.name in options.required_pass


@dataclass(frozen=True)
class Backend:
    """What turns optimized graphs into something that runs.

    Attributes:
        name: as messages call it.
        kind: of the targets that it serves: the first word of their text.
        stages: of the compiler, after those of the graph. Together they set ``Compilation.compiled``.
        call: a compiled model in this process, ready to be called; the number is of threads (None: all).
        layouts: what its kernels read, for a target; None: graphs keep the layouts of their operators.
        families: what builds loops; None: stages make none.
        emit: functions of loops as the text that its code generator reads.
        link: writes a compiled model to a library, with room inside for weights, whose bytes the number is; the last argument is
            a folder for intermediate files. None: models cannot be saved.
        check: raises where it is known before the work begins that `link` will fail for a target.
        keeps_models: whether compiled models may come from the compile cache.
    """

    name: str
    kind: str
    stages: tuple[Stage, ...]
    call: Callable[[CompiledModel, int | None], Runtime]
    layouts: Callable[[Target], Layouts] | None = None
    families: KernelFamilies | None = None
    emit: Callable[[Sequence[Function], Target], str] | None = None
    link: Callable[[Path, CompiledModel, int, Path], None] | None = None
    check: Callable[[Target], object] = lambda target: None
    keeps_models: bool = False


_BACKENDS: dict[str, Backend] = {}


def register(backend: Backend) -> Backend:
    """Makes targets of the backend's kind known.

    Raises:
        ValueError: another backend serves that kind.
    """
    if backend.kind in _BACKENDS:
        raise ValueError(f"backend {backend.name}: kind {backend.kind!r} is that of {_BACKENDS[backend.kind].name} already")
    _BACKENDS[backend.kind] = backend
    kinds.KINDS.add(backend.kind)
    return backend


def of(target: Target) -> Backend:
    """The backend that serves ``target``.

    Raises:
        TargetError: there is none.
    """
    if target.kind not in _BACKENDS:
        importlib.import_module("forge.backends")
    found = _BACKENDS.get(target.kind)
    if found is None:
        raise TargetError(f"target {target}: no backend for kind {target.kind!r}; expected one of {', '.join(_BACKENDS)}")
    return found


def layouts(target: Target) -> Layouts:
    """What the kernels for ``target`` read.

    Raises:
        TargetError: its backend has none.
    """
    backend = of(target)
    if backend.layouts is None:
        raise TargetError(f"target {target}: backend {backend.name} has no layouts of its own; expected one that has")
    return backend.layouts(target)


def families(target: Target) -> KernelFamilies:
    """What builds loops for ``target``.

    Raises:
        TargetError: its backend builds none.
    """
    backend = of(target)
    if backend.families is None:
        raise TargetError(f"target {target}: backend {backend.name} has no kernels; expected one that has")
    return backend.families
