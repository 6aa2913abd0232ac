"""Functions in C and C++ that are linked into a model."""

from __future__ import annotations

import shutil
import subprocess
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import forge
from forge import nn, transform
from forge.errors import CompileError, FunctionError, OptionError, ToolchainError
from forge.nn import spec

pytestmark = pytest.mark.skipif(shutil.which("c++") is None, reason="needs a C++ compiler")

SCALE = r"""
#include <forge/extern.h>

int32_t acme_scale(const forge_extern_value *arguments, const int32_t *kinds, int32_t count) {
  const DLTensor *x = arguments[0].tensor;
  DLTensor *y = arguments[2].tensor;
  int64_t size = 1;
  if (count != 3 || kinds[1] != FORGE_EXTERN_NUMBER || x->dtype.code != kDLFloat || x->dtype.bits != 32) return 1;
  for (int32_t k = 0; k < x->ndim; k++) size *= x->shape[k];
  for (int64_t k = 0; k < size; k++) ((float *)y->data)[k] = (float)arguments[1].number * ((const float *)x->data)[k];
  return 0;
}
"""

# The seed's sample with its line breaks, and a body.
SEED = r"""
// those headers are guaranteed to be available
#include <dlpack/dlpack.h>
#include <tvm/runtime/data_type.h>
#include <tvm/runtime/packed_func.h>

namespace {
// anonymous namespace hides the symbol `_my_func_impl` from other translation units
int _my_func_impl(DLTensor* a, DLTensor* b, DLTensor* c) {
  // `a` and `b` are inputs, and `c` is the output
  int64_t x = a->shape[0], y = a->shape[1], z = b->shape[1];
  for (int64_t i = 0; i < x; ++i)
    for (int64_t j = 0; j < y; ++j)
      for (int64_t k = 0; k < z; ++k)
        for (int64_t l = 0; l < 9; ++l)
          static_cast<float*>(c->data)[((i * y + j) * z + k) * 9 + l] =
              static_cast<float*>(a->data)[i * y + j] + static_cast<float*>(b->data)[(j * z + k) * 5 + l % 5];
  return 0;
}
}
// expose symbol `my_func` instead of `_my_func_impl`
TVM_DLL_EXPORT_TYPED_FUNC(my_func, _my_func_impl);
"""


def shape_dtype_inference(a: Any, b: Any) -> Any:
    x, y, _ = a.shape
    _, z, _ = b.shape
    return nn.Tensor.placeholder((x, y, z, 9), dtype="float32")


def scaling() -> nn.SourceModule:
    return nn.SourceModule({"acme_scale": lambda x, factor: nn.Tensor.placeholder(x.shape, "float32")}, SCALE, "c")


class Scaled(nn.Module):
    def __init__(self, module: nn.ExternModule) -> None:
        self.module = module

    def forward(self, x: nn.Tensor) -> nn.Tensor:
        return self.module["acme_scale"](x + 1, 2.5) * 2  # type: ignore[no-any-return]


SPEC = {"forward": {"x": spec.Tensor(["n", 3], "float32")}}
X = np.arange(12, dtype=np.float32).reshape(4, 3)


@pytest.mark.parametrize("how", ["reference", "compiled", "artifact"])
def test_a_function_of_c(how: str, tmp_path: Path) -> None:
    ir = Scaled(scaling()).export(SPEC)
    if how == "artifact":
        ir.compile(output_path=str(tmp_path / "model"))
        run: Any = forge.Runtime(str(tmp_path / "model"))
    else:
        run = ir.get_inference_function("reference") if how == "reference" else forge.compile(ir)
    assert run(X).tolist() == ((X + 1) * 5).tolist()
    assert run(X[:0]).shape == (0, 3)


