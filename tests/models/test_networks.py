"""The benchmark networks, exported by torch, against unoptimized onnxruntime and the interpreter."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("torch")
pytest.importorskip("onnxruntime")

import forge
from benchmarks import models
from forge import peers
from forge.driver import check_options, compile_module
from forge.ir.graph import Module
from forge.ir.interp import run_module
from forge.ir.op import REGISTRY
from forge.ir.parser import parse_module
from forge.ir.printer import print_with_constants

LIMIT = 1e-4
SMALL = [(name, dynamic) for name in models.MODELS for dynamic in (False, True)]
IDS = [f"{name}-{'dynamic' if dynamic else 'static'}" for name, dynamic in SMALL]


def run(module: Module, feed: Any, threads: int = 1, opt_level: int = 3) -> list[np.ndarray]:
    runtime = compile_module(module, check_options(opt_level=opt_level)).runtime()
    runtime.set_num_threads(threads)
    return peers.as_list(runtime(**feed))


@pytest.mark.parametrize(("name", "dynamic"), SMALL, ids=IDS)
def test_small_network(name: str, dynamic: bool) -> None:
    path = models.build(name, dynamic=dynamic, small=True)
    module = forge.from_onnx(path).mod
    feed = models.inputs(name, small=True)
    expected = peers.load_reference(path, feed, 1)()
    assert peers.disagreement(run_module(module, feed), expected) <= LIMIT
    for opt_level in (0, 1, 2, 3, 4):
        assert peers.disagreement(run(module, feed, 1 + opt_level % 2, opt_level), expected) <= LIMIT, f"opt_level {opt_level}"


@pytest.mark.parametrize(("name", "dynamic"), SMALL, ids=IDS)
def test_text_and_file_keep_the_network(name: str, dynamic: bool, tmp_path: Path) -> None:
    ir = forge.from_onnx(models.build(name, dynamic=dynamic, small=True))
    printed = print_with_constants(ir.mod)
    parsed = parse_module(printed.text, printed.constants)
    assert print_with_constants(parsed).text == printed.text
    ir.save(tmp_path / "model.forge")
    loaded = forge.load(tmp_path / "model.forge")
    assert loaded.fingerprint == ir.fingerprint
    assert hash(loaded) == hash(ir)
    feed = models.inputs(name, small=True)
    direct = run(ir.mod, feed)
    for module in (parsed, loaded.mod):
        for got, expected in zip(run(module, feed), direct, strict=True):
            np.testing.assert_array_equal(got, expected)


@pytest.mark.parametrize("name", models.MODELS)
def test_inner_tensors_agree(name: str) -> None:
    module = forge.from_onnx(models.build(name, dynamic=True, small=True)).mod.copy()
    inner = [n.results[0] for n in module.main.nodes if n.op != "constant" and not n.op_def.is_view and len(n.results) == 1]
    module.main.outputs = list(dict.fromkeys([*module.main.outputs, *inner[:: max(1, len(inner) // 20)]]))
    feed = models.inputs(name, small=True)
    expected = run_module(module, feed)
    for value, got, want in zip(module.main.outputs, run(module, feed), expected, strict=True):
        assert peers.disagreement([got], [want]) <= LIMIT, f"%{value.name} of {value.producer}"


@pytest.mark.parametrize("name", models.MODELS)
def test_other_sizes_of_a_symbolic_network(name: str) -> None:
    path = models.build(name, dynamic=True, small=True)
    runtime = compile_module(forge.from_onnx(path).mod).runtime()
    for batch in (1, 2, 5):
        feed = models.inputs(name, batch, small=True)
        expected = peers.load_reference(path, feed, 1)()
        assert peers.disagreement(peers.as_list(runtime(**feed)), expected) <= LIMIT


@pytest.mark.parametrize("name", ["bert", "mlp_sequence"])
def test_other_lengths(name: str) -> None:
    path = models.build(name, dynamic=True, small=True)
    runtime = compile_module(forge.from_onnx(path).mod).runtime()
    for batch, length in ((1, 3), (3, 7), (2, 16)):
        feed = models.inputs(name, batch, length=length, small=True)
        expected = peers.load_reference(path, feed, 1)()
        assert peers.disagreement(peers.as_list(runtime(**feed)), expected) <= LIMIT


@pytest.mark.parametrize("name", models.MODELS)
def test_compiled_code_does_not_need_the_references(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    ir = forge.from_onnx(models.build(name, small=True))
    feed = models.inputs(name, small=True)
    expected = run_module(ir.mod, feed)
    runtime = compile_module(ir.mod).runtime()

    def refuse(*arguments: object) -> None:
        raise AssertionError("a reference was called on the compiled path")

    for op in REGISTRY.values():
        monkeypatch.setattr(type(op), "reference", refuse)
        monkeypatch.setattr(type(op), "reference_regions", refuse)
    with pytest.raises(AssertionError, match="compiled path"):
        run_module(ir.mod, feed)
    assert peers.disagreement(peers.as_list(runtime(**feed)), expected) <= LIMIT


ALONE = """
import sys
class Refuse:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in ("forge", "llvmlite", "onnx", "torch"):
            raise ImportError(f"{name} is not allowed here")
sys.meta_path.insert(0, Refuse())
import numpy as np
from forge_runtime import Runtime
with np.load(sys.argv[2]) as stored:
    feed = dict(stored)
outputs = Runtime(sys.argv[1])(**feed)
np.savez(sys.argv[3], *(outputs if isinstance(outputs, list) else [outputs]))
"""


@pytest.mark.parametrize("name", models.MODELS)
def test_the_artifact_stands_alone(name: str, tmp_path: Path) -> None:
    path = models.build(name, small=True)
    forge.from_onnx(path).compile(output_path=tmp_path / "build")
    feed = models.inputs(name, small=True)
    np.savez(tmp_path / "in.npz", **feed)
    command = [sys.executable, "-c", ALONE, str(tmp_path / "build"), str(tmp_path / "in.npz"), str(tmp_path / "out.npz")]
    subprocess.run(command, check=True, cwd=tmp_path, env={**os.environ, "FORGE_NUM_THREADS": "2"})
    with np.load(tmp_path / "out.npz") as stored:
        outputs = list(stored.values())
    assert peers.disagreement(outputs, peers.load_reference(path, feed, 1)()) <= LIMIT


@pytest.mark.slow
@pytest.mark.parametrize("name", models.MODELS)
def test_full_network(name: str) -> None:
    path = models.build(name)
    feed = models.inputs(name)
    expected = peers.load_reference(path, feed, 1)()
    runtime = compile_module(forge.from_onnx(path).mod, use_cache=False).runtime()
    for threads in (1, 2):
        runtime.set_num_threads(threads)
        assert peers.disagreement(peers.as_list(runtime(**feed)), expected) <= LIMIT


@pytest.mark.slow
@pytest.mark.parametrize("name", ["bert", "mlp_sequence"])
def test_full_network_with_symbolic_batch_and_length(name: str) -> None:
    path = models.build(name, dynamic=True)
    runtime = compile_module(forge.from_onnx(path).mod, use_cache=False).runtime()
    for batch, length in ((1, 17), (2, 64)):
        feed = models.inputs(name, batch, length=length)
        expected = peers.load_reference(path, feed, 1)()
        for threads in (1, 2):
            runtime.set_num_threads(threads)
            assert peers.disagreement(peers.as_list(runtime(**feed)), expected) <= LIMIT
