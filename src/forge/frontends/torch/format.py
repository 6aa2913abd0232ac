"""The format of PyTorch's programs, and its loader."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from forge.frontends.formats import Format, Magic

if TYPE_CHECKING:
    from forge.frontends.support import Support
    from forge.ir.graph import Module


def from_torch(
    script_module: Any,
    input_infos: Any = None,
    custom_convert_map: Mapping[str, Callable[..., Any]] | None = None,
    default_type: str = "float32",
    use_parser_friendly_name: bool = False,
    keep_quantized_weight: bool = False,
    *,
    default_dtype: str | None = None,
    dynamic_shapes: Any = None,
    through_onnx: bool | None = None,
) -> Module:
    """Loads a PyTorch model.

    Args:
        script_module: a trace (``torch.jit.trace``) or another ScriptModule, an ``nn.Module``, an ``ExportedProgram``, a
            ``torch.fx.GraphModule``, or the path of a ``.pt2`` file.
        input_infos: the inputs in order: ``(name, shape)``, ``(name, (shape, dtype))`` or ``(name, tensor)``; tuples of these
            stand for tuples of tensors, ``x_0`` and so on. The names are those of the module's inputs. Texts in shapes are
            dynamic dimensions, equal ones equal sizes; None is one without a name. A module may also be given example
            tensors only, or a dictionary by the names of its arguments. None: as the trace or the exported program says.
        custom_convert_map: converters of the user, which win over Forge's: ``{"aten::relu": f(inputs, input_types)}`` for
            all overloads of an operator, ``{"relu.default": f(node, importer)}`` for one. They give expressions.
        default_type: the element type of inputs of which nothing says one; ``default_dtype`` is the same.
        use_parser_friendly_name: names of weights have ``_`` in the place of ``.``.
        keep_quantized_weight: weights that torch has quantized stay integers in any case: float32 copies would be larger, and
            be rounded to the same integers later. With True, biases of layers whose operand has a known scale are int32, in
            steps of the product of the scales of operand and weight; else they are float32.
        dynamic_shapes: as of ``torch.export.export``, for a module with example tensors or a trace.
        through_onnx: what cannot be converted is exported to ONNX by torch, and loaded from there, with a warning; False:
            never; True: at once.

    Raises:
        OptionError: an argument of the wrong kind; ImportModelError: torch cannot export the model, or it contradicts an
        argument; OpNotImplemented: it uses operators without a converter, all listed, and the way through ONNX failed or
        is switched off; ConverterError: a converter of the user failed.
    """
    from forge.frontends.torch.entry import from_torch as load

    return load(
        script_module, input_infos, custom_convert_map, default_type, use_parser_friendly_name, keep_quantized_weight,
        default_dtype=default_dtype, dynamic_shapes=dynamic_shapes, through_onnx=through_onnx)


def _support() -> Support:
    from forge.frontends.support import Support
    from forge.frontends.torch.coverage import coverage
    from forge.frontends.torch.loader import model_operators
    from forge.frontends.torch.registry import REGISTRY

    return Support(REGISTRY, coverage, model_operators)


FORMAT = Format(
    name="torch", title="PyTorch", suffixes=(".pt2",), load=from_torch, support=_support,
    objects=("torch.nn:Module", "torch.export:ExportedProgram"),  # traces and captured graphs are modules, too
    magic=(Magic(entries=(b"archive_format", b"models/")),))
