"""Profiles: what is counted, and that the clock changes no result."""

from __future__ import annotations

import dataclasses
from html.parser import HTMLParser

import numpy as np
import pytest

from forge import dims
from forge.cli.profile_page import page
from forge.driver import compile_module, peaks
from forge.driver.profiler import Profile, ProfileRow, of_copy, profile_module, rate
from forge.ir.builder import Builder
from forge.ir.graph import Module
from forge.ir.types import TensorType
from forge.lowering.times import TIMES
from forge.target import Target


def network() -> Module:
    """dense -> relu -> sum, of as many rows as are given."""
    b = Builder()
    x = b.input(TensorType((dims.symbol("rows"), 20), "float32"), "x")
    weight = b.constant(np.linspace(-1, 1, 600, dtype=np.float32).reshape(30, 20))
    total = b.call("sum", b.call("nn.relu", b.call("nn.dense", x, weight, name="<layer>")), axis=(1,))
    total.name = "y"
    return Module(b.output(total))


@pytest.fixture(scope="module")
def found() -> Profile:
    return profile_module(network(), {"x": np.ones((8, 20), np.float32)}, rounds=3)


def test_arithmetic_and_traffic_of_the_sizes_in_this_run(found: Profile) -> None:
    dense, total = found.rows
    assert dense.operators[0] == "dense_pack" and "relu" in dense.operators and total.operators == ("sum",)
    assert dense.flops == 2 * 8 * 20 * 30 + 8 * 30
    assert total.bytes == 4 * (8 * 30 + 8)
    assert dense.nodes[0] == "<layer>" and dense.shapes.startswith("8x20, ") and dense.shapes.endswith(" -> 8x30")


def test_rows_bear_the_names_of_layers_and_have_shapes(found: Profile) -> None:
    assert [row.layer for row in found.rows] == ["<layer>", ""]
    x = TensorType((1, 1, dims.symbol("length")), "float32")
    b = Builder()
    b.output(b.call("nn.conv1d", b.input(x, "x"), b.constant(np.ones((16, 1, 8), np.float32)), strides=(4,), name="conv"))
    rows = profile_module(Module(b.graph), {"x": np.ones((1, 1, 64), np.float32)}, rounds=1).rows
    (sizes,) = [row for row in rows if row.operators[0].startswith("sizes of ")]
    assert sizes.shapes.endswith(" -> sizes")
    assert rate([sizes], "flops") is None, "it checks sizes, and multiplies nothing"
    assert all(len(row.shapes) > len(" -> ") for row in rows)
    assert "conv" in {row.layer for row in rows}


def test_times_are_those_of_the_call(found: Profile) -> None:
    assert all(r.seconds >= 0 for r in found.rows)
    assert sum(r.seconds for r in found.rows) > 0 and found.seconds > 0


def test_rates_need_work_and_time() -> None:
    row = ProfileRow("k", ("add",), (), "", "2 -> 2", 1e-3, 5000, None)
    assert rate([row], "flops") == 5e6
    assert rate([row], "bytes") is None
    assert rate([dataclasses.replace(row, seconds=1e-9)], "flops") is None
    assert rate([row, dataclasses.replace(row, flops=1000)], "flops") == 3e6
    assert [of_copy(bandwidth, 10e9) for bandwidth in (5e9, 10.5e9, 30e9)] == ["50%", "105%", "cached"]


def test_the_clock_changes_no_result() -> None:
    x = np.random.default_rng(0).standard_normal((5, 20), np.float32)
    plain = compile_module(network(), use_cache=False).runtime()
    timed = compile_module(network(), profile=True).runtime()
    assert timed.output_names == [*plain.output_names, TIMES]
    result, times = timed(x)
    np.testing.assert_array_equal(result, plain(x))
    assert times.shape == (3,) and (np.diff(times) >= 0).all()


def test_control_flow_is_one_row() -> None:
    b = Builder()
    x = b.input(TensorType((4,), "float32"), "x")
    body = Builder()
    types = {"step": TensorType((), "int64"), "go": TensorType((), "bool"), "state": TensorType((4,), "float32")}
    _, go, state = (body.input(type_, name) for name, type_ in types.items())
    region = body.output(body.call("copy", go), body.call("add", state, state))
    operands = [b.constant(np.int64(3)), b.constant(np.bool_(True)), x]
    graph = b.output(b.call("exp", b.node("loop", operands, {"num_carried": 1}, [region]).results[0]))
    profile = profile_module(Module(graph), {"x": np.ones(4, np.float32)}, rounds=2)
    assert ("loop",) in [r.operators for r in profile.rows]


class _Tags(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.tags: list[str] = []

    def handle_starttag(self, tag: str, attrs: object) -> None:
        self.tags.append(tag)


def test_page_has_every_kernel_and_escapes_names(found: Profile) -> None:
    text = page(found, "<script>x</script>")
    tags = _Tags()
    tags.feed(text)
    assert tags.tags.count("script") == 1 and "layer" not in tags.tags
    assert text.count('class="name" title=') == len(found.rows)
    assert "may exceed 100 %" in text and "came from caches" in text and "color-scheme: light dark" in text
    assert text.count('<th scope="col" aria-sort="none"><button') == 8


def test_peaks_grow_with_vectors() -> None:
    assert peaks.measure(Target.parse("llvm -mcpu=x86-64")).flops > 1e8
