"""Loaders in the calling forms of Relax's frontends."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from os import PathLike
from types import ModuleType
from typing import TYPE_CHECKING, Any

from forge.errors import OptionError, spelled
from forge.ir.graph import Module
from forge.module import IRModule
from forge.nd import NDArray, viewed

if TYPE_CHECKING:
    import onnx
    from torch.export import ExportedProgram
    from torch.fx import GraphModule

_SPELLING = {"shape": "shape_dict", "shape=": "shape_dict=", "dtype": "dtype_dict", "dtype=": "dtype_dict="}


def from_onnx(
    model: str | PathLike[str] | bytes | onnx.ModelProto,
    shape_dict: Mapping[str, Sequence[Any]] | None = None,
    dtype_dict: str | Mapping[str, str] | None = "float32",
    opset: int | None = None,
    keep_params_in_input: bool = False,
    sanitize_input_names: bool = True,
) -> IRModule:
    """Loads an ONNX model as `forge.from_onnx` does, whose ``shape`` and ``dtype`` are ``shape_dict`` and ``dtype_dict``.

    Args:
        keep_params_in_input: weights stay inputs of ``main``, after its own; their values are ``IRModule.params``.
        sanitize_input_names: names of inputs become identifiers: other characters become ``_``, and one that does not begin with
            a letter gets ``input_`` before it. ``shape_dict`` and ``dtype_dict`` go by the model's own names.
    """
    from forge.frontends.onnx.importer import from_onnx as load

    with spelled(_SPELLING):
        module = load(model, shape_dict, dtype_dict, opset, keep_params_in_input, sanitize_input_names)
    return IRModule(module, fold_constants=not keep_params_in_input, fold_batch_norms=not keep_params_in_input)


def from_exported_program(
    exported_program: ExportedProgram,
    *,
    keep_params_as_input: bool = False,
    unwrap_unit_return_tuple: bool = False,
    no_bind_return_tuple: bool = False,
    custom_convert_map: Mapping[str, Callable[..., Any]] | None = None,
    run_ep_decomposition: bool = True,
) -> IRModule:
    """Loads an ``ExportedProgram`` as `forge.from_torch` does, never through ONNX.

    Args:
        keep_params_as_input: parameters stay inputs of ``main``, after its own; their values are ``IRModule.params``. Buffers and
            constants are part of the graph.
        unwrap_unit_return_tuple, no_bind_return_tuple: of no effect: results are a flat list, a single one is not a tuple.
        custom_convert_map: as of `forge.from_torch`.
        run_ep_decomposition: torch decomposes what has no converter; with a ``custom_convert_map``, whose names are those of
            decomposed programs, the whole program. False: nothing is decomposed.

    Raises:
        OptionError: an argument of the wrong kind; ImportModelError, OpNotImplemented, ConverterError: as of `forge.from_torch`.
    """
    import torch

    where = "from_exported_program"
    flags = {
        "keep_params_as_input": keep_params_as_input, "unwrap_unit_return_tuple": unwrap_unit_return_tuple,
        "no_bind_return_tuple": no_bind_return_tuple, "run_ep_decomposition": run_ep_decomposition,
    }  # fmt: skip
    _check_flags(where, flags)
    if not isinstance(exported_program, torch.export.ExportedProgram):
        got = type(exported_program).__name__
        raise OptionError(f"{where}: got {got}; expected an ExportedProgram, which torch.export.export gives")
    if run_ep_decomposition and custom_convert_map:
        exported_program = exported_program.run_decompositions()
    return _from_torch(exported_program, None, custom_convert_map, keep_params_as_input, where, run_ep_decomposition)


def from_fx(
    model: GraphModule | Any,
    input_info: Sequence[Any],
    *,
    keep_params_as_input: bool = False,
    unwrap_unit_return_tuple: bool = False,
    no_bind_return_tuple: bool = False,
    custom_convert_map: Mapping[str, Callable[..., Any]] | None = None,
    default_image_layout: str = "NCHW",
) -> IRModule:
    """Loads a ``torch.fx.GraphModule`` as `forge.from_torch` does, never through ONNX: ``torch.export`` exports it.

    Args:
        model: it, or what ``torch._dynamo.export(module, *arguments)`` gives.
        input_info: ``(shape, dtype)`` of each input; they are called ``inp_0`` and so on. Texts in shapes are dynamic
            dimensions.
        keep_params_as_input: parameters stay inputs of ``main``, after its own; their values are ``IRModule.params``.
        unwrap_unit_return_tuple, no_bind_return_tuple: of no effect: results are a flat list, a single one is not a tuple.
        custom_convert_map: as of `forge.from_torch`: names are those of the exported program (``relu.default``, or ``relu`` for
            all overloads), not of modules.
        default_image_layout: only "NCHW", which is PyTorch's.

    Raises:
        OptionError: an argument of the wrong kind; ImportModelError, OpNotImplemented, ConverterError: as of `forge.from_torch`.
    """
    import torch

    where = "from_fx"
    model = getattr(model, "graph_module", model)  # of what torch._dynamo.export(...) gives
    flags = {
        "keep_params_as_input": keep_params_as_input, "unwrap_unit_return_tuple": unwrap_unit_return_tuple,
        "no_bind_return_tuple": no_bind_return_tuple,
    }  # fmt: skip
    _check_flags(where, flags)
    if not isinstance(model, torch.fx.GraphModule):
        got = type(model).__name__
        raise OptionError(f"{where}: got {got}; expected a GraphModule, which torch.fx.symbolic_trace gives")
    if default_image_layout != "NCHW":
        raise OptionError(f"{where}: default_image_layout: got {default_image_layout!r}; expected 'NCHW'; transpose the inputs")
    if isinstance(input_info, str | Mapping) or not isinstance(input_info, Sequence):
        raise OptionError(f"{where}: input_info: got {type(input_info).__name__}; expected a list of (shape, dtype)")
    infos = [(f"inp_{k}", info) for k, info in enumerate(input_info)]
    return _from_torch(model, infos, custom_convert_map, keep_params_as_input, where)


def _check_flags(where: str, flags: Mapping[str, Any]) -> None:
    for name, flag in flags.items():
        if not isinstance(flag, bool):
            raise OptionError(f"{where}: {name}: got {flag!r}; expected True or False")


def _from_torch(
    model: Any, infos: Any, custom: Mapping[str, Callable[..., Any]] | None, keep_params: bool, where: str, decompose: bool = True
) -> IRModule:
    from forge.frontends.torch.loader import import_model

    module = import_model(model, infos, custom, keep_params_as_input=keep_params, decompose=decompose, where=where)
    return IRModule(module, fold_constants=not keep_params, fold_batch_norms=not keep_params)


def detach_params(mod: IRModule | Module) -> tuple[IRModule, dict[str, list[NDArray]]]:
    """A copy of ``mod`` in which no input has a value, and the values, in the order of the inputs, by name of the function.

    Raises:
        InvalidGraphError: ``mod`` is not a module.
    """
    detached = IRModule(mod, fold_constants=False, fold_batch_norms=False)
    values = {name: [viewed(array) for array in detached.mod.attributes(name).get("params", ())] for name in detached.functions}
    for graph in detached.mod.public.values():
        graph.params = {}
    return detached, {name: arrays for name, arrays in values.items() if arrays}


def __getattr__(name: str) -> ModuleType:
    if name not in ("frontend", "transform"):
        raise AttributeError(f"module 'forge.relax' has no attribute {name!r}")
    return import_module(f"forge.relax.{name}")


__all__ = ["detach_params", "from_exported_program", "from_fx", "from_onnx"]
