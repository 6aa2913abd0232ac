"""Which operations a module has, and which of them can be loaded."""

from __future__ import annotations

from forge.frontends.stablehlo.importer import TERMINATORS
from forge.frontends.stablehlo.module import Block, Operation, StablehloModule, Symbol
from forge.frontends.stablehlo.registry import REGISTRY, key
from forge.frontends.support import CONVERTER, FUNCTION, MISSING, Use


def public_functions(module: StablehloModule) -> list[str]:
    """Names of the functions that users call: public ones, but for those that custom calls name as their bodies."""
    bodies = {
        reference.name for operation in module.operations() for reference in _references(operation.attributes.get("called_computations"))}
    return [name for name, function in module.functions.items() if function.is_public and (name == "main" or name not in bodies)]


def _references(given: object) -> list[Symbol]:
    return [entry for entry in given if isinstance(entry, Symbol)] if isinstance(given, list | tuple) else []


def used_operators(module: StablehloModule) -> dict[tuple[str, str], Use]:
    """Operators of the public functions and of those that they need, in order of first use."""
    found: dict[tuple[str, str], Use] = {}
    reached = public_functions(module)
    for name in reached:  # grows
        function = module.functions.get(name)
        for operation in _operations(function.body) if function is not None else ():
            use = _use(operation)
            found.setdefault((use.domain, use.op), use).count += 1
            called = operation.attributes.get("callee", operation.attributes.get("decomposition") if use.how == FUNCTION else None)
            if isinstance(called, Symbol) and called.name not in reached:
                reached.append(called.name)
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
    how = CONVERTER if REGISTRY.lookup(domain, op, 1) is not None else FUNCTION if "decomposition" in operation.attributes else MISSING
    return Use(domain, op, 0, how, operation.location or operation.name)
