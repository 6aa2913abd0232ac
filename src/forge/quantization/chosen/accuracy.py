"""As many layers as a limit of accuracy allows are quantized."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from forge.driver import compile_module
from forge.errors import OptionError
from forge.ir.graph import Module
from forge.options import CompileOptions
from forge.quantization.chosen.scheme import QuantizationScheme
from forge.quantization.chosen.sensitivity import ranked, sensitivity
from forge.quantization.places.products import products
from forge.quantization.quantize import QuantizedModule, quantize

SECONDS = 60.0
"""For ranking layers, at most: on one sample at least."""
REASON = "the accuracy would fall too much"

Validate = Callable[[Callable[..., object]], float]


@dataclass(frozen=True)
class Trial:
    """A validation: labels of the layers that were kept in float, and the metric."""

    kept: tuple[str, ...]
    metric: float


@dataclass(frozen=True)
class AccuracyResult:
    """The result of `IRModule.quantize_with_accuracy`.

    Attributes:
        real: the metric of the model in float.
        quantized: that of the result.
        kept: labels of the layers that stay in float.
        trials: all validations, in order.
    """

    real: float
    quantized: float
    kept: tuple[str, ...]
    trials: tuple[Trial, ...]


def quantize_with_accuracy(
    module: Module, scheme: QuantizationScheme, options: CompileOptions, validate: Validate, max_drop: float
) -> tuple[QuantizedModule, AccuracyResult]:
    """Keeps the most sensitive layers in float, as few as `validate` asks for.

    Layers are ranked on samples of the calibration, without labels; then the shortest list of exclusions is looked for by
    halves, so that there are some ten validations, of however many layers.

    Raises:
        OptionError: there are no samples, or ``validate`` gives no number.
    """
    if not module.calibration.samples:
        raise OptionError("quantize_with_accuracy: got no samples to rank layers on; calibrate first, or give calib_data")
    real = _metric(validate, module, options)
    trials: list[Trial] = []
    tried: dict[int, QuantizedModule] = {}

    def fits(order: list[int], count: int) -> bool:
        known = tried[0].weights if tried else None
        tried[count] = quantize(module, scheme, options, dict.fromkeys(order[:count], REASON), known)
        labels = tuple(products(module.main)[k].label for k in order[:count])
        trials.append(Trial(labels, _metric(validate, tried[count].module, options)))
        return real - trials[-1].metric <= max_drop

    count = 0
    if not fits([], 0):
        first = tried[0]
        found = sensitivity(first.real, first.module, module.calibration.samples, options, SECONDS)
        count = _fewest(ranked(found.layers), fits)
    kept = next(t for t, k in zip(reversed(trials), reversed(tried)) if k == count)
    return tried[count], AccuracyResult(real, kept.metric, kept.kept, tuple(trials))


def _fewest(order: list[int], fits: Callable[[list[int], int], bool]) -> int:
    """Finds the least number of layers that must be left out, by doubling and then by halves."""
    low, high = 0, 1
    while high < len(order) and not fits(order, high):
        low, high = high, 2 * high
    if high >= len(order):
        high = len(order)
        fits(order, high)
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if fits(order, middle) else (middle, high)
    return high


def _metric(validate: Validate, module: Module, options: CompileOptions) -> float:
    found = validate(compile_module(module, options).runtime())
    try:
        return float(found)
    except (TypeError, ValueError) as error:
        raise OptionError(f"quantize_with_accuracy: validate: gave {found!r}; expected a number, larger if better") from error
