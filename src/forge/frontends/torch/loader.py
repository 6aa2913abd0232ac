"""What ``forge.from_torch`` takes, as programs."""

from __future__ import annotations

import contextlib
import copy
import inspect
import os
import re
import warnings
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from forge.errors import (
    ForgeError,
    ImportModelError,
    OpAttributeInvalid,
    OpAttributeUnimplemented,
    OpNotImplemented,
    OptionError,
)
from forge.frontends.convert import located
from forge.frontends.support import MISSING, Use
from forge.frontends.torch import input_infos as input_info
from forge.frontends.torch.archive import read_program
from forge.frontends.torch.custom import custom_converters
from forge.frontends.torch.exported import program_of, target_name
from forge.frontends.torch.importer import hidden_views, import_program
from forge.frontends.torch.input_infos import InputInfo
from forge.frontends.torch.lost_writes import loses_writes
from forge.frontends.torch.nesting import deep_enough
from forge.frontends.torch.program import Program, label_weights
from forge.frontends.torch.steps import used_operators
from forge.ir.graph import Module
from forge.optional import warn_if_untested

if TYPE_CHECKING:
    import torch
    from torch.export import ExportedProgram


def load(
    model: Any, input_infos: Any = None, default_dtype: str = "float32", dynamic_shapes: Any = None, where: str = "from_torch"
) -> Program:
    """The program of a ``.pt2`` file, an exported program, a module, a trace or a graph module.

    The arguments are those of ``from_torch``.

    Raises:
        OptionError: an argument of the wrong kind; ImportModelError: the model is none of these, cannot be exported, or has other
        inputs.
    """
    infos: Sequence[InputInfo] | None = None if input_infos is None else input_info.parse(input_infos, where)
    if isinstance(model, str | os.PathLike):
        if dynamic_shapes is not None:
            raise OptionError(f"{where}: dynamic_shapes: got {dynamic_shapes!r}; expected None: a file has its own")
        program = read_program(Path(model))
    else:
        exported, infos = exported_program(model, infos, default_dtype, dynamic_shapes, where)
        program = supported_program(exported, where)
    _rename(program, infos, where)
    return program


def exported_program(
    model: Any, infos: Sequence[InputInfo] | None, default_dtype: str, dynamic_shapes: Any, where: str,
    integer_bias: bool = False,
) -> tuple[ExportedProgram, Sequence[InputInfo] | None]:
    """``model`` as torch exports it, with sizes as ``infos`` say, and its inputs; those of a trace are known without.

    A module with quantized layers is traced before. With ``integer_bias``, their biases are integers, as their weights are.

    Raises:
        OptionError: an argument that does not go with the model; ImportModelError: torch cannot export it.
    """
    import torch

    warn_if_untested("torch", where)
    if isinstance(model, torch.export.ExportedProgram):
        if dynamic_shapes is not None:
            raise OptionError(f"{where}: dynamic_shapes: got {dynamic_shapes!r}; expected None: an ExportedProgram has its own")
        return _unwrapped(model), infos
    if isinstance(model, torch.jit.ScriptFunction):
        raise ImportModelError(f"{where}: got a ScriptFunction; expected a module: trace one that calls the function")
    if not isinstance(model, torch.nn.Module):
        got = model.__name__ if isinstance(model, type) else type(model).__name__
        raise ImportModelError(f"{where}: got {got}; expected a trace, a module, an ExportedProgram, a GraphModule or a path")
    with deep_enough(model, where):
        if infos is not None and not isinstance(infos, input_info.Named) and _has_quantized_layers(model):
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                model = torch.jit.trace(model, input_info.examples(infos, default_dtype), check_trace=False)
        is_trace = isinstance(model, torch.jit.ScriptModule)
        if is_trace:
            from forge.frontends.torch import script

            infos = script.inputs(model, infos, where)
            with located(where):
                model = script.Replayed(model, integer_bias)
            if dynamic_shapes is not None:
                dynamic_shapes = _arranged(model, infos, script.sizes(dynamic_shapes, infos, where))
        if infos is None:
            raise OptionError(f"{where}: input_infos: got None for a module; expected example tensors, or {input_info.EXPECTED}")
        return _unwrapped(_exported(model, infos, default_dtype, dynamic_shapes, where, is_trace)), infos


