"""The pool of compile workers, what objects need from outside, and linking."""

from __future__ import annotations

import ctypes
import dataclasses
import errno
import os
import signal
import subprocess
import sys
from importlib.machinery import ModuleSpec
from pathlib import Path

import llvmlite.binding as llvm
import numpy as np
import pytest

from forge.codegen import compile as compile_module
from forge.codegen import link, object_store
from forge.codegen.compile import QUICK, WorkerPool, compile_modules
from forge.codegen.elf import machine_of, write_layout
from forge.codegen.entry import emit_library_entry
from forge.codegen.isa import instructions
from forge.codegen.jit import JitLibrary
from forge.codegen.link import find_compiler, link_library
from forge.codegen.module import emit_module
from forge.codegen.objects import undefined_symbols
from forge.codegen.tables import MODEL_SYMBOL
from forge.codegen.transcendental import HELPERS
from forge.errors import CompileError, ToolchainError
from forge.target import Target
from forge.target.isa import ARCHITECTURES, X86_64, Architecture
from forge.tir import expr as tir
from forge.tir import stmt
from forge.tir.expr import Buffer, Expr
from forge.tir.library import Binding, Control, Library, Program, StateMemory, StateSpec, TensorSpec
from tests.codegen.native import map_function, run_map

HOST = Target.parse("llvm")
GOOD = 'target triple = "x86_64-linux-gnu"\ndefine i32 @f() {\n  ret i32 7\n}\n'
ALLOWED = {"memcpy", "memset", "memmove", "_GLOBAL_OFFSET_TABLE_"}


def everything(dtype: str, lanes: int) -> list[stmt.Function]:
    """One function for each intrinsic and each conversion of ``dtype``."""
    def called(name: str) -> stmt.Function:
        count = tir.INTRINSICS[name]
        result = "bool" if name in tir.BOOL_INTRINSICS else dtype
        return map_function((dtype,) * count, result, lambda *args: tir.call(name, *args), lanes, f"{name}_{lanes}")

    def converted(result: str) -> stmt.Function:
        return map_function((dtype,), result, lambda x: tir.cast(x, result), lanes, f"to_{result}_{lanes}")

    def divided(op: str) -> stmt.Function:
        return map_function((dtype, dtype), dtype, lambda a, b: tir.binary(op, a, b), lanes, f"{op}_{lanes}")

    names = [name.removeprefix("float.") for name in HELPERS]
    plain = [name for name in names if name in tir.INTRINSICS]
    others = ("bool", "int8", "uint8", "int32", "uint32", "int64", "uint64", "float16", "bfloat16", "float32", "float64",
              "float8_e4m3fn", "float8_e5m2")
    return [*map(called, [*plain, "fma", "abs", "isnan", "isinf", "sqrt", "rsqrt"]), *map(converted, others),
            *map(divided, ["truncdiv", "truncmod", "floordiv", "floormod", "div", "min", "max"])]


@pytest.mark.parametrize("target", [
    "llvm -mcpu=x86-64", pytest.param("llvm -mcpu=x86-64-v2", marks=pytest.mark.slow), "llvm -mcpu=x86-64-v3",
    "llvm -mcpu=x86-64-v4"])
def test_objects_need_nothing_but_memory_functions(target: str) -> None:
    machine = Target.parse(target)
    modules = []
    for dtype, lanes in (("float16", 8), ("bfloat16", 1), ("float32", 1), ("float32", 8), ("float64", 4)):
        modules.append((f"{dtype} x {lanes}", emit_module(everything(dtype, lanes), machine)))
    for (name, _), code in zip(modules, compile_modules(modules, machine, 1), strict=True):
        assert undefined_symbols(code) <= ALLOWED, name


