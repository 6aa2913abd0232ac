"""As few layers in float as a limit of accuracy asks for."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from forge.errors import OptionError
from forge.quantization.chosen import accuracy
from forge.quantization.chosen.scheme import QuantizationScheme
from tests.quantization.nets import OPTIONS, samples, small_net


@pytest.mark.parametrize("needed", range(1, 11))
def test_the_shortest_list_is_found_by_halves(needed: int) -> None:
    tried: list[int] = []

    def fits(order: list[int], count: int) -> bool:
        tried.append(count)
        return count >= needed

    assert accuracy._fewest(list(range(10)), fits) == needed
    assert len(tried) <= 7 and len(set(tried)) == len(tried)


@pytest.mark.parametrize(("metrics", "kept"), [([0.9, 0.895], 0), ([0.9, 0.5, 0.895], 1), ([0.9, 0.5, 0.6, 0.7, 0.9], 3)])
def test_layers_are_kept_until_the_metric_is_near(metrics: list[float], kept: int) -> None:
    """Metrics are those of the real model, the quantized one, and as one, two and all layers stay real."""
    ir, given = small_net(), iter(metrics)
    ir.calibrate(samples())

    def validate(run: Callable[..., Any]) -> float:
        run(samples()[0])
        return next(given)

    made, found = accuracy.quantize_with_accuracy(ir.mod, QuantizationScheme(), OPTIONS, validate, 0.01)
    assert found.real == metrics[0] and found.quantized == metrics[-1] and len(found.kept) == kept
    assert [t.metric for t in found.trials] == metrics[1:] and not list(given)
    assert [label for label, reason in made.left.items() if reason == accuracy.REASON] == sorted(found.kept)


def test_metrics_are_numbers_and_samples_are_needed() -> None:
    ir = small_net()
    with pytest.raises(OptionError, match="got no samples to rank layers on"):
        accuracy.quantize_with_accuracy(ir.mod, QuantizationScheme(), OPTIONS, lambda run: 1.0, 0.01)
    ir.calibrate(samples())
    with pytest.raises(OptionError, match="validate: gave 'good'; expected a number"):
        accuracy.quantize_with_accuracy(ir.mod, QuantizationScheme(), OPTIONS, lambda run: "good", 0.01)  # type: ignore[arg-type, return-value]
