"""From a module to machine code."""

from __future__ import annotations

import logging
from contextlib import ExitStack

from forge import backend
from forge.backends.compiled import CompiledModel
from forge.driver import artifact, cache
from forge.driver.compilation import Compilation
from forge.driver.pass_context import check_options
from forge.driver.pipeline import GRAPH_STAGES, LINK, Observer, run_stages
from forge.ir.graph import Graph, Module
from forge.ir.verifier import verify
from forge.options import CompileOptions, OutputOptions
from forge.progress import Progress

_log = logging.getLogger(__name__)


def compile_module(
    module: Module,
    options: CompileOptions | None = None,
    *,
    output: OutputOptions | None = None,
    name: str = "main",
    observer: Observer | None = None,
    progress: Progress | None = None,
    use_cache: bool = True,
    profile: bool = False,
    quick: bool = False,
) -> CompiledModel:
    """Compiles ``main`` of ``module``, which is not changed. Equal modules with equal options come from the compile cache.

    Args:
        options: as `check_options` makes them; None: what it makes of nothing.
        output: write the artifact there.
        observer: sees the compilation after every stage (and turns the cache off).
        progress: called with phase, number done, number in all.
        profile: the code notes when each of its kernels ended, in one more output (and turns the cache off).
        quick: for code that runs a few times: LLVM optimizes as little as it can. Results are the same.

    Raises:
        InvalidGraphError: the module breaks a rule of the IR; CompileError: an operator has no native code; OutputExistsError,
        ToolchainError: the artifact cannot be written.
    """
    verify(module)
    told = progress or (lambda *step: None)
    compilation = Compilation(module, options or check_options(), name, None, profile, quick, told)
    if compilation.external.functions:  # what is wrong with them is said before anything is written
        _log.info("compile: links functions of the user's: %s", ", ".join(compilation.external.functions))
    with ExitStack() as opened:
        draft = compilation.draft = None if output is None else opened.enter_context(artifact.draft(output))
        _compile(compilation, observer, use_cache and observer is None and not profile)
        if draft is not None:
            run_stages(compilation, [LINK], observer=observer)
    return compilation.compiled


def _compile(compilation: Compilation, observer: Observer | None, use_cache: bool) -> None:
    """All but linking, or the cache in its place."""
    keeps = backend.of(compilation.options.target).keeps_models
    if not (use_cache and keeps and cache.serves(compilation.module)):
        _run(compilation, observer)
        return
    options, identity = compilation.options, compilation.identity
    key = cache.key(
        compilation.module, options, compilation.name, identity.fingerprint, compilation.quick, compilation.external)
    known = cache.load(key, options.target, identity.arrays)
    if known is not None:
        known.external = compilation.external
        _log.info("compile: from the cache, entry %s", key)
        compilation.compiled = known
    else:
        _run(compilation, observer)
        if compilation.draft is not None:
            compilation.draft.wait()  # which computes the digest of the weights, for those who find the entry
        cache.store(key, compilation.compiled, identity.arrays)


def _run(compilation: Compilation, observer: Observer | None) -> None:
    stages = (*GRAPH_STAGES, *backend.of(compilation.options.target).stages)
    run_stages(compilation, stages, observer=observer)
    _log.info("compile: %s", ", ".join(f"{phase} {seconds:.2f} s" for phase, seconds in compilation.seconds.items()))


def optimized_graph(
    module: Module, options: CompileOptions, stop_after: str | None = None, observer: Observer | None = None
) -> Graph:
    """``main`` after the graph stages, up to and including ``stop_after``; ``module`` is not changed.

    Raises:
        OptionError: ``stop_after`` names no stage; InvalidGraphError: ``params`` do not fit.
    """
    compilation = Compilation(module, options)
    run_stages(compilation, GRAPH_STAGES, stop_after, observer)
    return compilation.graph