def test_the_sample_of_the_seed(tmp_path: Path) -> None:
    module = nn.SourceModule(symbols={"my_func": shape_dtype_inference}, source_code=SEED, source_format="cpp")

    class Model(nn.Module):
        def forward(self, a: nn.Tensor, b: nn.Tensor) -> nn.Tensor:
            nn.add_extern(module)
            return module["my_func"](a, b)  # type: ignore[no-any-return]

    given = {"forward": {"a": spec.Tensor(["x", "y", 1], "float32"), "b": spec.Tensor(["y", "z", 5], "float32")}}
    with pytest.raises(OptionError, match="allow_extern=True"):
        Model().export_tvm(given)
    ir, _, modules = Model().export_tvm(given, allow_extern=True)
    assert modules == [module]
    rng = np.random.default_rng(0)
    a, b = rng.random((2, 3, 1), np.float32), rng.random((3, 4, 5), np.float32)
    expected = a[:, :, :, None] + b[None][..., np.arange(9) % 5]
    ir.compile(output_path=str(tmp_path / "model"))
    for run in (forge.compile(ir), forge.Runtime(str(tmp_path / "model")), ir.get_inference_function("reference")):
        np.testing.assert_array_equal(run(a, b), expected)


MIXED = r"""
#include <tvm/runtime/packed_func.h>
#include <stdexcept>
#include <vector>

static void mixed(const DLTensor* x, int64_t rows, int shift, double scale, const char* name, std::string last, DLTensor* sum,
                  DLTensor* text) {
  std::vector<double> total(1);
  for (int64_t k = 0; k < rows; ++k) total[0] += static_cast<const int32_t*>(x->data)[k];
  static_cast<double*>(sum->data)[0] = total[0] * scale + shift;
  static_cast<uint8_t*>(text->data)[0] = static_cast<uint8_t>(name[0]);
  static_cast<uint8_t*>(text->data)[1] = static_cast<uint8_t>(last.back());
}
TVM_DLL_EXPORT_TYPED_FUNC(acme_mixed, mixed);
"""


def test_arguments_of_all_kinds(tmp_path: Path) -> None:
    out = (nn.Tensor.placeholder((), "float64"), [nn.Tensor.placeholder((2,), "uint8")])
    module = nn.SourceModule({"acme_mixed": lambda *_: out}, MIXED, "cpp")

    class Model(nn.Module):
        def forward(self, x: nn.Tensor) -> Any:
            total, (text,) = module["acme_mixed"](x, x.shape[0], 3, 0.5, "abc", "xyz")
            return total, text

    ir = Model().export({"x": spec.Tensor(["n"], "int32")})
    ir.compile(output_path=str(tmp_path / "model"))
    for run in (forge.compile(ir), forge.Runtime(str(tmp_path / "model")), ir.get_inference_function("reference")):
        total, text = run(np.array([1, 2, 3, 4], np.int32))
        assert float(total) == 8 and text.tolist() == [ord("a"), ord("z")]


@pytest.mark.parametrize("how", ["reference", "compiled", "artifact"])
def test_registered_functions(how: str, tmp_path: Path) -> None:
    class Model(nn.Module):
        def forward(self, x: nn.Tensor) -> Any:
            plain = nn.extern("tests.double", [x], nn.Tensor.placeholder(x.shape, "float32"))
            return nn.extern("tests.mixed", [plain, 3, x.shape[0], 0.5, "text"], nn.Tensor.placeholder(x.shape, "float32"))

    seen = []

    def mixed(x: Any, number: int, size: Any, real: float, text: str, result: Any) -> None:
        seen.append((number, int(size), real, text))
        result[...] = x + number

    ir = Model().export(SPEC)
    forge.register_func("tests.double", lambda x, result: np.multiply(x, 2, out=result))
    forge.register_func("tests.mixed", mixed)
    try:
        if how == "artifact":
            ir.compile(output_path=str(tmp_path / "model"))
            run: Any = forge.Runtime(str(tmp_path / "model"))
        else:
            run = ir.get_inference_function("reference") if how == "reference" else forge.compile(ir)
        assert run(X).tolist() == (X * 2 + 3).tolist()
        assert seen == [(3, 4, 0.5, "text")]
    finally:
        forge.remove_registered_func("tests.double")
        forge.remove_registered_func("tests.mixed")


