"""The code of external modules: what may be in it, how it is linked and loaded, what is refused."""

from __future__ import annotations

import json
import os
import random
import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import forge
import forge.relax.transform
from forge import nn, transform
from forge.codegen.user_objects import check_object
from forge.driver import compile_module
from forge.errors import CompileError, ExecutionError, FunctionError, ToolchainError
from forge.nn import spec
from forge.target import Target
from forge_runtime import include_directory
from forge_runtime.artifact import read_metadata

pytestmark = pytest.mark.skipif(shutil.which("c++") is None, reason="needs a C++ compiler")

X = np.arange(12, dtype=np.float32).reshape(4, 3)
FORMS = ("compiled", "artifact", "reference")


def same(x: nn.Tensor, *_: Any) -> nn.Tensor:
    return nn.Tensor.placeholder(x.shape, x.dtype)


def in_c(value: str, before: str = "", name: str = "acme_f", qualifiers: str = "") -> str:
    """A function of C: its only operand plus ``value``."""
    return f"""
#include <forge/extern.h>
{before}
{qualifiers} int32_t {name}(const forge_extern_value *arguments, const int32_t *kinds, int32_t count) {{
  const DLTensor *x = arguments[0].tensor;
  int64_t size = 1;
  (void)kinds;
  for (int32_t k = 0; k < x->ndim; k++) size *= x->shape[k];
  for (int64_t k = 0; k < size; k++)
    ((float *)arguments[count - 1].tensor->data)[k] = ((const float *)x->data)[k] + ({value});
  return 0;
}}
"""


def in_cpp(value: str, before: str = "", first: str = "") -> str:
    """The same in C++; ``first``: statements."""
    return f"""
#include <tvm/runtime/packed_func.h>
#include <map>
#include <stdexcept>
#include <string>
#include <vector>
{before}
static int implementation(DLTensor* x, DLTensor* y) {{
  {first}
  for (int64_t k = 0; k < 12; ++k) static_cast<float*>(y->data)[k] = static_cast<float*>(x->data)[k] + ({value});
  return 0;
}}
TVM_DLL_EXPORT_TYPED_FUNC(acme_f, implementation);
"""


def source(text: str, form: str = "c", name: str = "acme_f", **options: Any) -> nn.SourceModule:
    return nn.SourceModule({name: same}, text, form, **options)


def model(body: Callable[[nn.Tensor], Any], kind: Any = (4, 3)) -> forge.IRModule:
    class Model(nn.Module):
        def forward(self, x: nn.Tensor) -> Any:
            return body(x)

    return Model().export({"forward": {"x": spec.Tensor(list(kind), "float32")}})


def calling(module: nn.ExternModule, name: str = "acme_f") -> forge.IRModule:
    return model(lambda x: module[name](x))


def runner(ir: forge.IRModule, how: str, folder: Path) -> Any:
    if how == "artifact":
        ir.compile(output_path=str(folder / "model"), force_overwrite=True)
        return forge.Runtime(str(folder / "model"))
    return ir.get_inference_function("reference") if how == "reference" else forge.compile(ir)


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """An object file with ``acme_f``."""
    path = tmp_path_factory.mktemp("object") / "code.o"
    source(in_c("2")).compile(path)
    return path.read_bytes()


@pytest.fixture
def attached(built: bytes, tmp_path: Path) -> nn.ObjectModule:
    (tmp_path / "code.o").write_bytes(built)
    return nn.ObjectModule({"acme_f": same}, tmp_path / "code.o")


# What an object may need of the process that loads it.
CODE = {
    "a variable with a constructor": (in_cpp("table.at(2)", "static std::map<int, int> table{{1, 2}, {2, 7}};"), "cpp", 7),
    "a string in a function": (in_cpp("text.size()", first='static std::string text = "hello";'), "cpp", 5),
    "a variable of each thread": (in_cpp("++calls * 0 + 4", "static thread_local int calls = 3;"), "cpp", 4),
    "an exception inside": (in_cpp("n", first="int n = 0; try { throw 1; } catch (int k) { n = k; }"), "cpp", 1),
    "a constructor of C": (in_c("seed", "static int seed; __attribute__((constructor)) void f(void) { seed = 9; }"), "c", 9),
    "the C library": (in_c("(float)strlen(text)", '#include <string.h>\nconst char *text = "four";'), "c", 4),
}