def test_results_come_in_order(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FORGE_CACHE", "0")
    modules = [(f"m{k}", GOOD.replace("7", str(k))) for k in range(5)]
    finished: list[tuple[int, int]] = []
    codes = compile_modules(modules, HOST, 0, lambda done, total: finished.append((done, total)))
    for k, code in enumerate(codes):
        library = JitLibrary([code], ["f"])
        assert ctypes.CFUNCTYPE(ctypes.c_int32)(library.addresses["f"])() == k
    assert finished == [(k, 5) for k in range(1, 6)]


@pytest.mark.parametrize("lanes", [1, 8])
def test_quick_code_is_other_code_with_the_same_results(lanes: int) -> None:
    function = map_function(("float32",) * 3, "float32", lambda a, b, c: a * b + c, lanes)
    rng = np.random.default_rng(0)
    inputs = [rng.standard_normal(256).astype(np.float32) for _ in range(3)]
    quick, whole = (run_map(function, inputs, opt_level=level) for level in (QUICK, 3))
    np.testing.assert_array_equal(quick, whole)
    text = [("map", emit_module([function], HOST))]
    assert compile_modules(text, HOST, QUICK) != compile_modules(text, HOST, 3)


def test_text_that_llvm_refuses_is_an_error_that_names_the_module() -> None:
    with pytest.raises(CompileError, match="broken: LLVM IR parsing error"):
        compile_modules([("fine", GOOD), ("broken", "this is not an IR")], HOST)
    assert len(compile_modules([("fine", GOOD)], HOST)) == 1


def test_modules_may_need_fewer_passes_than_code_generation_has() -> None:
    """None of them leave a value on the stack that one of them keeps in a register."""
    slot = "  %p = alloca i64\n  store i64 %x, ptr %p\n  %v = load i64, ptr %p\n  ret i64 %v\n"
    text = f'target triple = "x86_64-linux-gnu"\ndefine i64 @f(i64 %x) {{\n{slot}}}\n'
    kept, none, full = compile_modules([("a", text), ("b", text), ("c", text)], HOST, 3, most=[1, 0, 3])
    assert kept == full and none != full


def test_a_worker_keeps_the_systems_of_modules_apart() -> None:
    pool = WorkerPool(1)
    try:
        texts = [GOOD, GOOD.replace("x86_64-linux-gnu", "x86_64-pc-windows-msvc"), GOOD]
        results = pool.compile([("m", [b"0 0", b"x86-64|", text.encode()]) for text in texts])
        assert [isinstance(result, bytes) and result[:4] == b"\x7fELF" for result in results] == [True, False, True]
        assert isinstance(results[1], bytes)
    finally:
        pool.close()


def test_a_dying_worker_costs_only_its_module(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    source = Path(compile_module.worker_script.__file__).read_text(encoding="utf-8")
    fatal = """if "die" in ir:
            import os
            os.write(2, b"LLVM ERROR: out of registers")
            os.abort()
"""
    script = tmp_path / "worker.py"
    script.write_text(source.replace("llvm = self._llvm\n", f"llvm = self._llvm\n        {fatal}", 1), encoding="utf-8")
    monkeypatch.setattr(compile_module.worker_script, "__file__", str(script))
    pool = WorkerPool(1)
    try:
        frames = [[b"0 0", b"x86-64|", text.encode()] for text in (GOOD, "; die", GOOD)]
        results = pool.compile(list(zip("abc", frames, strict=True)))
        assert isinstance(results[0], bytes) and isinstance(results[2], bytes)
        assert isinstance(results[1], str) and "died" in results[1] and "out of registers" in results[1]
    finally:
        pool.close()


@pytest.mark.parametrize("names", ["b", "bc"])
def test_a_worker_killed_while_idle_is_replaced(names: str) -> None:
    pool = WorkerPool(1)
    try:
        frames = [b"0 0", b"x86-64|", GOOD.encode()]
        assert isinstance(pool.compile([("a", frames)])[0], bytes)
        process = pool.grow(1)[0]._process
        os.kill(process.pid, signal.SIGKILL)
        process.wait()
        results = pool.compile([(name, frames) for name in names])
        assert all(isinstance(result, bytes) for result in results)
    finally:
        pool.close()


@pytest.mark.parametrize("executable", ["", "/nonexistent/python", __file__, "/"])
def test_without_an_interpreter_the_error_says_what_to_set(executable: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "executable", executable)
    with pytest.raises(ToolchainError, match=r"codegen: .*worker.*sys\.executable is .*expected (its|the) path"):
        WorkerPool(1).compile([("a", [b"0 0", b"x86-64|", GOOD.encode()])])


def test_an_interpreter_that_is_none_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "executable", "/bin/true")
    (result,) = WorkerPool(1).compile([("a", [b"0 0", b"x86-64|", GOOD.encode()])])
    assert "died over it twice: exit status 0 (is sys.executable, '/bin/true', a Python interpreter?)" in str(result)


@pytest.mark.parametrize(("error", "message"), [
    (errno.EMFILE, "raise the limit"), (errno.ENFILE, "raise the limit"), (errno.EAGAIN, "end other programs"),
    (errno.ENOMEM, "end other programs")])
def test_a_system_that_starts_nothing(error: int, message: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*arguments: object, **named: object) -> None:
        raise OSError(error, os.strerror(error))

    monkeypatch.setattr(subprocess, "Popen", refuse)
    with pytest.raises(ToolchainError, match=f"cannot start a compile worker: .*{message}"):
        WorkerPool(1).compile([("a", [b"0 0", b"x86-64|", GOOD.encode()])])
    with pytest.raises(ToolchainError, match=f"could not report its version: .*{message}"):
        link.run(["cc", "-v"], "report its version")


def test_the_worker_imports_nothing_of_forge() -> None:
    script = compile_module.worker_script.__file__
    probe = (f"import runpy, sys; runpy.run_path({script!r}); "
             "print([m for m in sys.modules if m.split('.')[0] in ('forge', 'numpy')])")
    done = subprocess.run([sys.executable, "-c", probe], capture_output=True, text=True, check=True, cwd="/")
    assert done.stdout.strip() == "[]"


def test_an_undefined_symbol_is_named() -> None:
    text = GOOD.replace("ret i32 7", "%v = call i32 @nowhere_at_all()\n  ret i32 %v") + "declare i32 @nowhere_at_all()\n"
    (code,) = compile_modules([("m", text)], HOST)
    with pytest.raises(CompileError, match="nowhere_at_all"):
        JitLibrary([code], ["f"])


def scale_program() -> Program:
    """y = x * w + 2 in two steps through the arena, for a symbolic length N."""
    n, i, size = tir.var("n"), tir.var("i"), tir.var("N")
    x, w, y = (Buffer(name, "float32", ()) for name in "xwy")
    product = stmt.store(y, i, tir.load(x, i) * tir.load(w, 0))
    scale = stmt.Function("scale", (x, w, y), (n,), stmt.loop(i, n, product, "parallel"))
    shift = stmt.Function("shift", (x, y), (n,), stmt.loop(i, n, stmt.store(y, i, tir.load(x, i) + 2.0)))
    arena, zero = stmt.Address(("arena", 0), tir.const(64)), tir.const(0)
    entry = stmt.If(size > 0, stmt.seq(
        stmt.CallKernel("scale", (stmt.Address(("input", 0), zero), stmt.Address(("weights", 0), tir.const(4)), arena), (size,)),
        stmt.CallKernel("shift", (arena, stmt.Address(("output", 0), zero)), (size,))))
    doubled: Expr = size * 2
    outputs = (TensorSpec("y", "float32", (size,)), TensorSpec('quoted "é"', "bool", (doubled, tir.const(3), doubled)))
    return Program("scale\\model", (scale, shift), entry, size * 4 + 64, (size,), (TensorSpec("x", "float32", (size,)),),
                   outputs, 8, ("avx2", "fma"))


def scale_library() -> Library:
    return Library((scale_program(),), weights_size=8)


class Dim(ctypes.Structure):
    _fields_ = [("size", ctypes.c_int64), ("symbol", ctypes.c_int64)]


class Spec(ctypes.Structure):
    _fields_ = [("name", ctypes.c_char_p), ("dtype", ctypes.c_int32), ("ndim", ctypes.c_int32), ("dims", Dim * 8),
                ("element", ctypes.c_void_p)]


class State(ctypes.Structure):
    _fields_ = [("name", ctypes.c_char_p), ("dtype", ctypes.c_int32), ("ndim", ctypes.c_int32), ("dims", ctypes.c_int64 * 8),
                ("initial_shape", ctypes.c_int64 * 8), ("axes", ctypes.c_int32 * 8), ("initial", ctypes.c_int64)]


SIZE = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_void_p)
DIMS = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p)
ENTRY = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_void_p)