def test_the_sampler_that_the_seed_advises() -> None:
    class Sampled(nn.Module):
        def forward(self, prob: nn.Tensor, sample: nn.Tensor, rows: nn.Tensor) -> Any:
            out = nn.Tensor.placeholder((2, 1), "int64")
            advised = nn.extern("vm.builtin.multinomial_from_uniform", [prob, sample, rows], out)
            return advised, nn.multinomial_from_uniform(prob, sample, rows)

    column, floats = [2, 1], "float32"
    kinds = {"prob": spec.Tensor([2, 3], floats), "sample": spec.Tensor(column, floats), "rows": spec.Tensor(column, "int64")}
    run = forge.compile(Sampled().export({"forward": kinds}))
    prob = np.array([[0.2, 0.3, 0.5], [0.3, 0.4, 0.3]], np.float32)
    results = run(prob, np.array([[0.4], [0.9]], np.float32), np.array([[0], [1]]))
    assert [r.tolist() for r in results] == [[[1], [2]]] * 2


def test_an_object_file(tmp_path: Path) -> None:
    scaling().compile(tmp_path / "scale.o")
    module = nn.ObjectModule({"acme_scale": lambda x, factor: nn.Tensor.placeholder(x.shape, "float32")}, tmp_path / "scale.o")
    assert forge.compile(Scaled(module).export(SPEC))(X).tolist() == ((X + 1) * 5).tolist()
    assert module.load().acme_scale is not None
    with pytest.raises(OptionError, match="there is no file"):
        nn.ObjectModule({"acme_scale": len}, tmp_path / "other.o")
    (tmp_path / "text.o").write_text("no object")
    with pytest.raises(CompileError, match="is not an ELF object file"):
        forge.compile(Scaled(nn.ObjectModule({"acme_scale": lambda x, f: x}, tmp_path / "text.o")).export(SPEC))


def test_code_is_not_saved_and_attached_again(tmp_path: Path) -> None:
    module = scaling()
    ir = Scaled(module).export(SPEC)
    ir.save(str(tmp_path / "model.forge"))
    read = forge.load(str(tmp_path / "model.forge"))
    with pytest.raises(CompileError, match="no code has the function 'acme_scale'; attach"):
        forge.compile(read)
    attached = transform.AttachExternModules([module])(read)
    assert forge.compile(attached)(X).tolist() == ((X + 1) * 5).tolist()
    with pytest.raises(OptionError, match="expected external modules"):
        transform.AttachExternModules([3])