def _has_quantized_layers(model: torch.nn.Module) -> bool:
    """Whether `torch.ao.quantization.convert` made layers of ``model``, which `torch.export` does not take."""
    import torch

    if isinstance(model, torch.jit.ScriptModule):
        return False
    return any(type(layer).__module__.startswith(_QUANTIZED_LAYERS) for layer in model.modules())


_QUANTIZED_LAYERS = tuple(
    f"torch.{package}{kind}.quantized" for package in ("ao.nn", "nn") for kind in ("", ".intrinsic"))


def _unwrapped(exported: ExportedProgram) -> ExportedProgram:
    """``exported`` with plain tensors in the place of weights that are several tensors in one, as quantized ones are."""
    from torch.utils._python_dispatch import is_traceable_wrapper_subclass

    if not any(map(is_traceable_wrapper_subclass, exported.state_dict.values())):
        return exported
    return run_decompositions(exported, {})


def run_decompositions(exported: ExportedProgram, table: Mapping[Any, Any]) -> ExportedProgram:
    """``exported`` without writes in place, its operators taken apart as ``table`` says.

    Torch refuses programs that write to a tensor that is an attribute of a module but no buffer: for it, they are buffers here.
    """
    from torch.export.graph_signature import InputKind

    from forge.frontends.torch.whole_layers import whole_layers

    plain = copy.copy(exported)
    plain._graph_signature = copy.deepcopy(exported.graph_signature)
    for spec in plain.graph_signature.input_specs:
        if spec.kind is InputKind.CONSTANT_TENSOR:
            spec.kind, spec.persistent = InputKind.BUFFER, False
    with warnings.catch_warnings(), whole_layers():
        warnings.simplefilter("ignore")
        return plain.run_decompositions(dict(table))


def _exported(
    model: torch.nn.Module, infos: Sequence[InputInfo], default_dtype: str, dynamic: Any, where: str, is_trace: bool
) -> ExportedProgram:
    import torch

    from forge.frontends.torch.whole_layers import whole_layers

    arguments = input_info.examples(infos, default_dtype)
    by_name = isinstance(infos, input_info.Named)
    args, kwargs = ((), dict(zip((i.name for i in infos), arguments))) if by_name else (arguments, None)
    is_free = dynamic is None
    bounds: dict[str, dict[str, int]] = {}
    while True:
        shapes = _arranged(model, infos, input_info.dynamic_shapes(infos, bounds)) if is_free else dynamic
        try:
            grad = torch.set_grad_enabled(torch.is_grad_enabled() and not is_trace)
            with warnings.catch_warnings(), grad, whole_layers():
                warnings.simplefilter("ignore")  # a trace may write where autograd forbids it
                return torch.export.export(
                    model, args, kwargs, dynamic_shapes=shapes, strict=False,
                    prefer_deferred_runtime_asserts_over_guards=bool(bounds))
        except ForgeError:
            raise
        except Exception as error:  # the model's own code, which may raise anything, runs here
            if is_free and _learn_bounds(bounds, infos, str(error)):
                continue
            sizes = ", ".join(f"{n or '?'}: {i.shape}" for info in infos for n, i in info.leaves())
            raise ImportModelError(
                f"{where}: torch.export failed for inputs {sizes}; expected a model that it takes: change it, fix the sizes "
                f"that it fixes, or give example tensors and dynamic_shapes; got {type(error).__name__}: {error}"
            ) from error


def _learn_bounds(bounds: dict[str, dict[str, int]], infos: Sequence[InputInfo], message: str) -> bool:
    """Adds to ``bounds`` what torch says of named dimensions that a model bounds; whether anything is new.

    What it says of them besides is then checked in each call.
    """
    if "Constraints violated" not in message:
        return False
    before = copy.deepcopy(bounds)
    for name in input_info.dimension_names(infos):
        bounds.setdefault(name, {})
    for name, text in _SUGGESTED.findall(message):
        if name in bounds:
            bounds[name].update((key, int(value)) for key, value in _BOUND.findall(text))
    return bounds != before