class Model(ctypes.Structure):
    _fields_ = [
        *((name, ctypes.c_int32) for name in ("abi_version", "n_inputs", "n_outputs", "n_symbols", "n_dims", "reserved")),
        ("name", ctypes.c_char_p), ("cpu_features", ctypes.c_char_p), ("symbol_names", ctypes.POINTER(ctypes.c_char_p)),
        ("inputs", ctypes.POINTER(Spec)), ("outputs", ctypes.POINTER(Spec)), ("weights", ctypes.c_void_p),
        ("weights_size", ctypes.c_int64), ("arena_size", SIZE), ("dims", DIMS), ("entry", ENTRY),
        ("function", ctypes.c_char_p), ("functions", ctypes.POINTER(ctypes.c_void_p)), ("states", ctypes.POINTER(State)),
        ("bindings", ctypes.POINTER(ctypes.c_int32)), ("donated", ctypes.POINTER(ctypes.c_int32)),
        ("registered", ctypes.POINTER(ctypes.c_char_p)),
        *((name, ctypes.c_int32) for name in ("n_functions", "n_states", "n_bindings", "n_registered"))]


def run_model(model: Model, weights: int) -> list[float]:
    from tests.codegen.compiled import aligned, serial_host

    x, y, arena = np.arange(6, dtype=np.float32), np.zeros(6, np.float32), aligned((128,), "uint8")
    symbols = (ctypes.c_int64 * 1)(6)
    assert model.arena_size(symbols) == 6 * 4 + 64
    values = (ctypes.c_int64 * 1)()
    model.dims(symbols, values)
    assert values[0] == 12
    host = serial_host(2)
    inputs, outputs = (ctypes.c_void_p * 1)(x.ctypes.data), (ctypes.c_void_p * 2)(y.ctypes.data, None)
    fields = [ctypes.addressof(inputs), ctypes.addressof(outputs), weights, arena.ctypes.data, ctypes.addressof(symbols),
              ctypes.addressof(host), 0]
    assert model.entry((ctypes.c_void_p * 7)(*fields)) == 0
    return y.tolist()


