"""Loads modules: reads them, checks that all operations are known, and converts their functions."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from forge import dims, ops  # noqa: F401
from forge.dims import Dim
from forge.errors import ImportModelError, OptionError, option
from forge.frontends.convert import finished, located
from forge.frontends.inputs import DimensionNames, ShapeDict, add_inputs, check_names
from forge.frontends.stablehlo import converters, symbols
from forge.frontends.stablehlo.importer import convert_operations, converted_body
from forge.frontends.stablehlo.module import Function, Operation, TensorType, TokenType, TupleType, Type
from forge.frontends.stablehlo.module import Value as ModuleValue
from forge.frontends.stablehlo.names import argument_names, result_names, unique
from forge.frontends.stablehlo.operators import public_functions, used_operators
from forge.frontends.stablehlo.registry import REGISTRY
from forge.frontends.stablehlo.scope import StablehloScope, StablehloState, Structure, leaves
from forge.frontends.stablehlo.sources import Source
from forge.frontends.support import check_supported
from forge.ir import types
from forge.ir.builder import Builder
from forge.ir.graph import Graph, Module
from forge.ir.nodes import Value

InputInfo = Mapping[str, Sequence[Any]] | Sequence[Any] | None


def import_module(given: Source, input_info: InputInfo = None) -> Module:
    """The module of the graph IR that a module of StableHLO means.

    Args:
        input_info: sizes and element types of the inputs of the main function: see `from_stablehlo`.

    Raises:
        ImportModelError: it is not valid; OpNotImplemented: it has operations without a converter, all listed.
    """
    source = given.module
    with located(given.where):
        converters.load_all()
        public = {name: source.functions[name] for name in public_functions(source)}
        if not public:
            raise ImportModelError("no function is public; expected one, as a rule @main")
        check_supported(used_operators(source).values(), REGISTRY)
        size = sum(1 for _ in source.operations())
        main = "main" if "main" in public else next(iter(public))
        module = _convert(given, public.pop(main), size, input_info)
        for name, function in public.items():
            module.graphs[name] = _convert(Source(source, given.where), function, size, None).main
            module.graphs[name].attributes["public"] = True
        return module


def _convert(source: Source, function: Function, size: int, input_info: InputInfo) -> Module:
    """A module whose main graph is ``function``."""
    main = Graph(name="main")
    state = StablehloState(size=size, source=source.module, convert_operations=convert_operations, main=main)
    scope = StablehloScope(main, state, {"": 1})
    platform = _platform(scope, function, source.platforms)
    formals = function.body.arguments[len(platform):]
    names = argument_names(function, len(platform), source)
    tensors, build = _flattened(names, [a.type for a in formals])
    shape = _shapes(input_info, tensors)
    _add_inputs(scope, function, formals, tensors, shape)
    values = {name: scope.required(name) for name, _ in tensors}
    arguments = [*platform, *(make(values) for make in build)]
    results = converted_body(scope, function.body, arguments, f"function @{function.name}")
    flat = leaves(results)
    main.outputs = [*flat, *state.outfed]
    called = [*result_names(function, len(flat)), *(f"outfeed_{k}" for k in range(len(state.outfed)))]
    module = finished(scope, unique(called, set(values)))
    module.main.donated = _donated(module.main, function.argument_attributes[len(platform):], names)
    return module


def _donated(main: Graph, attributes: Sequence[Mapping[str, Any]], names: Sequence[str]) -> dict[str, int]:
    """Inputs whose memory an output takes, which jax calls donated, and the numbers of these outputs."""
    inputs = {value.name: value for value in main.inputs}
    found: dict[str, int] = {}
    for name, given in zip(names, attributes):
        number = given.get("tf.aliasing_output")
        if not isinstance(number, int) or not 0 <= number < len(main.outputs) or number in found.values() or name not in inputs:
            continue
        if inputs[name].type == main.outputs[number].type:
            found[name] = number
    return found


def _flattened(
    names: Sequence[str], declared: Sequence[Type]
) -> tuple[list[tuple[str, TensorType]], list[Callable[[Mapping[str, Value]], Structure]]]:
    """Tensors among the arguments, those of tuples one by one; and what makes each argument of them."""
    tensors: list[tuple[str, TensorType]] = []

    def add(name: str, type_: Type) -> Callable[[Mapping[str, Value]], Structure]:
        match type_:
            case TensorType():
                tensors.append((name, type_))
                return lambda values: values[name]
            case TupleType(elements=elements):
                parts = [add(f"{name}_{k}", element) for k, element in enumerate(elements)]
                return lambda values: tuple(make(values) for make in parts)
            case TokenType():
                return lambda _: None
        raise ImportModelError(f"argument {name!r}: got {type_}; expected a tensor, a tuple or a token")

    return tensors, [add(name, type_) for name, type_ in zip(names, declared, strict=True)]


def _platform(scope: StablehloScope, function: Function, platforms: Sequence[str]) -> list[Structure]:
    """The first argument, which says that this is a CPU, of a function that jax exported for several platforms.

    Raises:
        ImportModelError: it was exported for others only.
    """
    attributes = function.argument_attributes[0] if function.argument_attributes else {}
    if not platforms or attributes.get("jax.global_constant") != "_platform_index":
        return []
    if "cpu" not in platforms:
        raise ImportModelError(f"it was exported for {', '.join(platforms)}; expected cpu among the platforms; export it again")
    return [Builder(scope.graph).constant(platforms.index("cpu"), "int32")]


def _add_inputs(
    scope: StablehloScope, function: Function, formals: Sequence[ModuleValue], tensors: Sequence[tuple[str, TensorType]],
    shape: ShapeDict,
) -> None:
    labels = DimensionNames()
    unknown = {
        (name, axis): labels.unknown(f"{name}_dim{axis}")
        for name, type_ in tensors for axis, size in enumerate(type_.shape) if size is None}

    def typed(meaning: Mapping[str, Dim]) -> list[tuple[str, types.Type]]:
        return [
            (name, types.TensorType(tuple(
                dims.substitute(unknown[name, axis], meaning) if size is None else size
                for axis, size in enumerate(type_.shape)), type_.dtype))
            for name, type_ in tensors]

    meaning: Mapping[str, Dim] = {}
    if unknown and all(isinstance(a.type, TensorType) for a in formals):
        raw = typed({})

        def evaluate(operations: Sequence[Operation]) -> Callable[[ModuleValue], Value | None]:
            graph = Graph()
            state = StablehloState(source=scope.state.source, convert_operations=convert_operations, main=graph)
            scratch = StablehloScope(graph, state, {})
            for formal, (name, type_) in zip(formals, raw):
                scratch.put(formal, scratch.graph.add_input(type_, name))
            return _converted_sizes(scratch, operations)

        meaning = symbols.relations(function, scope.state.source.functions, evaluate)
    named = typed(meaning)
    used = DimensionNames(dims.symbols(*(size for _, t in named if isinstance(t, types.TensorType) for size in t.shape)))
    check_names([name for name, _ in named], shape, {})
    add_inputs(scope, named, used, shape)


def _converted_sizes(scope: StablehloScope, operations: Sequence[Operation]) -> Callable[[ModuleValue], Value | None]:
    """Converts those of ``operations`` whose operands are known, and finds what became of values."""
    for operation in operations:
        if all(scope.knows(scope.state.name(operand)) for operand in operation.operands):
            convert_operations(scope, [operation])

    def find(value: ModuleValue) -> Value | None:
        name = scope.state.name(value)
        return scope.lookup(name) if scope.knows(name) else None

    return find


def _shapes(input_info: InputInfo, tensors: Sequence[tuple[str, TensorType]]) -> ShapeDict:
    """What the user says of sizes, by names of inputs.

    Raises:
        OptionError: it is of another kind, or contradicts the module.
    """
    if input_info is None:
        return {}
    where = f"from_stablehlo: {option('input_info')}"
    if isinstance(input_info, Mapping):
        return dict(input_info)
    if isinstance(input_info, str) or not isinstance(input_info, Sequence) or len(input_info) != len(tensors):
        raise OptionError(f"{where}: got {input_info!r}; expected (shape, dtype) for each of {len(tensors)} inputs")
    shapes: dict[str, Sequence[Any]] = {}
    for (name, type_), entry in zip(tensors, input_info):
        if not isinstance(entry, Sequence) or len(entry) != 2 or not isinstance(entry[0], Sequence):
            raise OptionError(f"{where}: got {entry!r} for {name!r}; expected (shape, dtype)")
        if str(entry[1]) != type_.dtype:
            raise OptionError(f"{where}: got {entry[1]} for {name!r}; the module declares {type_.dtype}")
        shapes[name] = entry[0]
    return shapes
