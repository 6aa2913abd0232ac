"""Compiled models that are limited: where their entries ask whether to go on, and what counts as memory of a call."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

import forge
from forge.codegen.entry import emit_library_entry
from forge.driver import compile_module
from forge.errors import MemoryLimitError, TimeLimitError
from forge.target import Target
from forge.tir.library import Library
from forge_runtime import Runtime

CHAIN = """def @main(%x: Tensor[({n}), float32]) {{
  %0 = cumsum(%x, axis=0); %1 = cumsum(%0, axis=0); cumsum(%1, axis=0)
}}"""
LOOP = """def @main(%x: Tensor[({n}), float32], %trips: int64) {{
  loop(%trips, None, %x, num_carried=1) {{ body = fn (%i: int64, %k: bool, %v: Tensor[({n}), float32]) {{
    %0 = {op}(%v, axis=0); (%k, %0)
  }} }}
}}"""


def questions(text: str) -> list[int]:
    """How often each entry, the outermost last, asks whether the call may go on."""
    compiled = compile_module(forge.IRModule(text).mod, use_cache=False)
    assert compiled.lowered is not None
    entry = emit_library_entry(Library((compiled.lowered.functions[0].program,)), Target.parse("llvm"))
    found = []
    for body in re.findall(r"@forge_entry\S*\(ptr.*?^\}", entry, re.DOTALL | re.MULTILINE):
        slot = re.search(r"(%\S+) = getelementptr i8, ptr %\S+, i64 72", body)
        assert slot
        function = re.search(rf"(%\S+) = load ptr, ptr {slot[1]},", body)
        assert function
        found.append(body.count(f"call i32 {function[1]}("))
    return found


def test_entries_ask_between_kernels_that_may_take_long() -> None:
    assert questions(CHAIN.format(n="n")) == [2]
    assert questions(CHAIN.format(n="1000000")) == [2]


def test_entries_of_small_models_never_ask() -> None:
    assert questions(CHAIN.format(n="100")) == [0]


def test_bodies_of_loops_ask_behind_their_last_kernel() -> None:
    assert questions(LOOP.format(n="n", op="cumsum")) == [1, 0]
    assert questions(LOOP.format(n="8", op="cumsum")) == [0, 0]


def test_time_limit_between_kernels() -> None:
    model = forge.IRModule(CHAIN.format(n="n")).get_inference_function()
    x = np.ones(10, np.float32)
    with pytest.raises(TimeLimitError, match="model 'main': time limit; not done after"):
        model.limited(time_limit=1e-9)(x)
    assert model.limited(time_limit=1000)(x)[2] == model(x)[2] == 10


def test_what_is_done_is_delivered() -> None:
    model = forge.IRModule("def @main(%x: Tensor[(n), float32]) { cumsum(%x, axis=0) }").get_inference_function()
    assert model.limited(time_limit=1e-9)(np.ones(10, np.float32))[9] == 10


@pytest.mark.parametrize("size", [1, 100_000])
def test_a_loop_without_end(size: int) -> None:
    model = forge.IRModule(LOOP.format(n="n", op="nn.softmax")).get_inference_function()
    x = np.ones(size, np.float32)
    with pytest.raises(TimeLimitError):
        model.limited(time_limit=0.01)(x, np.array(10**12))
    assert model(x, np.array(2)).shape == x.shape


def needed(model: Runtime, *inputs: Any) -> int:
    """The smallest limit with which a call succeeds."""
    limit = 1
    for _ in range(100):
        try:
            model.limited(memory_limit=limit)(*inputs)
        except MemoryLimitError as error:
            found = re.search(r"needs (\d+) bytes at once; expected at most (\d+);", str(error))
            assert found and int(found[2]) == limit < int(found[1])
            limit = int(found[1])
        else:
            return limit
    raise AssertionError("no limit was enough")


WORDS = np.array(["a" * 1000, "b" * 1000], object)
MODELS = {
    "arena": (CHAIN.format(n="1000"), np.ones(1000, np.float32), 8000),
    "run-time size": ("def @main(%x: Tensor[(n), float32]) { argwhere(%x) }", np.ones(5000, np.float32), 40000),
    "intermediate of run-time size": (
        "def @main(%x: Tensor[(n), float32]) { %0 = argwhere(%x); sum(%0, axis=[0]) }", np.ones(5000, np.float32), 40000),
    "sequence": ("def @main(%x: Tensor[(n), float32]) { split_to_sequence(%x, axis=0) }", np.ones(100, np.float32), 400),
    "strings": ("def @main(%x: Tensor[(n), string]) { string.concat(%x, %x) }", WORDS, 4000),
}


@pytest.mark.parametrize("name", MODELS)
def test_all_memory_of_a_call_counts(name: str) -> None:
    text, x, least = MODELS[name]
    model = forge.IRModule(text).get_inference_function()
    limit = needed(model, x)
    assert least <= limit <= 10 * least + 100_000
    expected, got = model(x), model.limited(memory_limit=limit)(x)
    assert all(np.array_equal(a, b) for a, b in zip(expected, got, strict=True))
    with pytest.raises(MemoryLimitError):
        model.limited(memory_limit=limit - 1)(x)


def test_memory_that_grows_with_the_trips_of_a_loop() -> None:
    text = """def @main(%x: Tensor[(64), float32], %trips: int64) {
      loop(%trips, None, %x, num_carried=1) { body = fn (%i: int64, %k: bool, %v: Tensor[(64), float32]) {
        %0 = nn.relu(%v); (%k, %0, %0)
      } }
    }"""
    model = forge.IRModule(text).get_inference_function()
    x = np.ones(64, np.float32)
    with pytest.raises(MemoryLimitError, match="expected at most 1000000"):
        model.limited(memory_limit=1_000_000)(x, np.array(10**12))
    assert model.limited(memory_limit=1_000_000)(x, np.array(3))[1].shape == (3, 64)


def test_long_routines_ask_too() -> None:
    text = 'def @main(%x: Tensor[(n), string]) { string.regex_full_match(%x, pattern="(a|b)*c") }'
    model = forge.IRModule(text).get_inference_function()
    words = np.array(["ab" * 50] * 100, object)
    with pytest.raises(TimeLimitError):
        model.limited(time_limit=1e-9)(words)
    assert not model(words).any()
