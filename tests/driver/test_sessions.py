"""Compiled functions with states: sessions over models in this process and over artifacts."""

from __future__ import annotations

import dataclasses
import threading
from pathlib import Path

import numpy as np
import pytest

import forge
from forge.driver import check_options, compile_module
from forge.errors import InputError

ATTENTION = """def @prefill(%q: Tensor[(2, t, 4), float32], %k: Tensor[(2, t, 4), float32],
  state %past: Tensor[(2, n, 4), float32], %w: Tensor[(2, 4, 4), float32], public=True) {
  %0 = nn.batch_matmul(%k, %w); %1 = concatenate(%past, %0, axis=1);
  (nn.batch_matmul(%q, %1, transpose_b=True), %past = %1)
}
def @decode(%q: Tensor[(2, 1, 4), float32], %k: Tensor[(2, 1, 4), float32],
  state %past: Tensor[(2, n, 4), float32], %w: Tensor[(2, 4, 4), float32], public=True) {
  %0 = nn.batch_matmul(%k, %w); %1 = concatenate(%past, %0, axis=1);
  (nn.batch_matmul(%q, %1, transpose_b=True), %past = %1)
}
def @length(state %past: Tensor[(2, n, 4), float32], public=True) { shape_of(%past) }"""
WEIGHT = np.random.default_rng(0).standard_normal((2, 4, 4)).astype(np.float32)


def attention() -> forge.IRModule:
    ir = forge.IRModule(ATTENTION)
    for name in ("prefill", "decode"):
        ir.graphs[name].params["w"] = WEIGHT
    return ir


def tokens(generator: np.random.Generator, count: int) -> np.ndarray:
    return generator.standard_normal((2, 2, count, 4)).astype(np.float32)


def check_conversation(session: forge.Session, seed: int) -> None:
    """Compares what ``session`` answers with NumPy."""
    generator = np.random.default_rng(seed)
    past = np.zeros((2, 0, 4), np.float32)
    for count in (3, 1, 1, 40, 1, 2):
        q, k = tokens(generator, count)
        past = np.concatenate([past, k @ WEIGHT], 1)
        given = session["decode" if count == 1 else "prefill"](q, k)
        np.testing.assert_allclose(given, q @ past.swapaxes(1, 2), rtol=1e-4, atol=1e-4)
    np.testing.assert_allclose(session.state()["past"], past, rtol=1e-4, atol=1e-5)
    assert session["length"]().tolist() == [2, 48, 4]


@pytest.mark.parametrize("level", [0, 1, 2, 3])
def test_a_state_that_grows(level: int) -> None:
    run = compile_module(attention().mod, check_options("llvm", opt_level=level), use_cache=False).runtime()
    for seed, capacity in enumerate([None, 1, 100]):
        session = run.session(capacity=capacity)
        check_conversation(session, seed)
        session.reset()
        check_conversation(session, seed + 1)


@pytest.mark.parametrize("weights", ["inside", "beside"])
def test_sessions_of_an_artifact(weights: str, tmp_path: Path) -> None:
    attention().compile(output_path=tmp_path / "build", opt_level=1, weights=weights)
    for copy_weights in (False, True):
        run = forge.Runtime(tmp_path / "build", copy_weights=copy_weights)
        assert (run.functions, run.states) == (["prefill", "decode", "length"], ["past"])
        check_conversation(run.session(), 7)


def test_sessions_move_between_processes_and_artifacts(tmp_path: Path) -> None:
    attention().compile(output_path=tmp_path / "build", opt_level=1)
    generator = np.random.default_rng(1)
    first = forge.Runtime(tmp_path / "build").session()
    first["prefill"](*tokens(generator, 5))
    first.save(tmp_path / "talk.safetensors")
    q, k = tokens(generator, 1)
    expected = first["decode"](q, k)
    for run in (forge.Runtime(tmp_path / "build"), compile_module(attention().mod, use_cache=False).runtime()):
        second = run.session()
        second.load_state(tmp_path / "talk.safetensors")
        np.testing.assert_allclose(second["decode"](q, k), expected, rtol=1e-5)
    other = attention()
    other.graphs["decode"].params["w"] = other.graphs["prefill"].params["w"] = 2 * WEIGHT
    other.compile(output_path=tmp_path / "other", opt_level=1)
    with pytest.raises(InputError, match="the state of another model"):
        forge.Runtime(tmp_path / "other").session().load_state(tmp_path / "talk.safetensors")


def test_many_threads_with_a_session_each() -> None:
    run = compile_module(attention().mod, use_cache=False).runtime(num_threads=1)
    failures: list[BaseException] = []

    def converse(seed: int) -> None:
        try:
            for round_ in range(5):
                check_conversation(run.session(), seed + round_)
        except BaseException as error:
            failures.append(error)
            raise

    threads = [threading.Thread(target=converse, args=(seed,)) for seed in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures


INITIAL = np.arange(6, dtype=np.float32).reshape(2, 3)


def test_states_with_initial_values() -> None:
    ir = forge.IRModule("""def @main(%x: Tensor[(2, 1), float32], state %k: Tensor[(2, n), float32]) {
      %0 = concatenate(%k, %x, axis=1); (sum(%0, axis=[1]), %k = %0) }""")
    state = ir.main.states["k"]
    ir.main.states["k"] = dataclasses.replace(state, initial=INITIAL)
    session = compile_module(ir.mod, use_cache=False).runtime().session()
    assert session.state()["k"].tolist() == INITIAL.tolist()
    x = np.ones((2, 1), np.float32)
    for _ in range(2):
        assert session(x).tolist() == [4, 13]
        assert session(x).tolist() == [5, 14]
        assert session.state()["k"].tolist() == [[0, 1, 2, 1, 1], [3, 4, 5, 1, 1]]
        session.reset()


def test_donated_inputs() -> None:
    text = "def @main(donated %x: Tensor[(n), float32], %w: Tensor[(n), float32]) { (%x = add(%x, %w)) }"
    run = compile_module(forge.IRModule(text).mod, use_cache=False).runtime()
    x, w = np.arange(1000, dtype=np.float32), np.ones(1000, np.float32)
    assert run(x, w)[-1] == 1000
    assert x[-1] == 999
    assert run(forge.donate(x), w) is x
    assert x[-1] == 1000
    empty = np.empty(0, np.float32)
    assert run(forge.donate(empty), empty).shape == (0,)


def test_donated_inputs_in_a_session() -> None:
    text = """def @main(donated %x: Tensor[(n), float32], state %t: Tensor[(n), float32]) {
      %0 = add(%x, %t); (%x = multiply(%0, 2f), %t = %0) }"""
    session = compile_module(forge.IRModule(text).mod, use_cache=False).runtime().session()
    x = np.ones(1000, np.float32)
    assert session(x)[-1] == 2
    assert session(forge.donate(x)) is x
    assert x[-1] == 4
    assert session.state()["t"][-1] == 2
