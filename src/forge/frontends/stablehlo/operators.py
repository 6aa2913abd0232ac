"""Which operations a module has, and which of them can be loaded."""

from __future__ import annotations

from forge.frontends.stablehlo.importer import TERMINATORS
from forge.frontends.stablehlo.module import Block, Operation, StablehloModule, Symbol
from forge.frontends.stablehlo.registry import REGISTRY, key
from forge.frontends.support import CONVERTER, FUNCTION, MISSING, Use


def public_functions(module: StablehloModule) -> list[str]:
    """Names of the functions that users call: public ones, but for those that custom calls name as their bodies."""
    bodies = {name for operation in module.operations() for name in bodies_of(operation)} - {"main"}
    return [name for name, function in module.functions.items() if function.is_public and name not in bodies]


def bodies_of(operation: Operation) -> list[str]:
    """Names of the functions that a custom call names as its bodies."""
    given = operation.attributes.get("called_computations")
    return [entry.name for entry in given if isinstance(entry, Symbol)] if isinstance(given, list | tuple) else []


def used_operators(module: StablehloModule) -> dict[tuple[str, str], Use]:
    """Operators of the public functions and of those that they need, in order of first use."""
    found: dict[tuple[str, str], Use] = {}
    reached = public_functions(module)
    for name in reached:  # grows
        function = module.functions.get(name)
        for operation in _operations(function.body) if function is not None else ():
            use = _use(operation)
            found.setdefault((use.domain, use.op), use).count += 1
            called = operation.attributes.get("decomposition" if use.how == FUNCTION else "callee")
            names = [*([called.name] if isinstance(called, Symbol) else []), *bodies_of(operation)]
            reached += [name for name in dict.fromkeys(names) if name not in reached]
    return found


def _operations(block: Block) -> list[Operation]:
    """Those of a block and of its regions."""
    found, pending = [], list(reversed(block.operations))
    while pending:
        operation = pending.pop()
        if operation.name not in TERMINATORS:
            found.append(operation)
        pending += [inner for region in reversed(operation.regions) for inner in reversed(region.operations)]
    return found


def _use(operation: Operation) -> Use:
    domain, op = key(operation)
    otherwise = FUNCTION if "decomposition" in operation.attributes else MISSING
    how = otherwise if REGISTRY.lookup(domain, op, 1) is None else CONVERTER
    return Use(domain, op, 0, how, operation.location or operation.name)
