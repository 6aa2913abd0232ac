"""The benchmark of a decoder with weights of few bits: it computes what onnxruntime does."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest

import forge
from benchmarks import packed_decoder
from benchmarks.decoders import SMALL
from forge import peers


@pytest.mark.parametrize(("bits", "block"), [(4, 32), (8, 64)])
@pytest.mark.parametrize("count", [1, 5])
def test_results_are_those_of_onnxruntime(bits: int, block: int, count: int, tmp_path: Path) -> None:
    """With data of float32; at level 4, a difference in their last bits may round one of them to another integer of 8 bits."""
    pytest.importorskip("onnxruntime")
    built = packed_decoder.PackedDecoder(SMALL, bits, block, accuracy=0)
    onnx.save(built.model(), tmp_path / "decoder.onnx")
    feed = built.feed(count, 0 if count > 1 else 7)
    ir = forge.from_onnx(tmp_path / "decoder.onnx")
    ir.compile(output_path=tmp_path / "compiled")
    got = packed_decoder.forge_call(tmp_path / "compiled", feed, 1)()
    want = peers.load_onnxruntime(tmp_path / "decoder.onnx", feed, 1)()
    for a, b in zip(got, want, strict=True):
        np.testing.assert_allclose(a, b, rtol=0, atol=1e-5 * float(np.abs(b).max()))


def test_small(capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("onnxruntime")
    assert packed_decoder.main(["--small", "--seconds", "0.01", "--prompt", "5"]) == 0
    printed = capsys.readouterr().out
    assert all(word in printed for word in ("decode", "prefill", "GB/s", "artifact"))
