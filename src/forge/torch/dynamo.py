"""Dynamo's graphs in the calling forms of Relax: a backend with a pipeline of the user, and graphs as functions of a module."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch.fx import GraphModule, Node

from forge.driver import check_options
from forge.errors import ImportModelError, OptionError
from forge.frontends.torch.captured import Result, captured_program
from forge.frontends.torch.exported import value_name
from forge.frontends.torch.importer import import_program
from forge.module import IRModule, join
from forge.torch.backend import compiled
from forge.torch.compiled import Settings, given_of
from forge.torch.tracing import trace

Pipeline = Callable[[IRModule], IRModule]


def relax_dynamo(pipeline: Pipeline | None = None) -> Callable[[GraphModule, Sequence[Any]], Callable[..., Any]]:
    """A backend for ``torch.compile(model, backend=relax_dynamo(pipeline))``; without a pipeline it is ``backend="forge"``.

    Args:
        pipeline: applied to the module of each graph before it is compiled; it returns the module to compile.

    Raises:
        OptionError: ``pipeline`` cannot be called.
    """
    if pipeline is not None and not callable(pipeline):
        raise OptionError(f"relax_dynamo: pipeline: got {pipeline!r}; expected a function from IRModule to IRModule, or None")
    settings = Settings(check_options(), "relax_dynamo", pipeline)
    return lambda module, examples: compiled(module, examples, settings)


def dynamo_capture_subgraphs(
    model: Callable[..., Any], *params: Any, keep_params_as_input: bool = False, **kwargs: Any
) -> IRModule:
    """The graphs that Dynamo captures while ``model`` runs, as functions ``subgraph_0`` and so on of one module.

    Args:
        model: a module or function of PyTorch.
        params, kwargs: what it is called with.
        keep_params_as_input: parameters stay inputs, after the other ones; ``detach_params`` gives their values.

    Raises:
        OptionError: ``keep_params_as_input`` is not a bool; ImportModelError: Dynamo captures nothing; OpNotImplemented:
        operators have no converter, all listed.
    """
    if not isinstance(keep_params_as_input, bool):
        raise OptionError(f"dynamo_capture_subgraphs: keep_params_as_input: got {keep_params_as_input!r}; expected True or False")
    found: dict[str, IRModule] = {}

    def capture(module: GraphModule, examples: Sequence[Any]) -> Callable[..., Any]:
        name = f"subgraph_{len(found)}"
        traced, own, _ = trace(module, examples)
        found[name] = _module_of(traced, given_of(module, examples, own), name, keep_params_as_input)
        return module.forward  # type: ignore[no-any-return]

    with torch.no_grad():
        torch.compile(model, backend=capture)(*params, **kwargs)
    if not found:
        raise ImportModelError(
            "dynamo_capture_subgraphs: Dynamo captured no graph; expected a model that computes with tensors; where it was "
            "captured several times before, call torch.compiler.reset()")
    return join(found)


def _module_of(module: GraphModule, given: Sequence[Any], name: str, keep_params: bool) -> IRModule:
    (output,) = (node for node in module.graph.nodes if node.op == "output")
    nodes = [node for node in output.args[0] if isinstance(node, Node)]
    results = [Result(value_name(node)) for node in nodes if isinstance(node.meta.get("val"), torch.Tensor)]
    program = captured_program(module, given, results, name, stored=False).program
    return IRModule(
        import_program(program, keep_params), fold_constants=not keep_params, fold_batch_norms=not keep_params)
