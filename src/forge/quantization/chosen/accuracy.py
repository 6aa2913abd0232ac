"""As many layers as a limit of accuracy allows are quantized."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from forge.driver import check_options, compile_module
from forge.errors import OptionError
from forge.ir.graph import Module
from forge.quantization.chosen.scheme import Scheme
from forge.quantization.chosen.sensitivity import sensitivity
from forge.quantization.places.products import products
from forge.quantization.quantize import Quantized, quantize

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
class Accuracy:
    """What `IRModule.quantize_with_accuracy` found.

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


def quantize_with_accuracy(module: Module, scheme: Scheme, validate: Validate, max_drop: float) -> tuple[Quantized, Accuracy]:
    """Keeps the most sensitive layers in float, as few as `validate` asks for.

    Layers are ranked on samples of the calibration, without labels; then the shortest list of exclusions is looked for by
    halves, so that there are some ten validations, of however many layers.

    Raises:
        OptionError: there are no samples, or ``validate`` gives no number.
    """
    if not module.calibration.samples:
        raise OptionError("quantize_with_accuracy: got no samples to rank layers on; calibrate first, or give calib_data")
    real = _metric(validate, module)
    trials: list[Trial] = []
    tried: dict[int, Quantized] = {}

    def fits(ranked: list[int], count: int) -> bool:
        known = tried[0].weights if tried else None
        tried[count] = quantize(module, scheme, dict.fromkeys(ranked[:count], REASON), known)
        labels = tuple(products(module.main)[k].label for k in ranked[:count])
        trials.append(Trial(labels, _metric(validate, tried[count].module)))
        return real - trials[-1].metric <= max_drop

    count = 0
    if not fits([], 0):
        first = tried[0]
        found = sensitivity(first.real, first.module, module.calibration.samples, SECONDS)
        known = sorted(found.layers, key=lambda x: -(x.without if x.without is not None else float("-inf")))
        count = _fewest([layer.number for layer in known], fits)
    kept = next(t for t, k in zip(reversed(trials), reversed(tried)) if k == count)
    return tried[count], Accuracy(real, kept.metric, kept.kept, tuple(trials))


def _fewest(ranked: list[int], fits: Callable[[list[int], int], bool]) -> int:
    """How many of the layers must be left out: by doubling, then by halves."""
    low, high = 0, 1
    while high < len(ranked) and not fits(ranked, high):
        low, high = high, 2 * high
    if high >= len(ranked):
        high = len(ranked)
        fits(ranked, high)
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if fits(ranked, middle) else (middle, high)
    return high


def _metric(validate: Validate, module: Module) -> float:
    found = validate(compile_module(module, check_options()).runtime())
    try:
        return float(found)
    except (TypeError, ValueError) as error:
        raise OptionError(f"quantize_with_accuracy: validate: gave {found!r}; expected a number, larger if better") from error
