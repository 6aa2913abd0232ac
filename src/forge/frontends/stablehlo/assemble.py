"""Of operations as files nest them, the module: its functions, and what is said of it."""

from __future__ import annotations

from typing import Any

from forge.errors import ImportModelError
from forge.frontends.stablehlo.module import Block, Function, FunctionType, Operation, StablehloModule

_NAMES = ("sym_name", "sym_visibility")


def module_of(operations: list[Operation], where: str, version: tuple[int, int, int] | None = None) -> StablehloModule:
    """The module of the operations that a file has at its top: one module, or its functions alone.

    Raises:
        ImportModelError: there are others, or what they say does not fit.
    """
    module = StablehloModule(version=version)
    modules = sum(operation.name == "builtin.module" for operation in operations)
    if modules > 1:
        raise ImportModelError(f"{where}: has {modules} modules; expected one: split the file where they end")
    if len(operations) == 1 and operations[0].name == "builtin.module":
        (outer,) = operations
        module.attributes = {name: value for name, value in outer.attributes.items() if name not in _NAMES}
        module.name = str(outer.attributes.get("sym_name", ""))
        operations = [inner for block in outer.regions for inner in block.operations]
    for operation in operations:
        if operation.name == "func.func":
            function = _function(operation, where)
            if function.name in module.functions:
                raise ImportModelError(f"{where}: function @{function.name} is defined twice; expected names that differ")
            module.functions[function.name] = function
        elif "sym_name" in operation.attributes and not operation.regions and not operation.results:
            rest = {name: value for name, value in operation.attributes.items() if name != "sym_name"}
            module.attributes[f"@{operation.attributes['sym_name']}"] = next(iter(rest.values())) if len(rest) == 1 else rest
        else:
            raise ImportModelError(
                f"{where}: {operation.name} is between the functions of the module; expected functions (func.func) there")
    if not module.functions:
        raise ImportModelError(f"{where}: has no functions; expected a module with one at least")
    return module


def _function(operation: Operation, where: str) -> Function:
    given = operation.attributes
    name, signature, visibility = given.get("sym_name"), given.get("function_type"), given.get("sym_visibility", "public")
    if not isinstance(name, str) or not isinstance(signature, FunctionType) or len(operation.regions) != 1:
        raise ImportModelError(f"{where}: a function has no name, type or body; expected attributes sym_name and function_type")
    body = operation.regions[0]
    if body.operations and [argument.type for argument in body.arguments] != list(signature.inputs):
        raise ImportModelError(
            f"{where}: function @{name}: its body takes {len(body.arguments)} arguments of other types than its signature says")
    returned = [value.type for value in body.results]
    if body.operations and body.operations[-1].name == "func.return" and returned != list(signature.results):
        raise ImportModelError(
            f"{where}: function @{name}: its body returns {len(returned)} results of other types than its signature says")
    is_public = isinstance(visibility, str) and visibility in ("public", "")
    return Function(
        name, body if body.operations else Block(), tuple(signature.results), is_public,
        _each(given.get("arg_attrs"), len(signature.inputs), f"{where}: function @{name}"),
        _each(given.get("res_attrs"), len(signature.results), f"{where}: function @{name}"), operation.location)


def _each(given: Any, count: int, where: str) -> list[dict[str, Any]]:
    if given is None or isinstance(given, list) and not given:
        return [{} for _ in range(count)]
    if not isinstance(given, list) or len(given) != count or not all(isinstance(entry, dict) for entry in given):
        raise ImportModelError(f"{where}: attributes of arguments or results do not fit the type; expected {count} dictionaries")
    return given
