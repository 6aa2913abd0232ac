"""The C runtime by itself: thread pool, memory, loading; under the sanitizers."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

import forge_runtime
from forge_runtime import CpuFeatureError, _native, static_sources
from tests.runtime.building import FLAGS, compile_c
from tests.runtime.sanitizers import PROGRAMS, SANITIZERS, build

HERE = Path(__file__).parent


def execute(*command: str | Path, **environment: str) -> str:
    result = subprocess.run(
        list(map(str, command)), capture_output=True, text=True, timeout=120, check=False, env={**os.environ, **environment}
    )
    assert result.returncode == 0, f"{command}: {result.returncode}\n{result.stdout}{result.stderr}"
    return result.stdout


def has_sanitizer(name: str) -> bool:
    source = "int main(void) { return 0; }"
    command = ["cc", f"-fsanitize={name}", "-x", "c", "-", "-o", "/dev/null"]
    return subprocess.run(command, input=source, capture_output=True, text=True, check=False).returncode == 0


@pytest.mark.parametrize("sanitizer", SANITIZERS)
@pytest.mark.parametrize("name", PROGRAMS)
def test_under_sanitizers(name: str, sanitizer: str, tmp_path: Path) -> None:
    if not has_sanitizer(sanitizer):
        pytest.skip(f"this compiler has no -fsanitize={sanitizer}")
    program = build(name, sanitizer, tmp_path)
    for arguments in PROGRAMS[name][1]:
        execute(program, *arguments)


def test_pool_survives_fork(tmp_path: Path, runtime_objects: list[Path]) -> None:
    program = tmp_path / "stress"
    compile_c(HERE / "stress.c", *runtime_objects, "-lm", "-o", program)
    execute(program, "loops", "300")
    execute(program, "fork", "100")


def test_memory_grows_with_the_pages_it_has(tmp_path: Path, runtime_objects: list[Path]) -> None:
    program = tmp_path / "stress"
    compile_c(HERE / "stress.c", *runtime_objects, "-lm", "-o", program)
    execute(program, "growth", "1")


def test_library_stands_alone_in_c(tmp_path: Path, linked: Callable[..., Path], runtime_objects: list[Path]) -> None:
    program = tmp_path / "embed"
    compile_c(HERE / "embed.c", *runtime_objects, "-lm", "-o", program)
    expected = "12 32 6 2 2\nmodel 'rows': output 'total' is too small; got 4 bytes; expected 8 for shape [] of int64\n"
    assert execute(program, linked("rows")) == 2 * expected


def test_only_the_interface_is_exported(linked: Callable[..., Path]) -> None:
    names = execute("nm", "-D", "--defined-only", linked("identity")).split()[2::3]
    header = (forge_runtime.include_directory() / "forge_runtime.h").read_text()
    assert names and all(f" {name}(" in header or f"*{name}(" in header for name in names)


def test_runtime_needs_only_libc(linked: Callable[..., Path]) -> None:
    needed = execute("objdump", "-p", linked("rows"))
    libraries = {line.split()[1].split(".so")[0] for line in needed.splitlines() if "NEEDED" in line}
    assert {name for name in libraries if not name.startswith("ld-")} <= {"libc", "libm", "libpthread", "libdl"}


@pytest.mark.parametrize(("variable", "expected"), [("3", 3), ("1", 1), ("100000", 1024)])
def test_number_of_threads_from_environment(variable: str, expected: int) -> None:
    code = "import forge_runtime; print(forge_runtime.num_threads())"
    assert int(execute(sys.executable, "-c", code, FORGE_NUM_THREADS=variable)) == expected


def test_number_of_threads_respects_affinity() -> None:
    cpu = min(os.sched_getaffinity(0))
    code = f"import os, forge_runtime; os.sched_setaffinity(0, {{{cpu}}}); print(forge_runtime.num_threads())"
    assert int(execute(sys.executable, "-c", code, FORGE_NUM_THREADS="")) == 1


def test_set_num_threads() -> None:
    before = forge_runtime.num_threads()
    forge_runtime.set_num_threads(5)
    assert forge_runtime.num_threads() == 5
    forge_runtime.set_num_threads(before)
    for wrong in (-1, 1025, 10**30, True, "2", None, 1.5):
        with pytest.raises(ValueError, match=f"num_threads: got {wrong!r}; expected a whole number from 0 to 1024"):
            forge_runtime.set_num_threads(wrong)  # type: ignore[arg-type]
    assert forge_runtime.num_threads() == before


def test_cpu_features_agree_with_llvm() -> None:
    binding = pytest.importorskip("llvmlite.binding")
    disagreements = []
    for name, present in binding.get_host_cpu_features().items():
        try:
            _native.check_cpu(name)
            found = True
        except CpuFeatureError as error:
            found = False
            if "does not know" in str(error):
                continue
        if found != present:
            disagreements.append((name, found, present))
    assert not disagreements
    _native.check_cpu(binding.get_host_cpu_features().flatten())


def test_unknown_cpu_feature_is_refused() -> None:
    with pytest.raises(CpuFeatureError, match="'warp-drive', which this runtime does not know"):
        _native.check_cpu("+warp-drive")
    _native.check_cpu("-warp-drive")


def test_sources_compile_without_warnings(tmp_path: Path) -> None:
    assert "-Werror" in FLAGS
    for source in static_sources():
        compile_c("-O2", "-c", source, "-o", tmp_path / "object.o")
