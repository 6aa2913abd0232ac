"""A language model that transformers exported with its cache, as a session, token by token next to torch."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("torch")
pytest.importorskip("transformers")

import torch

import forge
from benchmarks import decode, decoders

LIMIT = 1e-4
pytestmark = pytest.mark.timeout(1200)  # exports take their time
PROMPT = [3, 14, 15, 92, 6, 5]


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("decoder")
    decode.compile_forge(folder, small=True)
    return folder / "forge"


def expected(tokens: list[int], count: int) -> tuple[list[int], list[np.ndarray]]:
    """The tokens that torch finds most likely, one after the other, and its logits for each."""
    network, found, logits = decoders.network(small=True), list(tokens), []
    cache: Any = None
    with torch.no_grad():
        for _ in range(count):
            new = found if cache is None else found[-1:]
            result = network(torch.tensor([new]), past_key_values=cache, use_cache=True)
            cache = result.past_key_values
            logits.append(result.logits[:, -1].numpy())
            found.append(int(logits[-1].argmax()))
    return found, logits


def test_prefill_and_decode_are_torchs(library: Path) -> None:
    session = forge.Runtime(library).session()
    found, count = list(PROMPT), 40
    wanted, logits = expected(PROMPT, count)
    for number in range(count):
        step = session["decode" if number else "prefill"]
        got = step(np.array([found[-1:] if number else found]))[:, -1]
        assert np.abs(got - logits[number]).max() <= LIMIT
        found.append(int(got.argmax()))
    assert found == wanted
    assert {value.shape[2] for value in session.state().values()} == {len(PROMPT) + count - 1}


def test_sessions_go_on_from_copies_and_from_loaded_caches(library: Path) -> None:
    first = forge.Runtime(library).session()
    first["prefill"](np.array([PROMPT]))
    copied, loaded = first.copy(), forge.Runtime(library).session()
    loaded.load_state(first.state())
    logits = [session["decode"](np.array([[7]])) for session in (first, copied, loaded)]
    np.testing.assert_array_equal(logits[0], logits[1])
    np.testing.assert_array_equal(logits[0], logits[2])
    first.reset()
    assert np.abs(first["prefill"](np.array([[*PROMPT, 7]]))[:, -1:] - logits[0]).max() <= LIMIT


def test_weights_are_there_once(library: Path) -> None:
    weights = sum(parameter.numel() * 4 for parameter in decoders.network(small=True).parameters())
    assert (library / "modelLibrary.so").stat().st_size < weights + (1 << 20)


def test_one_function_does_both(tmp_path: Path) -> None:
    """An export that takes any number of new tokens is a session by itself."""
    module = forge.from_onnx(decoders.build("any", small=True))
    module.as_session()
    assert module.input_names[:1] == ["input_ids"]
    module.compile(output_path=tmp_path / "build")
    session = forge.Runtime(tmp_path / "build").session()
    wanted, logits = expected(PROMPT, 8)
    for number in range(8):
        begin, end = (len(PROMPT) + number - 1, len(PROMPT) + number) if number else (0, len(PROMPT))
        got = session(np.array([wanted[begin:end]]))[:, -1]
        assert np.abs(got - logits[number]).max() <= LIMIT