_SUGGESTED = re.compile(r"^\s*(\w+) = Dim\('\1'(.*)\)$", re.MULTILINE)
_BOUND = re.compile(r"(min|max)=(\d+)")


def _arranged(model: torch.nn.Module, infos: Sequence[InputInfo], shapes: tuple[Any, ...]) -> Any:
    """What is said of the sizes of inputs, in order, as torch takes it."""
    if isinstance(infos, input_info.Named):
        return dict(zip((i.name for i in infos), shapes))
    if any(p.kind is p.VAR_POSITIONAL for p in inspect.signature(model.forward).parameters.values()):
        return _for_variadic(model, shapes)
    return shapes


def _for_variadic(model: torch.nn.Module, dynamic: tuple[Any, ...]) -> tuple[Any, ...]:
    """Sizes of ``forward(self, *arguments)``, which torch takes as one tuple after those of the other parameters."""
    kinds = [p.kind for p in inspect.signature(model.forward).parameters.values()]
    first = kinds.index(inspect.Parameter.VAR_POSITIONAL)
    return (*dynamic[:first], tuple(dynamic[first:]))


def supported_program(exported: ExportedProgram, where: str = "from_torch") -> Program:
    """The program; what has no converter is taken apart by torch's own decompositions, as far as it has them.

    Not where these lose writes: then it is refused as it is.

    Raises:
        OpAttributeUnimplemented: it writes to views that operators give without saying so, which torch cannot take apart.
    """
    program = program_of(exported, where)
    missing = {f"{use.domain or 'aten'}.{use.op}" for use in used_operators(program) if use.how == MISSING}
    hidden = hidden_views(program)
    if not missing | hidden:
        return program
    if not loses_writes(exported):
        try:
            return program_of(decomposed(exported, missing | hidden), where)
        except ForgeError:
            raise
        except Exception:  # noqa: BLE001 - torch raises anything; what it cannot take apart is refused as it is
            pass
    if hidden:
        raise OpAttributeUnimplemented(
            f"{where}: {', '.join(sorted(hidden))}: its result may be a view, and is written, or what it is of; supported: what "
            "torch takes apart; clone the result, or export a module that writes nothing there")
    return program


def decomposed(exported: ExportedProgram, targets: set[str]) -> ExportedProgram:
    """``exported`` with the operators called ``targets`` taken apart, and what they consist of that has no converter, too."""
    return run_decompositions(exported, decompositions(targets))


def decompositions(targets: Collection[str]) -> dict[Any, Any]:
    """Torch's decompositions of the operators called ``targets``, and of those that have no converter."""
    import torch
    from torch._decomp import core_aten_decompositions

    from forge.frontends.torch.steps import lookup

    known = {**_of_lists(), **torch.export.default_decompositions(), **core_aten_decompositions()}
    return {op: function for op, function in known.items() if target_name(op) in targets or lookup(target_name(op)) is None}


@cache
def _of_lists() -> dict[Any, Any]:
    """Operators on lists of tensors (``_foreach_add_``) -> the same for each of these."""
    import torch

    names = {name.removeprefix("aten::").partition(".")[0] for name in torch._C._dispatch_get_all_op_names()}
    packets = [getattr(torch.ops.aten, name) for name in sorted(names) if name.startswith("_foreach_")]
    overloads = [getattr(packet, overload) for packet in packets for overload in packet.overloads() if "out" not in overload]
    return {op: partial(_for_each, op) for op in overloads}


def _for_each(operator: Any, *arguments: Any, **options: Any) -> Any:
    import torch

    schema = operator._schema
    name = schema.name.partition("::_foreach_")[2]
    types = {a.name: str(a.type) for a in schema.arguments}
    given = {**dict(zip(types, arguments)), **options}
    lists = [key for key in given if types[key].startswith("List[")]
    with_number = "scalar" in types or "scalars" in types
    name = {"norm": "linalg_vector_norm", **(_CLAMPS if with_number else {})}.get(name, name)
    function = getattr(torch.ops.aten, name)
    results = []
    for k in range(len(given[lists[0]])):
        each = {key: value[k] if key in lists else value for key, value in given.items()}
        by_name = {"alpha": "alpha", "value": "value", "dtype": "dtype", **({"scalars": "value"} if "tensor1" in types else {})}
        positional = [value for key, value in each.items() if key not in by_name]
        named = {by_name[key]: value for key, value in each.items() if key in by_name}
        results.append(function(*positional, **named))
    return results if schema.returns else None