@pytest.mark.parametrize("how", FORMS)
@pytest.mark.parametrize("what", CODE)
def test_code_is_initialized(what: str, how: str, tmp_path: Path) -> None:
    text, form, expected = CODE[what]
    run = runner(calling(source(text, form)), how, tmp_path)
    assert [run(X).tolist() for _ in range(2)] == [(X + expected).tolist()] * 2


FAILING = {
    "threw an exception": (in_cpp("0", first='throw std::runtime_error("no");'), "cpp"),
    "does not take these arguments": (in_cpp("0").replace("DLTensor* y)", "DLTensor* y, DLTensor* z)"), "cpp"),
    "returned status 7": (in_c("0").replace("return 0;", "return 7;"), "c"),
}


@pytest.mark.parametrize("how", FORMS)
@pytest.mark.parametrize("problem", FAILING)
def test_errors_name_node_function_and_problem(problem: str, how: str, tmp_path: Path) -> None:
    module = source(*FAILING[problem])
    run = runner(model(lambda x: nn.relu(module["acme_f"](x))), how, tmp_path)
    where = "call_extern" if how == "reference" else r"node acme_f \(call_extern\)"
    error = ExecutionError if how == "reference" else FunctionError
    with pytest.raises(error, match=f"{where}: the function 'acme_f' {problem}"):
        run(X)


@pytest.mark.parametrize("name", ["exp", "memcpy", "snprintf", "index"])
def test_functions_may_have_names_of_the_c_library(name: str, tmp_path: Path) -> None:
    ir = calling(source(in_c("1", name=name), name=name, compile_options=[
        *nn.SourceModule.get_compile_options("c"), "-fno-builtin"]), name)  # fmt: skip
    for how in FORMS:
        assert runner(ir, how, tmp_path)(X).tolist() == (X + 1).tolist()


MAIN = r"""
#include <stdio.h>
#include "forge_runtime.h"

float acme_f(float x) { return x - 100; } /* of the program, and not what the model calls */

int main(void) {
  float x[12], y[12];
  forge_error error;
  for (int k = 0; k < 12; k++) x[k] = (float)k;
  const forge_tensor input = {.data = x, .dtype = FORGE_FLOAT32, .ndim = 2, .shape = {4, 3}};
  forge_tensor output = {.data = y, .capacity = sizeof y};
  if (forge_run(forge_model_get(), &input, &output, NULL, &error) != FORGE_OK) return puts(error.message), 1;
  for (int k = 0; k < 12; k++) printf("%g ", (double)(y[k] + 0 * acme_f(x[k])));
  return 0;
}
"""


def test_a_program_of_c_does_not_replace_functions_of_the_model(attached: nn.ObjectModule, tmp_path: Path) -> None:
    calling(attached).compile(output_path=str(tmp_path / "model"))
    library, program = tmp_path / "model" / "modelLibrary.so", tmp_path / "program"
    (tmp_path / "main.c").write_text(MAIN)
    flags = ["-rdynamic", "-I", str(include_directory()), f"-Wl,-rpath,{library.parent}", "-o", str(program)]
    subprocess.run([*os.environ.get("CC", "cc").split(), str(tmp_path / "main.c"), str(library), *flags], check=True)
    said = subprocess.run([program], check=True, capture_output=True, text=True).stdout
    assert said.split() == [str(k + 2) for k in range(12)]


def test_modules_of_one_process_keep_their_own_functions(tmp_path: Path) -> None:
    models = {number: calling(source(in_c(str(number)))) for number in (2, 3)}
    for how in FORMS:
        for number, ir in models.items():
            assert runner(ir, how, tmp_path)(X).tolist() == (X + number).tolist()


