"""Quantized models as TensorRT takes them: codes of int8 without zero points, biases real; and the scales of their tensors."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from forge.errors import OptionError
from forge.ir.builder import Builder
from forge.ir.edits.dead_code import remove_dead
from forge.ir.graph import Graph, Module
from forge.ir.nodes import Value
from forge.ir.quantized import is_quantized
from forge.ops.quantized.quantize import Dequantize, Quantize
from forge.quantization.chosen.scheme import QuantizationScheme
from forge.quantization.places.layers import layers_of, sites_of, sources
from forge.quantization.places.pairing import constant_of
from forge.quantization.quantize import codes_by_value, statistics_of


def real_biases(graph: Graph) -> int:
    """Replaces ``qnn.dequantize`` of constants of int32, which TensorRT does not read, by the real numbers. In place."""
    found = [d for node in graph if (d := Dequantize.of(node)) is not None and d.data.dtype == "int32"]
    wide = [(bias, array) for bias in found if (array := constant_of(bias.result)) is not None]
    for bias, array in wide:
        builder = Builder(graph, bias.node, bias.node.location)
        constant = builder.constant(np.asarray(array, np.float32), name=bias.data.name)
        for user, position in list(bias.result.uses):
            user.set_operand(position, constant)
    remove_dead(graph)
    return len(wide)


def check_symmetric(graph: Graph) -> None:
    """Raises OptionError unless all conversions are to or from int8, with zero points of 0."""
    for node in graph.walk():
        if not is_quantized(node):
            continue
        conversion = Quantize.of(node) or Dequantize.of(node)
        if conversion is None:
            problem = "computes with integers itself; expected quantize and dequantize around operators in float"
            raise OptionError(f"is_tensorrt: {node.label}: {problem}; quantize the float model")
        codes = conversion.result if isinstance(conversion, Quantize) else conversion.data
        zero = conversion.zero_point
        if codes.dtype != "int8" or (zero is not None and (zero.constant is None or zero.constant.any())):
            got = f"got quantized values of {codes.dtype}{'' if zero is None else ' with a zero point'}"
            raise OptionError(f"is_tensorrt: {node.label}: {got}; expected int8 and zero points of 0; quantize the float model")


def scales_in(graph: Graph) -> dict[Value, float]:
    """Returns the scales of the values that a quantized graph rounds, and of those that moving and selecting makes of them."""
    rounded = [q for node in graph if (q := Quantize.of(node)) is not None and q.scale.constant is not None]
    return _moved(graph, {q.data: float(q.scale.constant) for q in rounded if q.scale.constant is not None and q.scale.rank == 0})


def scales_of(module: Module, method: str) -> dict[Value, float]:
    """Returns the scales that statistics give values of ``main`` as int8 without zero point; ``params`` are constants."""
    scheme = QuantizationScheme(activation_dtype="int8", calib_method=method, symmetric=True)
    codes = codes_by_value(scheme, statistics_of(module), sites_of(layers_of(module.main)))
    return _moved(module.main, {value: found.scale for value, found in codes.items()})


def _moved(graph: Graph, scales: Mapping[Value, float]) -> dict[Value, float]:
    found = dict(scales)
    for value in (v for node in graph.nodes if node.op != "constant" for v in node.results):
        origins = {scales.get(source) for source in sources(value)}
        if value not in found and len(origins) == 1 and (scale := origins.pop()) is not None:
            found[value] = scale
    return found