def test_a_program_in_this_process() -> None:
    program = scale_program()
    codes = compile_modules([("kernels", emit_module(program.functions, HOST)),
                             ("entry", emit_library_entry(scale_library(), HOST))], HOST)
    library = JitLibrary(codes, [MODEL_SYMBOL])
    model = Model.from_address(library.addresses[MODEL_SYMBOL])
    assert (model.abi_version, model.n_inputs, model.n_outputs, model.n_symbols, model.n_dims) == (4, 1, 2, 1, 1)
    assert (model.name, model.cpu_features, model.symbol_names[0]) == (b"scale\\model", b"avx2,fma", b"N")
    assert model.weights is None and model.weights_size == 8
    first, second = model.outputs[0], model.outputs[1]
    assert (first.name, first.dtype, first.ndim, first.dims[0].size, first.dims[0].symbol) == (b"y", 11, 1, -1, 0)
    assert (second.name, second.dtype, second.ndim) == ('quoted "é"'.encode(), 0, 3)
    assert [(d.size, d.symbol) for d in second.dims[:3]] == [(-2, 0), (3, 0), (-2, 0)]
    weights = np.array([9, 3], np.float32)
    assert run_model(model, weights.ctypes.data) == [2, 5, 8, 11, 14, 17]


def test_tables_of_a_library_of_several_functions() -> None:
    first = dataclasses.replace(scale_program(), donated=(0,))
    asks = Control("ask", "call_registered", (), function="softcap")
    appends = Binding(1, 0, 1, StateMemory.APPENDED)
    second = dataclasses.replace(first, donated=(), function="decode", bindings=(appends,), controls=(asks,))
    states = (StateSpec("p", "bool", (), ()), StateSpec("k", "float32", (2, None), (1, 0), 64, (2, 5)))
    whole = Library((first, second), states, 8)
    names = [function.name for function in whole.functions]
    codes = compile_modules([("kernels", emit_module(scale_program().functions, HOST)),
                             ("entry", emit_library_entry(whole, HOST))], HOST)
    library = JitLibrary(codes, [MODEL_SYMBOL])
    main = Model.from_address(library.addresses[MODEL_SYMBOL])
    decode = Model.from_address(main.functions[1])
    assert names == ["scale", "shift"]
    assert (main.function, main.n_functions, main.functions[0]) == (b"main", 2, library.addresses[MODEL_SYMBOL])
    assert (decode.function, decode.n_functions, decode.functions[1]) == (b"decode", 2, main.functions[1])
    assert (main.donated[:2], bool(decode.donated)) == ([0, -1], False)
    assert (main.n_bindings, decode.n_bindings, decode.bindings[:4]) == (0, 1, [1, 0, 1, 2])
    assert main.n_states == decode.n_states == 2
    state = main.states[1]
    assert (state.name, state.dtype, state.ndim, state.initial) == (b"k", 11, 2, 64)
    assert (state.dims[:3], state.initial_shape[:3], state.axes[:3]) == ([2, -1, 0], [2, 5, 0], [1, 0, 0])
    assert main.states[0].initial == -1
    assert (main.n_registered, main.registered[0]) == (1, b"softcap")


