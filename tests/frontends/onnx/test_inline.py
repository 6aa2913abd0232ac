"""Weights inside of a model file stay there: nothing is lost, whatever the file looks like, and memory is not taken twice."""

from __future__ import annotations

import itertools
import subprocess
import sys
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import onnx
import pytest
from onnx import numpy_helper

from forge.errors import ImportModelError
from forge.frontends.onnx import import_model, inline
from forge.frontends.onnx.loader import load
from tests.frontends.onnx.support import evaluate, example, model

MIB = 1 << 20
MAX_MEMORY = 1.2
"""Times the bytes of the weights that loading may take."""


def large(**weights: Any) -> onnx.ModelProto:
    made = weights or {"w": example(0, 64, 64), "small": example(1, 64), "v": example(2, 64, 64)}
    return model("g (float[N, 64] x) => (float[N, 64] y) { a = MatMul(x, w)  b = Add(a, small)  y = MatMul(b, v) }", **made)


def test_what_is_parsed_lacks_large_contents() -> None:
    data = large().SerializeToString()
    stripped = onnx.ModelProto.FromString(bytes(inline.without_contents(data)))
    assert [t.HasField("raw_data") for t in stripped.graph.initializer] == [False, True, False]
    assert len(stripped.SerializeToString()) < 2000
    assert load(data).whole() == large()


@pytest.mark.parametrize("as_file", [True, False])
def test_results_are_the_same(tmp_path: Path, as_file: bool) -> None:
    proto = large()
    path = tmp_path / "model.onnx"
    path.write_bytes(proto.SerializeToString())
    x = example(3, 2, 64)
    (expected,) = evaluate(import_model(proto), x)
    np.testing.assert_array_equal(evaluate(import_model(path if as_file else path.read_bytes()), x)[0], expected)


def test_contents_share_memory_with_the_file(tmp_path: Path) -> None:
    path = tmp_path / "model.onnx"
    path.write_bytes(large().SerializeToString())
    constants = [n.result.constant for n in import_model(path).main.nodes if n.op == "constant"]
    views = [c for c in constants if c is not None and c.nbytes > inline.MIN_BYTES]
    assert len(views) == 2
    assert not any(c.flags.owndata or c.flags.writeable for c in views)


@pytest.mark.parametrize("dtype", [np.float16, np.int8, np.uint64, np.bool_, np.complex64, ml_dtypes.bfloat16, ml_dtypes.int4])
def test_element_types(dtype: Any) -> None:
    array = np.arange(20000).astype(np.int64).astype(dtype)
    tensor = numpy_helper.from_array(array, "w")
    proto = model("g () => (float[N] y) { y = Identity(w) }")
    proto.graph.initializer.append(tensor)
    (y,) = evaluate(import_model(proto.SerializeToString()))
    assert y.dtype == array.dtype
    np.testing.assert_array_equal(y, array)


def test_tensor_whose_contents_do_not_fit() -> None:
    proto = large()
    proto.graph.initializer[0].raw_data += b"\0" * 4
    with pytest.raises(ImportModelError, match=r"'w': contents do not fit; got shape \[64, 64\] of float32 with 16388 raw"):
        import_model(proto.SerializeToString())


def test_contents_given_twice_or_elsewhere_are_left_to_the_parser() -> None:
    proto = large()
    tensor = proto.graph.initializer[0]
    again = onnx.TensorProto(raw_data=bytes(len(tensor.raw_data)))
    parts = tensor.SerializeToString() + again.SerializeToString()
    rest = large()
    del rest.graph.initializer[0]
    data = rest.SerializeToString() + field(7, field(5, parts))
    (y,) = evaluate(import_model(data), example(3, 2, 64))
    assert not (y - y[0]).any(), "the later contents count"


def field(number: int, contents: bytes) -> bytes:
    size = len(contents)
    head = bytes([number << 3 | 2])
    while size > 0x7F:
        head += bytes([size & 0x7F | 0x80])
        size >>= 7
    return head + bytes([size]) + contents


def test_a_file_cannot_name_the_place() -> None:
    """It would read its own bytes, and no others."""
    proto = large()
    tensor = proto.graph.initializer[0]
    tensor.ClearField("raw_data")
    tensor.data_location = onnx.TensorProto.EXTERNAL
    for key, value in (("location", inline.LOCATION), ("offset", str(1 << 40)), ("length", "16384")):
        tensor.external_data.add(key=key, value=value)
    with pytest.raises(ImportModelError, match="contents do not fit"):
        import_model(proto.SerializeToString())


@pytest.mark.parametrize("keep", [0.1, 0.5, 0.9, 0.999])
def test_truncated_files_are_not_stripped(keep: float) -> None:
    data = large().SerializeToString()
    cut = data[: int(keep * len(data))]
    assert inline.without_contents(cut) is cut
    with pytest.raises(ImportModelError, match="truncated"):
        import_model(cut)


_MEASURE = """
import re, sys
from pathlib import Path
import forge
from forge.frontends.onnx import import_model

def status(name):
    return int(re.search(name + r":\\s+(\\d+)", Path("/proc/self/status").read_text())[1]) << 10

import_model(sys.argv[2])
Path("/proc/self/clear_refs").write_text("5")
before = status("VmRSS")
module = import_model(sys.argv[1])
total = sum(int(n.result.constant[::64].sum() * 0 + n.result.constant.nbytes) for n in module.main.nodes if n.op == "constant")
print(total, status("VmHWM") - before)
"""


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/clear_refs").exists(), reason="needs Linux's record of the peak")
@pytest.mark.parametrize("external", [True, False])
def test_memory_of_loading(tmp_path: Path, external: bool) -> None:
    """Peak of resident memory while a model of 300 MB is imported and each page of its weights is read."""
    weights: dict[str, Any] = {f"w{k}": np.ones((1024, 1024), np.float32) for k in range(75)}
    names = ["x", *(f"v{k}" for k in range(75))]
    steps = "  ".join(f"{b} = MatMul({a}, w{k})" for k, (a, b) in enumerate(itertools.pairwise(names)))
    proto = model(f"g (float[N, 1024] x) => (float[N, 1024] v74) {{ {steps} }}", **weights)
    path, tiny = tmp_path / "model.onnx", tmp_path / "tiny.onnx"
    tiny.write_bytes(large().SerializeToString())
    onnx.save_model(proto, path, save_as_external_data=external, location="weights.bin")
    command = [sys.executable, "-c", _MEASURE, str(path), str(tiny)]
    total, peak = map(int, subprocess.run(command, check=True, capture_output=True, text=True).stdout.split())
    assert total >= 300 * 10**6
    assert peak <= MAX_MEMORY * total