def reversed_and_scaled() -> nn.SourceModule:
    """Needs all elements of its operand before it writes any."""
    text = r"""
#include <tvm/runtime/packed_func.h>
static int turn(const DLTensor* x, double factor, const char* text, DLTensor* y) {
  int64_t size = 1, length = static_cast<int64_t>(std::string(text).size());
  for (int k = 0; k < x->ndim; ++k) size *= x->shape[k];
  for (int64_t k = 0; k < size; ++k)
    static_cast<float*>(y->data)[k] = static_cast<float>(static_cast<float*>(x->data)[size - 1 - k] * factor + length);
  return 0;
}
TVM_DLL_EXPORT_TYPED_FUNC(acme_f, turn)
static int pair(const DLTensor* x, DLTensor* a, DLTensor* b) {
  for (int k = 0; k < 12; ++k) {
    static_cast<float*>(a->data)[k] = static_cast<float*>(x->data)[k] + 1;
    static_cast<int64_t*>(b->data)[k] = k;
  }
  return 0;
}
TVM_DLL_EXPORT_TYPED_FUNC(acme_pair, pair)
static int about(const DLTensor* x, DLTensor* y) {
  const int64_t found[] = {x->ndim, x->dtype.code, x->dtype.bits, x->dtype.lanes, x->device.device_type, x->device.device_id,
                           x->strides == nullptr, static_cast<int64_t>(x->byte_offset)};
  for (int k = 0; k < 8; ++k) static_cast<int64_t*>(y->data)[k] = found[k];
  return 0;
}
TVM_DLL_EXPORT_TYPED_FUNC(acme_about, about)
"""
    results = {"acme_f": same, "acme_about": lambda x: nn.Tensor.placeholder((8,), "int64"),
               "acme_pair": lambda x: (same(x), nn.Tensor.placeholder(x.shape, "int64"))}  # fmt: skip
    return nn.SourceModule(results, text, "cpp")


TURNING = reversed_and_scaled()
ONES = np.full((2, 2), 3, np.float32)


def turn(x: Any, factor: Any = 2.0, text: str = "a") -> Any:
    return TURNING["acme_f"](x, factor, text)


def turned(x: Any, factor: float = 2, length: int = 1) -> np.ndarray:
    x = np.ascontiguousarray(x)
    return np.asarray(x.ravel()[::-1].reshape(x.shape) * np.float32(factor) + np.float32(length), np.float32)


GRAPHS: dict[str, tuple[Callable[[nn.Tensor], Any], Any]] = {
    "numbers and texts that differ": (
        lambda x: (turn(x), turn(x, 3.0), turn(x, 2.0, "abc")), (turned(X), turned(X, 3), turned(X, 2, 3))),
    "among element-wise operators": (lambda x: nn.relu(turn(x * 2 + 1) - 5) * 3, np.maximum(turned(X * 2 + 1) - 5, 0) * 3),
    "one after the other": (lambda x: turn(turn(x, 3.0) + 1) * x, turned(turned(X, 3) + 1) * X),
    "a transposed operand": (lambda x: turn(nn.permute_dims(x, [1, 0])), turned(X.T)),
    "views": (lambda x: nn.reshape(turn(nn.reshape(x, (2, 6))), (12,)), turned(X).ravel()),
    "a part": (lambda x: turn(nn.split(x, 3, 1)[1]), turned(X[:, 1:2])),
    "a broadcast operand": (lambda x: turn(nn.broadcast_to(nn.split(x, 4, 0)[1], (4, 3))), turned(X[[1] * 4])),
    "a constant": (lambda x: turn(nn.Tensor.from_const(ONES)), turned(ONES)),
    "a constant of one element": (lambda x: turn(nn.Tensor.from_const(np.float32(3))) + x, X + 7),
    "the same operand twice": (lambda x: turn(x) + turn(x), 2 * turned(X)),
    "several results": (lambda x: TURNING["acme_pair"](x), (X + 1, np.arange(12).reshape(4, 3))),
    "a result that nobody reads": (lambda x: TURNING["acme_pair"](x)[0] * 2, (X + 1) * 2),
    "infinity": (lambda x: turn(x + 1, float("inf")), turned(X + 1, np.inf)),
    "numbers of NumPy": (lambda x: turn(x, np.float32(2), "é"), turned(X, 2, 2)),
    **{f"an operand of {dtype}": (lambda x, dtype=dtype: TURNING["acme_about"](nn.astype(x, dtype)),  # type: ignore[misc]
                                  [2, code, bits, 1, 1, 0, 1, 0])
       for dtype, code, bits in (("bool", 6, 8), ("int8", 0, 8), ("uint16", 1, 16), ("int64", 0, 64), ("float16", 2, 16),
                                 ("bfloat16", 4, 16), ("float64", 2, 64))},
}  # fmt: skip


@pytest.mark.parametrize("what", GRAPHS)
def test_operands_and_results(what: str, tmp_path: Path) -> None:
    body, expected = GRAPHS[what]
    ir = model(body)
    wanted = expected if isinstance(expected, tuple) else (expected,)
    for how in FORMS:
        results = runner(ir, how, tmp_path)(X)
        got = results if isinstance(results, list | tuple) else [results]
        for result, array in zip(got, wanted, strict=True):
            np.testing.assert_array_equal(result, np.asarray(array))