def test_threads() -> None:
    run = forge.compile(Scaled(scaling()).export(SPEC))
    results: list[Any] = [None] * 4

    def work(k: int) -> None:
        for _ in range(200):
            results[k] = run(X + k)

    threads = [threading.Thread(target=work, args=(k,)) for k in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for k, result in enumerate(results):
        assert result.tolist() == ((X + k + 1) * 5).tolist()


def test_functions_that_fail() -> None:
    module = scaling()

    class Wrong(nn.Module):
        def forward(self, x: nn.Tensor) -> nn.Tensor:
            an_integer = 2
            return module["acme_scale"](x, an_integer)  # type: ignore[no-any-return]

    ir = Wrong().export(SPEC)
    with pytest.raises(forge.ForgeError, match="the function 'acme_scale' returned status 1") as raised:
        forge.compile(ir)(X)
    assert isinstance(raised.value, FunctionError)
    with pytest.raises(forge.ForgeError, match="the function 'acme_scale' returned status 1"):
        ir.get_inference_function("reference")(X)


def test_artifacts_of_c_need_no_library_of_cpp(tmp_path: Path) -> None:
    Scaled(scaling()).export({"x": spec.Tensor([1, 3], "float32")}).compile(output_path=str(tmp_path / "model"))
    library = tmp_path / "model" / "modelLibrary.so"
    needed = subprocess.run(["readelf", "-d", str(library)], capture_output=True, text=True, check=True).stdout
    assert "libstdc++" not in needed


@pytest.mark.parametrize(("make", "error", "message"), [
    (lambda: nn.SourceModule({"f": len}, "int f;", "java"), OptionError, "got 'java'; expected one of: c, cpp"),
    (lambda: nn.SourceModule({"f": len}, "int f;", "c", output_format="wasm"), OptionError, "got 'wasm'; expected 'obj'"),
    (lambda: nn.SourceModule({"forge_run": len}, "int f;", "c"), OptionError, "got 'forge_run'; expected names of C"),
    (lambda: nn.SourceModule({}, "int f;", "c"), OptionError, "expected functions that infer results"),
    (lambda: nn.SourceModule({"é": len}, "int f;", "c"), OptionError, "got 'é'; expected names of C"),
    (lambda: nn.SourceModule({"f": len}, 3, "c"), OptionError, "source_code: got int; expected a text"),  # type: ignore[arg-type]
    (lambda: nn.SourceModule({"f": len}, Path("/no/f.c"), "c"), OptionError, "there is no file /no/f.c"),
    (lambda: nn.SourceModule({"f": len}, "int f;", "c", compile_options="-O3"), OptionError, "compile_options: got '-O3'"),
    (lambda: nn.SourceModule({"f": len}, "int f;", "c", link_options="-lm"), OptionError, "link_options: got '-lm'"),
    (lambda: nn.ObjectModule({"f": len}, 3), OptionError, "filepath: got int; expected a path"),  # type: ignore[arg-type]
    (lambda: nn.SourceModule({"f": len}, "int g() {", "c").load(), CompileError, r"(?s)refuses the source of f: .*expected"),
    (lambda: nn.SourceModule({"f": len}, "int g(void) { return 0; }", "c").load(), CompileError, "has no function 'f'; export"),
    (lambda: nn.SourceModule({"f": len}, "int f;", "c", compiler="no-such-cc").load(), ToolchainError, "'no-such-cc' is not"),
    (lambda: nn.SourceModule({"f": len}, "int f;", "c")["g"], OptionError, "'g' is not a function of it; expected one of: f"),
    (lambda: nn.extern("f", [], nn.Tensor.placeholder((1,), "float32")), OptionError, "outside of an export"),
])  # fmt: skip
def test_misuse(make: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        make()


def test_cuda_needs_its_compiler(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(ToolchainError, match="'nvcc' is not installed"):
        nn.SourceModule({"f": len}, "int f;", "cu").load()


def test_misuse_inside_methods() -> None:
    first, second = scaling(), scaling()

    class Twice(nn.Module):
        def forward(self, x: nn.Tensor) -> nn.Tensor:
            nn.add_extern(first)
            nn.add_extern(first)
            nn.add_extern(second)
            return x

    class Foreign(nn.Module):
        def forward(self, x: nn.Tensor) -> nn.Tensor:
            return nn.extern("acme_other", [x, {1}], x)  # type: ignore[no-any-return]

    with pytest.raises(OptionError, match="two modules have the function 'acme_scale'"):
        Twice().export(SPEC)
    with pytest.raises(OptionError, match="got set; expected tensors, numbers, sizes and texts"):
        Foreign().export(SPEC)


def test_defaults_of_the_compiler(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    assert nn.SourceModule.get_compile_options("cpp")[-3:] == ["-O3", "-std=c++17", "-fPIC"]
    assert (nn.SourceModule.tvm_home() / "include" / "dlpack" / "dlpack.h").is_file()
    assert all(folder.is_dir() for folder in nn.SourceModule.get_includes())
    monkeypatch.setenv("TVM_HOME", str(tmp_path))
    with pytest.raises(OptionError, match="expected a folder with 'include'"):
        nn.SourceModule.tvm_home()
    (tmp_path / "include").mkdir()
    assert nn.SourceModule.get_includes(["other"])[1:] == [tmp_path / "include", tmp_path / "3rdparty" / "other"]
