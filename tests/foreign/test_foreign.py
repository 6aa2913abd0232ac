"""Code for AArch64, in the emulator where this machine is another: a tenth of all cases, the same ones in every run.

`python -m tests.foreign` runs all of them.
"""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import forge
from forge.backends.compiled import CompiledModel
from forge.driver import check_options, compile_module
from forge.errors import TargetError, ToolchainError
from forge.ir.interp import run_graph
from forge.ir.text.parser import parse_module
from forge.target import Target
from forge.target.isa import AARCH64, X86_64
from forge.target.tags import TAGS
from forge_runtime import static_sources
from tests.foreign import values
from tests.foreign.__main__ import TARGET, chosen, failures, run_suite
from tests.foreign.machine import Machine, RunError, build, command, missing
from tests.foreign.suites import SUITES
from tests.runtime import sanitizers
from tests.runtime.sanitizers import PROGRAMS

WORKERS = 2
PART = 10
AARCH64_TAGS = [tag for tag, keys in TAGS.items() if str(keys.get("mtriple", "")).startswith("aarch64-")]
emulated = pytest.mark.skipif(Target.parse(TARGET).is_of_host, reason="this machine needs no emulator for AArch64")


@cache
def lacking() -> str | None:
    return missing(Target.parse(TARGET))


@pytest.fixture
def machine() -> Iterator[Machine]:
    if lacking():
        pytest.skip(str(lacking()))
    made = Machine(Target.parse(TARGET))
    yield made
    made.close()


@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("suite", SUITES)
def test_a_tenth_of_the_cases(suite: str) -> None:
    if suite == "networks":
        pytest.importorskip("torch")
        pytest.importorskip("onnxruntime")
    if lacking():
        pytest.skip(str(lacking()))
    names = chosen(SUITES[suite], PART)
    assert names
    assert not failures(SUITES[suite], run_suite(suite, names, TARGET, WORKERS))


def pictures() -> np.ndarray[Any, Any]:
    return np.random.default_rng(0).random((5, 1, 8, 8), np.float32) * 16


def compiled_for(target: str, ir: forge.IRModule) -> CompiledModel:
    return compile_module(ir.mod, check_options(target))


def check(results: list[Any], ir: forge.IRModule) -> None:
    (logits,), (expected,) = results, run_graph(ir.mod.main, [pictures()])
    np.testing.assert_allclose(logits, expected, rtol=1e-4, atol=1e-4)


@pytest.mark.sampled(4)
@pytest.mark.parametrize("cpu", AARCH64.cpus)
def test_cpus(cpu: str, digits: forge.IRModule, machine: Machine) -> None:
    check(machine.run(compiled_for(f"{TARGET} -mcpu={cpu}", digits), digits.mod.main, [pictures()]), digits)


@pytest.mark.parametrize("tag", [tag for tag in AARCH64_TAGS if tag != "android/cpu"])
def test_tags(tag: str, digits: forge.IRModule, machine: Machine) -> None:
    check(machine.run(compiled_for(tag, digits), digits.mod.main, [pictures()]), digits)