def test_fusion_stops_at_a_call() -> None:
    ir = model(lambda x: nn.relu(turn(x * 2 + 1) - 5) * 3)
    assert compile_module(ir.mod, use_cache=False).summary["groups"] == 3


def test_a_donated_operand_is_not_overwritten_while_it_is_read() -> None:
    ir = model(lambda x: turn(x))
    ir.mod.main.donated = {"x": 0}
    np.testing.assert_array_equal(forge.compile(ir)(X.copy()), turned(X))


TEXT = r"""
def @main(%c: bool, %x: Tensor[(4, 3), float32]) {
  if(%c, %x) {
    then_branch = fn (%y: Tensor[(4, 3), float32]) {
      %0 = call_extern(%y, function="acme_f", shapes=[[4, 3]], dtypes=["float32"], arguments="[null, 2.0, \"a\"]");
      add(%0, %y)
    },
    else_branch = fn (%z: Tensor[(4, 3), float32]) {
      call_extern_pure(%z, function="acme_f", shapes=[[4, 3]], dtypes=["float32"], arguments="[null, 3.0, \"abc\"]")
    }
  }
}
"""


def test_branches(tmp_path: Path) -> None:
    ir = forge.relax.transform.AttachExternModules([TURNING])(forge.IRModule(TEXT))
    for how in FORMS:
        run = runner(ir, how, tmp_path)
        np.testing.assert_array_equal(run(np.array(True), X), turned(X) + X)
        np.testing.assert_array_equal(run(np.array(False), X), turned(X, 3, 3))


@pytest.mark.parametrize(("arguments", "problem"), [
    ("[null", "expected the text of a JSON list"),
    ("[" * 100_000, "expected the text of a JSON list"),
    ("{}", "1 times null"),
    ("[null, null]", "1 times null"),
    ("[null, true]", "an argument; got True"),
    ('[null, {"size": 0}]', "an argument; got {'size': 0}"),
    (f"[null, {1 << 63}]", "integers of 64 bits"),
    ('[null, "a\\u0000b"]', "texts without zero"),
    ('[null, "\\ud800"]', "texts without zero"),
    ("[null" + ", 1" * 1000 + "]", "at most 1000"),
])  # fmt: skip
def test_arguments_of_files_are_checked(arguments: str, problem: str) -> None:
    given = json.dumps(arguments)
    with pytest.raises(forge.ForgeError, match=problem.replace("{", r"\{")):
        forge.IRModule(f'def @main(%x: Tensor[(2), int8]) {{ call_extern(%x, function="f", shapes=[[2]], dtypes=["int8"], '
                       f"arguments={given}) }}")


@pytest.mark.parametrize("dtype", ["complex64", "int4", "float8_e4m3fn"])
def test_element_types_that_dlpack_lacks(dtype: str) -> None:
    with pytest.raises(forge.ForgeError, match=f"an element type; got {dtype}; expected integers, floats or bool"):
        forge.IRModule(f'def @main(%x: Tensor[(2), {dtype}]) {{ call_extern(%x, function="f", shapes=[[2]], '
                       f'dtypes=["{dtype}"]) }}')


def test_pure_functions_are_called_once_and_others_as_written() -> None:
    def body(x: nn.Tensor, module: nn.SourceModule) -> Any:
        module["acme_f"](x)
        return module["acme_f"](x) + module["acme_f"](x)

    counted = {}
    for is_pure in (True, False):
        module = source(in_c("1"), is_pure=is_pure)
        ir = model(lambda x, module=module: body(x, module))  # type: ignore[misc]
        compiled = compile_module(ir.mod, use_cache=False)
        assert compiled.runtime()(X).tolist() == (2 * X + 2).tolist()
        counted[is_pure] = compiled.summary["groups"]
    assert counted == {True: 2, False: 4}


@pytest.mark.parametrize("how", FORMS)
def test_calls_without_elements_are_made(how: str, tmp_path: Path) -> None:
    module = source(in_c("0").replace("return 0;", "return 7;"))
    run = runner(model(lambda x: (module["acme_f"](nn.split(x, [0], 0)[0]), x)), how, tmp_path)
    with pytest.raises(forge.ForgeError, match="returned status 7"):
        run(X)


