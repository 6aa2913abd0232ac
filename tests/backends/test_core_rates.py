"""Rates of a core: what is measured is of the size of what is assumed, and what is far off is said."""

from __future__ import annotations

from forge.backends.core_rates import Rate, measure
from forge.target import Target
from forge.target.blocking import group_size


def test_rates_are_measured() -> None:
    target = Target.parse("llvm")
    rates = {rate.name: rate for rate in measure(target)}
    products = rates["multiply-adds of float32"].measured
    assert products is not None and 0.2 < products < 8
    assert (rates["dot products of bytes"].measured is None) == (target.isa.dot("uint8", "int8") is None)
    cache, memory = (rates[name].measured for name in ("from the last cache", "from memory"))
    assert cache is not None and memory is not None and 0 < memory < 200 and 0 < cache < 500


def test_what_is_far_off_is_said() -> None:
    assert Rate("loads", "vectors", 2.0, 3.1).is_off and Rate("loads", "vectors", 2.0, 1.2).is_off
    assert not Rate("loads", "vectors", 2.0, 1.5).is_off and not Rate("loads", "vectors", 2.0, None).is_off


def test_pairs_of_bfloat16_are_packed_where_that_is_faster() -> None:
    sizes = {"znver4": 2, "znver5": 2, "sapphirerapids": 2, "sapphirerapids -mattr=-amx-bf16": 1,
             "sapphirerapids -mattr=-amx-bf16 -mtune=znver5": 2, "haswell": 1}
    assert {cpu: group_size(Target.parse(f"llvm -mcpu={cpu}"), "bfloat16", "bfloat16") for cpu in sizes} == sizes