_CLAMPS = {"maximum": "clamp_min", "maximum_": "clamp_min_", "minimum": "clamp_max", "minimum_": "clamp_max_"}


def import_model(
    model: Any,
    input_infos: Any = None,
    custom_convert_map: Mapping[str, Any] | None = None,
    default_dtype: str = "float32",
    use_parser_friendly_name: bool = False,
    *,
    keep_params_as_input: bool = False,
    dynamic_shapes: Any = None,
    otherwise: Otherwise | None = None,
    decompose: bool = True,
    integer_bias: bool = False,
    where: str = "from_torch",
) -> Module:
    """Converts a PyTorch model; everything is as of ``IRModule.from_torch``.

    ``otherwise`` makes the module of an exported program that cannot be converted, of its inputs and of the error. Without
    ``decompose``, what has no converter is refused. ``integer_bias`` is as of `exported_program`.
    """
    with custom_converters(custom_convert_map, where):
        if isinstance(model, str | os.PathLike):
            program = load(model, input_infos, default_dtype, dynamic_shapes, where)
            try:
                return _converted(program, use_parser_friendly_name, keep_params_as_input)
            except OpNotImplemented as error:
                if type(error) is not OpNotImplemented:
                    raise
                raise OpNotImplemented(f"{error}; or save exported.run_decompositions(), which has fewer operators") from error
        infos = None if input_infos is None else input_info.parse(input_infos, where)
        exported, infos_ = exported_program(model, infos, default_dtype, dynamic_shapes, where, integer_bias)
        try:
            program = supported_program(exported, where) if decompose else program_of(exported, where)
        except UNCONVERTED as error:
            if otherwise is None:
                raise
            return otherwise(exported, infos_, error)
        _rename(program, infos_, where)
        try:
            return _converted(program, use_parser_friendly_name, keep_params_as_input)
        except UNCONVERTED as error:
            parts = _without(exported, error, where) if decompose else None
            if parts is not None:
                _rename(parts, infos_, where)
                with contextlib.suppress(*UNCONVERTED):
                    return _converted(parts, use_parser_friendly_name, keep_params_as_input)
            if otherwise is None:
                raise
            return otherwise(exported, infos_, error)


def _without(exported: ExportedProgram, error: ForgeError, where: str) -> Program | None:
    """The program with the operator taken apart whose converter refused it; None where torch has no decomposition of it.

    Nor of programs that write in place: torch removes the writes on the way, and takes some aliases for copies (``type_as``).
    """
    operator = error.operator if isinstance(error, OpAttributeUnimplemented) else ""
    if not operator or _writes(exported):
        return None
    try:
        program = program_of(decomposed(exported, {operator}), where)
    except Exception:  # noqa: BLE001 - torch raises anything; the first error says what is the matter
        return None
    return program if all(step.target != operator for step in program.steps) else None


def _writes(exported: ExportedProgram) -> bool:
    """Whether an operator of the program, or of a part of it, writes to its arguments."""
    graphs = [module.graph for module in exported.graph_module.modules() if hasattr(module, "graph")]
    schemas = [getattr(node.target, "_schema", None) for graph in graphs for node in graph.nodes]
    return any(schema.is_mutable for schema in schemas if schema is not None)


UNCONVERTED = (ImportModelError, OpNotImplemented, OpAttributeInvalid)
"""Errors of models, not of arguments."""

Otherwise = Callable[["ExportedProgram", Sequence[InputInfo] | None, ForgeError], Module]


def _converted(program: Program, plain_names: bool, keep_params_as_input: bool) -> Module:
    if plain_names:
        label_weights(program, lambda label: label.replace(".", "_"))
    return import_program(program, keep_params_as_input)


def _rename(program: Program, infos: Sequence[InputInfo] | None, where: str) -> None:
    if infos is not None:
        input_info.rename(program, infos, where)


def model_operators(path: Path) -> list[Use]:
    """The operators that a file uses, and what loads each."""
    return used_operators(load(path))