def elf(code: bytes, at: int, value: bytes) -> bytes:
    return code[:at] + value + code[at + len(value) :]


DAMAGED: dict[str, tuple[Callable[[bytes], bytes], str]] = {
    "empty": (lambda code: b"", "is not an ELF object file"),
    "a text": (lambda code: b"int f;" * 100, "is not an ELF object file"),
    "a header alone": (lambda code: code[:64], "the object file is damaged"),
    "half of it": (lambda code: code[: len(code) // 2], "the object file is damaged"),
    "sections nowhere": (lambda code: elf(code, 0x28, b"\xff" * 8), "the object file is damaged"),
    "too many sections": (lambda code: elf(code, 0x3C, b"\xff\xff"), "the object file is damaged"),
    "another machine": (lambda code: elf(code, 18, b"\x08\x00"), r"is for another machine \(number 8 of ELF\)"),
    "32 bits": (lambda code: elf(code, 4, b"\x01"), "is not an ELF object file"),
    "a library": (lambda code: elf(code, 16, b"\x03\x00"), "is not an ELF object file"),
}


@pytest.mark.parametrize("damage", DAMAGED)
def test_objects_that_are_none(damage: str, built: bytes, tmp_path: Path) -> None:
    change, message = DAMAGED[damage]
    (tmp_path / "code.o").write_bytes(change(built))
    ir = calling(nn.ObjectModule({"acme_f": same}, tmp_path / "code.o"))
    with pytest.raises(CompileError, match=f"ObjectModule .*code.o: {message}"):
        ir.compile(output_path=str(tmp_path / "model"))
    assert not (tmp_path / "model").exists()


def test_damaged_objects_raise_nothing_else(built: bytes) -> None:
    draw = random.Random(0)
    refused = 0
    for _ in range(300):
        code = bytearray(built)
        for _ in range(4):
            code[draw.choice([draw.randrange(64), draw.randrange(len(code) // 2, len(code))])] = draw.randrange(256)
        try:
            check_object(bytes(code), ["acme_f"], Target.parse("llvm"), "here")
        except CompileError:
            refused += 1
    assert refused > 100


@pytest.mark.parametrize(("text", "message"), [
    (in_c("1", qualifiers="static"), "has no function 'acme_f'; export it"),
    (in_c("1", name="acme_g"), "has no function 'acme_f'; export it"),
    (in_c("1", qualifiers='__attribute__((visibility("hidden")))'), "function 'acme_f' is hidden"),
    ("int acme_f = 3;", "'acme_f' is a variable"),
    (in_c("1", "int forge_run(void) { return 0; }"), "defines 'forge_run'; expected neither main"),
    (in_c("1", "int main(void) { return 0; }"), "defines 'main'; expected neither main"),
])  # fmt: skip
def test_sources_that_do_not_fit(text: str, message: str) -> None:
    with pytest.raises(CompileError, match=f"SourceModule of acme_f: {message}"):
        forge.compile(calling(source(text)))


def test_symbols_that_clash(tmp_path: Path) -> None:
    helper = "int acme_help(int x) { return x; }"
    first, second = source(in_c("acme_help(1)", helper)), source(in_c("acme_help(2)", helper, "acme_g"), name="acme_g")
    both = model(lambda x: second["acme_g"](first["acme_f"](x)))
    with pytest.raises(CompileError, match="two external modules define 'acme_help'; make it static in one"):
        forge.compile(both)
    taken = calling(source(in_c("1", "void *memset(void *p, int v, unsigned long n) { (void)v, (void)n; return p; }")))
    with pytest.raises(CompileError, match="defines 'memset', which the rest of the model calls"):
        taken.compile(output_path=str(tmp_path / "model"))
    assert not (tmp_path / "model").exists()
    again = transform.AttachExternModules([source(in_c("1"))])(calling(source(in_c("1"))))
    with pytest.raises(CompileError, match="2 external modules have the function 'acme_f'; expected one"):
        forge.compile(again)


def test_libraries_of_the_users(tmp_path: Path) -> None:
    (tmp_path / "help.c").write_text("int acme_help(int x) { return x + 1; }")
    cc = os.environ.get("CC", "cc").split()
    subprocess.run([*cc, "-shared", "-fPIC", str(tmp_path / "help.c"), "-o", str(tmp_path / "libacme_help.so")], check=True)
    text = in_c("acme_help(1)", "int acme_help(int x);")
    for how in FORMS:
        with pytest.raises(CompileError, match=r"(?s)link.*acme_f.*undefined reference to .acme_help"):
            runner(calling(source(text)), how, tmp_path)(X)
    options = ["-L", str(tmp_path), "-lacme_help", f"-Wl,-rpath,{tmp_path}"]
    for how in FORMS:
        assert runner(calling(source(text, link_options=options)), how, tmp_path)(X).tolist() == (X + 2).tolist()


def test_what_an_artifact_needs_and_says(tmp_path: Path) -> None:
    throwing = in_cpp("0", first='if (!y) throw std::runtime_error("");')
    expected: dict[str, tuple[str, list[str]]] = {"plain": (in_cpp("0"), []), "with exceptions": (throwing, ["-lstdc++"])}
    for name, (text, libraries) in expected.items():
        calling(source(text, "cpp")).compile(output_path=str(tmp_path / name))
        metadata = read_metadata(tmp_path / name)
        assert (metadata["external"], metadata["external_libraries"]) == (["acme_f"], libraries)
        library = str(tmp_path / name / "modelLibrary.so")
        needed = subprocess.run(["readelf", "-d", library], capture_output=True, text=True, check=True).stdout
        assert ("libstdc++" in needed) == bool(libraries)
        shown = subprocess.run(["nm", "-D", "--defined-only", library], capture_output=True, text=True, check=True).stdout
        assert {line.split()[-1][:6] for line in shown.splitlines()} == {"forge_"}


@pytest.fixture
def cache(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Path]:
    monkeypatch.setenv("FORGE_CACHE", "1")
    monkeypatch.setenv("FORGE_CACHE_DIR", str(tmp_path / "cache"))
    yield tmp_path / "cache" / "models"


def test_code_is_in_the_key_of_the_cache(cache: Path) -> None:
    for number, entries in ((1, 1), (2, 2), (1, 2)):
        assert forge.compile(calling(source(in_c(str(number)))))(X).tolist() == (X + number).tolist()
        assert len(list(cache.iterdir())) == entries


def test_modules_made_of_others_keep_their_code(attached: nn.ObjectModule) -> None:
    class Model(nn.Module):
        def __init__(self) -> None:
            self.before, self.after = nn.Linear(16, 16), nn.Linear(16, 16)

        def forward(self, x: nn.Tensor) -> Any:
            return self.after(attached["acme_f"](nn.relu(self.before(x))))

    network, rng = Model(), np.random.default_rng(0)
    for _, parameter in network.named_parameters():
        parameter.data = rng.standard_normal(parameter.shape).astype(np.float32)
    ir = network.export({"forward": {"x": spec.Tensor([8, 16], "float32")}})
    x = rng.standard_normal((8, 16)).astype(np.float32)
    expected = np.asarray(ir.get_inference_function("reference")(x))
    made = {"graph": forge.create_executor("graph", ir), "debug": forge.create_executor("debug", ir)}
    for executor in made.values():
        np.testing.assert_allclose(executor.evaluate()(x), expected, rtol=1e-5, atol=1e-4)
    assert forge.bisect(ir, [x]).kind == ""
    quantized = ir.copy()
    quantized.quantize(calib_data=[{"x": x}])
    error = np.abs(np.asarray(forge.compile(quantized)(x)) - expected).max()
    assert error < 0.05 * np.abs(expected).max()


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("nvcc") is None, reason="needs nvcc")
def test_cuda(tmp_path: Path) -> None:
    """A kernel of CUDA is compiled and linked; what runs here is the host's part."""
    text = in_cpp("1", "__global__ void kernel(float* y) { y[0] = 1; }\nvoid launch(float* y) { kernel<<<1, 1>>>(y); }")
    assert runner(calling(source(text, "cu")), "artifact", tmp_path)(X).tolist() == (X + 1).tolist()


def test_a_linker_that_is_missing(attached: nn.ObjectModule, monkeypatch: pytest.MonkeyPatch) -> None:
    ir = calling(attached)
    monkeypatch.setenv("CC", "no-such-compiler")
    monkeypatch.setattr("forge.codegen.user_objects._loaded", {})
    with pytest.raises(ToolchainError, match="no C compiler; looked for no-such-compiler"):
        forge.compile(ir)(X)
