"""What importers share around their converters: located errors, and the module that comes out."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from forge.errors import ForgeError, ImportModelError, TypeInferenceError
from forge.frontends.prune import prune
from forge.frontends.scope import Scope
from forge.ir.builder import Builder
from forge.ir.graph import Graph, Module

_MODEL_FAULTS = (ValueError, TypeError, LookupError, ArithmeticError, AttributeError)


@contextmanager
def located(where: object) -> Iterator[None]:
    """Puts ``where``, as text, in front of messages of errors that arise inside; faults of the model become ImportModelError.

    Places that are the same one inside the other, as where functions call each other without end, are said once.
    """
    try:
        yield
    except ForgeError as error:
        kind = ImportModelError if isinstance(error, TypeInferenceError) else type(error)
        place, message = f"{where}: ", str(error)
        found = kind(message if message.startswith(place) else place + message)
        vars(found).update(vars(error))
        raise found from error
    except MemoryError as error:
        raise ImportModelError(f"{where}: needs more memory than there is; expected a smaller model; {error}") from error
    except RecursionError as error:
        raise ImportModelError(f"{where}: graphs, functions or expressions are nested too deeply; simplify the model") from error
    except _MODEL_FAULTS as error:
        raise ImportModelError(
            f"{where}: operands or attributes do not fit the operator; got {type(error).__name__}: {error}; expected what its "
            "specification says; check the model, or export it again"
        ) from error


def finished(scope: Scope[Any], outputs: Sequence[str]) -> Module:
    """The module whose main graph is that of ``scope``, with the values called ``outputs`` as results."""
    graph = scope.graph
    _name_outputs(graph, outputs)
    prune(graph)
    results = {id(v) for v in graph.outputs}
    used = {n: v for n, v in scope.parameters.items() if v.uses or id(v) in results}
    parameters = {id(v) for v in scope.parameters.values()}
    names = [name for name in scope.weights if name in used]
    graph.inputs = [*(v for v in graph.inputs if id(v) not in parameters), *(used[name] for name in names)]
    return Module(graph, {name: scope.state.params[name] for name in names})


def _name_outputs(graph: Graph, names: Sequence[str]) -> None:
    """Gives each output its own value with the model's name; inputs and repeated values are copied."""
    seen: set[int] = set()
    for position, name in enumerate(names):
        value = graph.outputs[position]
        if value.producer is None or id(value) in seen or value.constant is not None and value.name != name:
            value = Builder(graph).call("copy", value)
            graph.outputs[position] = value
        value.name = name
        seen.add(id(value))