@pytest.mark.parametrize("memory", [StateMemory.IN_PLACE, StateMemory.APPENDED])
@pytest.mark.parametrize("ends", [(0, None), (None, 1)])
def test_a_state_in_one_place_has_an_input_and_an_output(memory: StateMemory, ends: tuple[int | None, int | None]) -> None:
    """The runtime takes that for granted."""
    program = dataclasses.replace(scale_program(), bindings=(Binding(0, *ends, memory),))
    library = Library((program,), (StateSpec("k", "float32", (None,), (0,)),), 8)
    with pytest.raises(CompileError, match=rf"number 0: {memory.name}; got input {ends[0]} and output {ends[1]}; expected both"):
        emit_library_entry(library, HOST)


RUNTIME = Path(__file__).parents[2] / "runtime" / "src" / "forge_runtime" / "csrc"


@pytest.fixture
def codes() -> list[bytes]:
    program = scale_program()
    return compile_modules([("kernels", emit_module(program.functions, HOST)),
                            ("entry", emit_library_entry(scale_library(), HOST))], HOST)


def test_a_shared_library(codes: list[bytes], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    out = tmp_path / "new" / "modelLibrary.so"
    weights = np.array([9, 3], np.float32)
    out.parent.mkdir()
    layout = link_library(codes, weights.nbytes, HOST, RUNTIME)
    write_layout(out, layout)
    with out.open("r+b") as stream:
        stream.seek(4096)
        stream.write(weights.tobytes())
    library = ctypes.CDLL(str(out))
    library.forge_model_get.restype = ctypes.c_void_p
    model = Model.from_address(library.forge_model_get())
    assert model.weights % 4096 == 0
    assert run_model(model, model.weights) == [2, 5, 8, 11, 14, 17]
    assert not hasattr(library, "forge_kernel_scale")
    assert link_library(codes, weights.nbytes, HOST, RUNTIME) == layout


@pytest.fixture
def runtime_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of the runtime's objects, empty."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "cache" / "forge" / "runtime"


@pytest.fixture
def sources(tmp_path: Path) -> Path:
    """A runtime of two files, which is quickly compiled."""
    folder = tmp_path / "sources"
    folder.mkdir()
    for name in ("a", "b"):
        (folder / f"forge_{name}.c").write_text(f"int forge_{name}(void) {{ return 1; }}\n")
    return folder


@pytest.fixture
def compiled(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Grows by what the C compiler compiles."""
    purposes: list[str] = []
    run = link.run

    def noted(command: list[str], purpose: str) -> str:
        if "-c" in command:
            purposes.append(purpose)
        return run(command, purpose)

    monkeypatch.setattr(link, "run", noted)
    return purposes


def objects(sources: Path, work: Path) -> list[bytes]:
    work.mkdir(exist_ok=True)
    return [path.read_bytes() for path in link._runtime_objects(find_compiler(HOST), sources, work)]


def test_runtime_objects_are_compiled_once(runtime_cache: Path, sources: Path, compiled: list[str], tmp_path: Path) -> None:
    first, second = objects(sources, tmp_path / "1"), objects(sources, tmp_path / "2")
    assert first == second
    assert compiled == ["compile forge_a.c", "compile forge_b.c"]
    assert sorted(path.name for path in runtime_cache.rglob("*") if path.is_file()) == ["forge_a", "forge_b"]


@pytest.mark.parametrize("damage", ["flip", "truncate", "empty", "swap", "folder"])
def test_damaged_runtime_objects_are_compiled_anew(
    runtime_cache: Path, sources: Path, compiled: list[str], tmp_path: Path, damage: str
) -> None:
    known = objects(sources, tmp_path / "1")
    (path,) = runtime_cache.rglob("forge_a")
    content = path.read_bytes()
    if damage == "folder":
        path.unlink()
        (path / "x").mkdir(parents=True)
    else:
        path.write_bytes({"flip": content[:400] + bytes([content[400] ^ 1]) + content[401:], "truncate": content[:300],
                          "empty": b"", "swap": path.with_name("forge_b").read_bytes()}[damage])
    compiled.clear()
    assert objects(sources, tmp_path / "2") == known
    assert compiled == ["compile forge_a.c"]
    assert damage == "folder" or path.read_bytes() == content


def test_runtime_objects_depend_on_all_that_makes_them(
    runtime_cache: Path, sources: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def key(*command: str) -> str:
        return link._digest([*find_compiler(HOST), *command], sources)

    keys = [key(), key("-m64")]
    monkeypatch.setenv("CPATH", str(tmp_path))
    keys.append(key())
    (sources / "forge_a.h").write_text("")
    keys.append(key())
    told = tmp_path / "cc"
    told.write_text("#!/bin/sh\necho Target: another >&2\n")
    told.chmod(0o755)
    monkeypatch.setenv("CC", str(told))
    keys.append(key())
    told.write_text("#!/bin/sh\necho Target: this >&2\n")
    keys.append(key())
    assert len(set(keys)) == len(keys)


@pytest.mark.parametrize("step", ["mkdir", "fsync", "replace"])
def test_a_full_disk_of_the_cache_is_no_error(
    runtime_cache: Path, sources: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    def full(*arguments: object, **named: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    (tmp_path / "work").mkdir()
    with monkeypatch.context() as patch:
        patch.setattr(os, step, full)
        built = link._runtime_objects(find_compiler(HOST), sources, tmp_path / "work")
    assert all(path.read_bytes()[:4] == b"\x7fELF" for path in built)
    assert not [path for path in runtime_cache.rglob("*") if path.is_file()]


def test_without_a_home_directory_nothing_is_kept(sources: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def homeless() -> Path:
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.setattr(Path, "home", homeless)
    assert len(objects(sources, tmp_path / "1")) == 2
    assert (object_store.RUNTIME.size(), object_store.RUNTIME.clear()) == (0, 0)


def test_clearing_runtime_objects(runtime_cache: Path, sources: Path, tmp_path: Path) -> None:
    objects(sources, tmp_path / "1")
    size = object_store.RUNTIME.size()
    assert (size > 0, object_store.RUNTIME.clear(), object_store.RUNTIME.size(), runtime_cache.exists()) == (True, size, 0, False)


def test_no_compiler_is_an_error_that_names_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CC", raising=False)
    monkeypatch.setenv("PATH", "/nonexistent")
    with pytest.raises(ToolchainError, match="install one"):
        find_compiler(HOST)
    monkeypatch.setenv("CC", "no-such-compiler")
    with pytest.raises(ToolchainError, match="no-such-compiler"):
        find_compiler(HOST)


OTHER = Target.parse("llvm -mtriple=aarch64-unknown-linux-musl")


@pytest.fixture
def programs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The only folder of programs, on a machine whose architecture is not that of ``OTHER``."""
    monkeypatch.setattr("forge.target.host.architecture", lambda: X86_64)
    monkeypatch.delenv("CC", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    return tmp_path


def program(path: Path, machine: str) -> str:
    path.write_text(f"#!/bin/sh\necho {machine}\n")
    path.chmod(0o755)
    return str(path)


@pytest.mark.parametrize(("machine", "counts"), [
    ("aarch64-linux-gnu", True), ("arm64-apple-darwin", True), ("x86_64-linux-gnu", False), ("aarch64_be-linux-gnu", False)])
def test_a_given_compiler_counts_for_its_own_architecture(
    programs: Path, machine: str, counts: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    given = program(programs / "given", machine)
    cross = program(programs / "aarch64-linux-musl-gcc", "")
    monkeypatch.setenv("CC", f"{given} -O1")
    assert find_compiler(OTHER) == ([given, "-O1"] if counts else [cross])
    assert find_compiler(Target.parse("llvm -mcpu=x86-64")) == [given, "-O1"]


def test_compilers_for_another_architecture(programs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    package = programs / "ziglang" / "__init__.py"
    monkeypatch.setattr("importlib.util.find_spec", lambda name: ModuleSpec(name, None, origin=str(package)))
    program(programs / "gcc", "x86_64-linux-gnu")
    assert find_compiler(OTHER) == [str(package.with_name("zig")), "cc", "-target", "aarch64-linux-musl"]
    short = program(programs / "aarch64-linux-musl-gcc", "")
    assert find_compiler(OTHER) == [short]
    assert find_compiler(Target.parse("llvm -mtriple=aarch64-linux-gnu"))[1:] == ["cc", "-target", "aarch64-linux-gnu"]
    whole = program(programs / "aarch64-unknown-linux-musl-clang", "")
    assert find_compiler(OTHER) == [whole]


def test_no_compiler_for_another_architecture(programs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    monkeypatch.setenv("CC", program(programs / "cc", "x86_64-linux-gnu"))
    with pytest.raises(ToolchainError, match=r"for aarch64-unknown-linux-musl; looked at CC \(.*/cc\), and for aarch64-unknown-"
                       r"linux-musl-gcc, .*; pip install ziglang .* 'gcc-aarch64-linux-gnu', or set CC"):
        find_compiler(OTHER)
    monkeypatch.setenv("CC", "no-such-compiler")
    with pytest.raises(ToolchainError, match="no-such-compiler"):
        find_compiler(OTHER)


@pytest.mark.parametrize("architecture", ARCHITECTURES, ids=lambda architecture: architecture.name)
def test_the_data_layout_is_that_of_llvm(architecture: Architecture) -> None:
    llvm.initialize_all_targets()
    machine = llvm.Target.from_triple(architecture.triple).create_target_machine()
    assert str(machine.target_data) == architecture.data_layout
    target = Target.parse({"kind": "llvm", "mtriple": architecture.triple})
    written = f'target datalayout = "{architecture.data_layout}"' in emit_module([], target)
    assert written == instructions(target).table.has_layout


def test_a_failing_compiler_leaves_no_file(codes: list[bytes], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    with pytest.raises(ToolchainError, match="failed to link"):
        link_library([b"no object"], 0, HOST, RUNTIME, tmp_path)


def test_weights_need_an_object_to_tell_the_machine() -> None:
    with pytest.raises(CompileError, match="is not a little-endian ELF64 object"):
        machine_of(b"MZ" + bytes(100))
