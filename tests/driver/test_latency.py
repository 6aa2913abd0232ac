"""Interleaved timing."""

from __future__ import annotations

import time

from forge.driver.latency import Latencies, measure


def test_quantiles_interpolate() -> None:
    latencies = Latencies((4.0, 1.0, 3.0, 2.0))
    assert latencies.minimum == 1.0
    assert latencies.median == 2.5
    assert latencies.quantile(1.0) == 4.0
    assert Latencies((7.0,)).median == 7.0


def test_calls_take_turns_and_the_first_changes() -> None:
    order: list[str] = []

    def call(name: str) -> None:
        order.append(name)
        time.sleep(3e-3)

    taken = measure({"a": lambda: call("a"), "b": lambda: call("b")}, rounds=2)
    warm_up = ["a", "a", "b", "b"]
    first_round, second_round = ["a", "a", "b", "b"], ["b", "b", "a", "a"]
    assert order == [*warm_up, *first_round, *second_round]
    assert all(len(latencies.samples) == 2 for latencies in taken.values())


def test_short_calls_are_repeated_within_a_sample() -> None:
    count = 0

    def call() -> None:
        nonlocal count
        count += 1

    taken = measure({"fast": call}, rounds=1)
    assert count > 100
    assert taken["fast"].median < 1e-4


def test_a_slower_call_measures_slower() -> None:
    taken = measure({"slow": lambda: time.sleep(6e-3), "fast": lambda: time.sleep(2e-3)}, rounds=3)
    assert taken["slow"].minimum >= 6e-3
    assert taken["slow"].minimum > taken["fast"].minimum