def test_android_needs_its_own_compiler(digits: forge.IRModule, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CC", raising=False)
    with pytest.raises(ToolchainError, match=r"no C compiler for aarch64-linux-android.*native development kit"):
        digits.compile("android/cpu", output_path=tmp_path / "build")
    assert not list(tmp_path.iterdir())


def test_android_with_a_given_compiler(digits: forge.IRModule, machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    ziglang = pytest.importorskip("ziglang")
    monkeypatch.setenv("CC", f"{Path(ziglang.__file__).with_name('zig')} cc -target aarch64-linux-gnu")
    check(machine.run(compiled_for("android/cpu", digits), digits.mod.main, [pictures()]), digits)


def test_weights_lie_inside_or_beside(digits: forge.IRModule, machine: Machine, tmp_path: Path) -> None:
    digits.compile(TARGET, output_path=tmp_path / "inside")
    library = tmp_path / "inside" / "modelLibrary.so"
    check(machine.run_library(library, values.encoded([pictures()], digits.mod.main.inputs)), digits)
    digits.compile(TARGET, output_path=tmp_path / "beside", weights="beside")
    with pytest.raises(RunError, match="weights"):
        machine.run_library(tmp_path / "beside" / "modelLibrary.so", values.encoded([pictures()], digits.mod.main.inputs))


def test_equal_models_give_equal_bytes(digits: forge.IRModule, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if lacking():
        pytest.skip(str(lacking()))
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "0")
    for name in ("first", "second"):
        digits.compile(TARGET, output_path=tmp_path / name, uuid="one")
    first, second = ((tmp_path / name / "modelLibrary.so").read_bytes() for name in ("first", "second"))
    assert first == second


@pytest.mark.parametrize("cpu", ["neoverse-n1", "neoverse-v1"])
def test_products_of_bytes_are_exact(cpu: str, machine: Machine) -> None:
    """With an instruction for them and without; the largest products among them."""
    module = parse_module("""
def @main(%x: Tensor[(n, 200), uint8], %w: Tensor[(48, 200), int8]) {
  nn.dense(%x, %w, units=48, out_dtype="int32")
}
""")
    rng = np.random.default_rng(0)
    x, w = rng.integers(0, 256, (37, 200)).astype(np.uint8), rng.integers(-128, 128, (48, 200)).astype(np.int8)
    x[0], w[0], w[1] = 255, -128, 127
    compiled = compile_module(module, check_options(f"{TARGET} -mcpu={cpu}"))
    (products,) = machine.run(compiled, module.main, [x, w])
    np.testing.assert_array_equal(products, x.astype(np.int32) @ w.T.astype(np.int32))


def test_strings_pass(machine: Machine) -> None:
    module = parse_module("""
def @main(%x: Tensor[(n), string], %y: Tensor[(n), string]) {
  string.concat(%x, %y)
}
""")
    texts = np.array(["a", "", "é"], object), np.array(["\0", "b", "日"], object)
    (joined,) = machine.run(compile_module(module, check_options(TARGET)), module.main, texts)
    assert joined.tolist() == ["a\0", "b", "é日"]


@emulated
def test_features_are_checked_when_a_model_is_loaded(digits: forge.IRModule, machine: Machine) -> None:
    compiled = compiled_for(f"{TARGET} -mattr=+dotprod", digits)
    check(machine.run(compiled, digits.mod.main, [pictures()]), digits)
    older = Machine(Target.parse(TARGET), "-cpu", "cortex-a72")
    try:
        with pytest.raises(RunError, match=r"^3 .*CPU feature 'dotprod', which this CPU lacks; .*-mcpu=generic"):
            older.run(compiled, digits.mod.main, [pictures()])
        check(older.run(compiled_for(f"{TARGET} -mcpu=cortex-a72", digits), digits.mod.main, [pictures()]), digits)
    finally:
        older.close()


def test_the_clock_of_profiles_runs(digits: forge.IRModule, machine: Machine) -> None:
    compiled = compile_module(digits.mod, check_options(TARGET), profile=True)
    logits, stamps = machine.run(compiled, digits.mod.main, [pictures()])
    check([logits], digits)
    assert stamps.dtype == np.int64 and stamps.size > 2 and stamps[0] > 0
    assert (np.diff(stamps) >= 0).all() and stamps[-1] > stamps[0]


@pytest.mark.slow
@pytest.mark.parametrize("name", PROGRAMS)
def test_programs_of_the_runtime(name: str, tmp_path: Path) -> None:
    if lacking():
        pytest.skip(str(lacking()))
    source, runs = PROGRAMS[name]
    target, program = Target.parse(TARGET), tmp_path / name
    build(target, program, Path(sanitizers.__file__).with_name(source), *static_sources())
    for arguments in runs:
        subprocess.run([*command(target, program), *arguments], check=True)


@emulated
def test_nothing_of_another_machine_runs_here(digits: forge.IRModule, tmp_path: Path) -> None:
    with pytest.raises(TargetError, match=r"is aarch64; this machine is .*; write a library with output_path"):
        digits.get_inference_function(TARGET)


def test_a_program_that_dies_is_reported(machine: Machine, tmp_path: Path) -> None:
    (tmp_path / "dies.c").write_text("#include <stdlib.h>\nvoid *forge_model_get(void) { abort(); }\n")
    build(Target.parse(TARGET), tmp_path / "dies.so", Path("-shared"), Path("-fPIC"), tmp_path / "dies.c")
    with pytest.raises(RunError, match="without an answer"):
        machine.run_library(tmp_path / "dies.so", values.encoded([], []))
    with pytest.raises(RunError, match=r"^7 .*cannot be opened"):
        machine.run_library(tmp_path / "none.so", values.encoded([], []))


def test_what_is_missing_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    target = Target.parse(TARGET)
    monkeypatch.setattr("forge.target.host.architecture", lambda: X86_64)
    monkeypatch.setenv("CC", "")
    monkeypatch.setattr("forge.codegen.link.importlib.util.find_spec", lambda name: None)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert "pip install ziglang" in (missing(target) or "")
    for name in ("aarch64-linux-gnu-gcc", "qemu-aarch64"):
        assert shutil.which(name) is None
        if name == "qemu-aarch64":
            assert "qemu-user" in (missing(target) or "")
        (tmp_path / name).write_text("#!/bin/sh\n")
        (tmp_path / name).chmod(0o755)
    monkeypatch.setenv("QEMU_LD_PREFIX", str(tmp_path))
    assert "libc6-arm64-cross" in (missing(target) or "")
    (tmp_path / "lib").mkdir()
    (tmp_path / "lib" / "ld-linux-aarch64.so.1").touch()
    assert missing(target) is None
