"""``from_torch``: its arguments, and the way through ONNX where a model cannot be converted."""

from __future__ import annotations

import contextlib
import io
import re
import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from forge import errors
from forge.errors import ForgeError, ImportModelError, OptionError
from forge.frontends.torch import input_infos as input_info
from forge.frontends.torch.exported import output_labels, symbol_names
from forge.frontends.torch.input_infos import InputInfo
from forge.frontends.torch.loader import exported_program, import_model, run_decompositions
from forge.frontends.torch.lost_writes import loses_writes
from forge.ir.graph import Module

if TYPE_CHECKING:
    from torch.export import ExportedProgram

_COLOURS = re.compile(r"\x1b\[[0-9;]*m")
"""Of terminals, in messages of torch's exporter."""


def from_torch(
    model: Any,
    input_infos: Any,
    custom_convert_map: Mapping[str, Callable[..., Any]] | None,
    default_type: str,
    use_parser_friendly_name: bool,
    keep_quantized_weight: bool,
    *,
    default_dtype: str | None,
    dynamic_shapes: Any,
    through_onnx: bool | None,
) -> Module:
    """The module of a model; arguments and errors are those of ``IRModule.from_torch``."""
    flags = {"use_parser_friendly_name": use_parser_friendly_name, "keep_quantized_weight": keep_quantized_weight}
    for name, flag in flags.items():
        if not isinstance(flag, bool):
            raise OptionError(f"from_torch: {name}: got {flag!r}; expected True or False")
    if through_onnx not in (None, True, False):
        raise OptionError(f"from_torch: through_onnx: got {through_onnx!r}; expected None, True or False")
    if default_dtype is not None and default_type not in ("float32", default_dtype):
        raise OptionError(f"from_torch: got default_type={default_type!r}, default_dtype={default_dtype!r}; expected one of them")
    dtype = input_info.element_type(default_dtype or default_type, "from_torch: default_type")
    if through_onnx and custom_convert_map:
        raise OptionError("from_torch: got through_onnx=True and custom_convert_map; expected one: the map is of PyTorch's")

    def otherwise(exported: ExportedProgram, infos: Sequence[InputInfo] | None, error: ForgeError) -> Module:
        reason = " ".join(str(error).split())
        try:
            module = import_through_onnx(exported, infos, use_parser_friendly_name)
        except Exception as second:
            text = " ".join(_COLOURS.sub("", str(second)).split())[:500]
            raise type(error)(f"{error}; the way through ONNX failed, too: {type(second).__name__}: {text}") from second
        errors.warn(f"the model was loaded through ONNX; the reason: {reason}; through_onnx=False forbids it")
        return module

    if through_onnx:
        where = "from_torch"
        infos = None if input_infos is None else input_info.parse(input_infos, where)
        program = exported_program(model, infos, dtype, dynamic_shapes, where, keep_quantized_weight)
        return import_through_onnx(*program, use_parser_friendly_name)
    return import_model(
        model, input_infos, custom_convert_map, dtype, use_parser_friendly_name, dynamic_shapes=dynamic_shapes,
        otherwise=None if through_onnx is False or custom_convert_map else otherwise, integer_bias=keep_quantized_weight)


def import_through_onnx(exported: ExportedProgram, infos: Sequence[InputInfo] | None, plain_names: bool) -> Module:
    """The module of what torch exports to ONNX.

    Raises:
        ImportModelError: the model writes to its buffers or inputs, which the ONNX model would not, or in a way that torch's
        exporter may lose. What that raises.
    """
    import torch

    from forge.frontends.onnx.importer import import_model as import_onnx

    if loses_writes(exported):
        raise ImportModelError(
            "the model reads a tensor after a write to another that shares its memory, which torch's exporter may copy; "
            "expected one that writes to no result of type_as, atleast_1d or dropout and reads what it was made of")
    shapes = _shapes(exported, infos)
    exported = run_decompositions(exported, {})  # shows what is written in place
    signature = exported.graph_signature
    changed = [*signature.buffers_to_mutate.values(), *signature.user_inputs_to_mutate.values()]
    if changed:
        raise ImportModelError(f"the model writes to {changed[0]}; expected one that does not: in ONNX, that would be lost")
    names = [name for info in infos or () for name, _ in info.leaves()]
    labels = output_labels(exported)
    with warnings.catch_warnings(), contextlib.redirect_stdout(io.StringIO()):
        warnings.simplefilter("ignore")
        program = torch.onnx.export(
            exported, dynamo=True, verbose=False, input_names=names if names and all(names) else None,
            output_names=labels if len(labels) == len(signature.user_outputs) else None)
    assert program is not None
    known = {value.name for value in program.model_proto.graph.input}
    module = import_onnx(program.model_proto, shape={name: shape for name, shape in shapes.items() if name in known})
    if plain_names:
        for graph in module.graphs.values():
            for value in [v for node in graph for v in node.results if v.constant is not None]:
                value.name = value.name.replace(".", "_")
    return module


def _shapes(exported: ExportedProgram, infos: Sequence[InputInfo] | None) -> dict[str, list[str | int | None]]:
    """Shapes of the inputs with the users' names of dimensions, which ONNX models that torch makes lack."""
    symbols = symbol_names(exported)
    tensors = {n.name: n.meta.get("val") for n in exported.graph.nodes if n.op == "placeholder"}
    found = {}
    leaves = [leaf for info in infos or () for leaf in info.leaves()]
    for k, name in enumerate(exported.graph_signature.user_inputs):
        shape = [symbols.get(str(d)) if not isinstance(d, int) else d for d in getattr(tensors.get(str(name)), "shape", ())]
        label = leaves[k][0] if k < len(leaves) and leaves[k][0] else str(name)
        for axis, size in enumerate((leaves[k][1].shape or ()) if k < len(leaves) else ()):
            shape[axis] = size if isinstance(size, str) else shape[axis]
        found[label] = shape
    return found
