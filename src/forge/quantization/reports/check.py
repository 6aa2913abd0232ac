"""What a quantized model loses, and what would help, said at once."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from forge import errors
from forge.ir.graph import Module
from forge.ir.quantized import is_quantized
from forge.quantization.chosen.scheme import written
from forge.quantization.quantize import QuantizedModule, quantize
from forge.quantization.reports.analysis import Analysis, analyse, is_near


class QuantizationWarning(UserWarning):
    """Quantization has changed the outputs of a model more than is usual."""


SAMPLES = 8
"""Samples of the calibration that are compared."""
SHOWN = 3
"""Layers that a warning names."""


def warn_of_losses(module: Module, found: QuantizedModule) -> Analysis | None:
    """Compares a quantized module with ``module``, which it was made of; None: there are no samples."""
    samples = module.calibration.samples[:SAMPLES]
    if not samples:
        return None
    outputs = analyse(module, found.module, samples, found.options, layers=False)
    if is_near(outputs.sqnr, outputs.agreement):
        return outputs
    whole = analyse(found.real, found.module, samples, found.options)
    worst = sorted(whole.layers, key=lambda layer: layer.alone)[:SHOWN]
    names = ", ".join(f"{layer.label} ({layer.alone:.0f} dB alone)" for layer in worst)
    parts = [f"quantize: the outputs are {_text(outputs)}; the layers that lose most: {names}", *_advice(module, found, outputs)]
    parts.append("quantize_with_accuracy keeps layers in float, quantization_report shows all")
    errors.warn("; ".join(parts), QuantizationWarning)
    return outputs


def warn_of_nothing(found: QuantizedModule) -> bool:
    """Warns where no layer was quantized; returns whether it did."""
    if any(is_quantized(node) for node in found.module.main.walk()):
        return False
    errors.warn(f"quantize: {nothing_text(found.left)}", QuantizationWarning)
    return True


def nothing_text(left: Mapping[str, str]) -> str:
    """Returns what is said of a model without quantized layers, whose reasons ``left`` has by label."""
    if not left:
        return "no layer was quantized: the model has no convolution, matrix product or recurrent layer of float32 with weights"
    shown = [f"{label}: {reason}" for label, reason in left.items()]
    more = [f"and {len(shown) - SHOWN} more"] if len(shown) > SHOWN else []
    return f"no layer was quantized, the model is as it was: {'; '.join([*shown[:SHOWN], *more])}"


def _text(found: Analysis) -> str:
    agreement = "" if found.agreement is None else f", {found.agreement:.1%} of the largest elements at the same place"
    return f"{found.sqnr or 0.0:.1f} dB from those in float{agreement}"


def _advice(module: Module, quantized: QuantizedModule, outputs: Analysis) -> list[str]:
    """Says what a scale for each channel would give, if it has not been asked for."""
    if quantized.scheme.per_channel:
        return []
    other = quantize(module, replace(quantized.scheme, per_channel=True), quantized.options)
    found = analyse(module, other.module, module.calibration.samples[:SAMPLES], quantized.options, layers=False)
    return [f"with {written('per_channel', True)} they are {_text(found)}"] if (found.sqnr or 0) > (outputs.sqnr or 0) + 1 else []
