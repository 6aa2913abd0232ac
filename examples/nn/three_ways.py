"""One operator written three ways: with functions of ``forge.nn``, as a tensor expression, and in C++.

    python -m examples.nn.three_ways

``y[i, j] = x[i, j] / sqrt(mean of x[i, :] ** 2 + epsilon) * weight[j]``, for rows of any number.
"""

from __future__ import annotations

import time
from typing import Any

import numpy as np

import forge
from forge import nn, te
from forge.nn import spec

EPSILON = 1e-6


class WithFunctions(nn.Module):
    """Functions of ``forge.nn``, which Forge recognizes and fuses."""

    def __init__(self, size: int) -> None:
        self.weight = nn.Parameter((size,))

    def forward(self, x: nn.Tensor) -> nn.Tensor:
        mean = nn.mean(nn.square(x), axis=-1, keepdims=True)
        return x / nn.sqrt(mean + EPSILON) * self.weight


def normalized(x: te.Tensor, weight: te.Tensor) -> te.Tensor:
    """The same, element by element: what, and not in which order."""
    rows, size = x.shape
    r = te.reduce_axis(size, "r")
    squares = te.compute((rows,), lambda i: te.reduce("sum", x[i, r.var] * x[i, r.var], [r]), "squares")
    scale = te.compute((rows,), lambda i: 1.0 / te.call("sqrt", squares[i] / te.cast(size, "float32") + EPSILON), "scale")
    return te.compute((rows, size), lambda i, j: x[i, j] * scale[i] * weight[j], "normalized")


class WithExpression(WithFunctions):
    """A tensor expression: Forge makes the loops."""

    def forward(self, x: nn.Tensor) -> nn.Tensor:
        return nn.tensor_expr_op(normalized, "normalized", [x, self.weight])


SOURCE = r"""
#include <tvm/runtime/packed_func.h>
#include <cmath>

typedef float lanes __attribute__((vector_size(64), aligned(4)));  // GCC's and Clang's vectors, of any CPU

static void normalize(const DLTensor* x, const DLTensor* weight, double epsilon, DLTensor* y) {
  const int64_t rows = x->shape[0], size = x->shape[1];
  const float* w = static_cast<const float*>(weight->data);
  for (int64_t i = 0; i < rows; ++i) {
    const float* in = static_cast<const float*>(x->data) + i * size;
    float* out = static_cast<float*>(y->data) + i * size;
    lanes parts[4] = {};
    int64_t j = 0;
    for (; j + 64 <= size; j += 64)
      for (int k = 0; k < 4; ++k) {
        const lanes a = *reinterpret_cast<const lanes*>(in + j + 16 * k);
        parts[k] += a * a;
      }
    const lanes all = (parts[0] + parts[1]) + (parts[2] + parts[3]);
    float sum = 0;
    for (int k = 0; k < 16; ++k) sum += all[k];
    for (; j < size; ++j) sum += in[j] * in[j];
    const float scale = 1 / std::sqrt(sum / size + static_cast<float>(epsilon));
    for (j = 0; j + 16 <= size; j += 16)
      *reinterpret_cast<lanes*>(out + j) =
          *reinterpret_cast<const lanes*>(in + j) * scale * *reinterpret_cast<const lanes*>(w + j);
    for (; j < size; ++j) out[j] = in[j] * scale * w[j];
  }
}
TVM_DLL_EXPORT_TYPED_FUNC(example_normalize, normalize);
"""


class WithSource(WithFunctions):
    """A function in C++, which is linked into the model."""

    def __init__(self, size: int) -> None:
        super().__init__(size)
        options = [*nn.SourceModule.get_compile_options("cpp"), "-march=native", "-ffp-contract=fast", "-fno-strict-aliasing"]
        results = {"example_normalize": lambda x, weight, epsilon: nn.Tensor.placeholder(x.shape, "float32")}
        self.source = nn.SourceModule(results, SOURCE, "cpp", options)

    def forward(self, x: nn.Tensor) -> nn.Tensor:
        return self.source["example_normalize"](x, self.weight, EPSILON)


WAYS: dict[str, type[WithFunctions]] = {"functions": WithFunctions, "expression": WithExpression, "C++": WithSource}


def compiled(way: str, weight: np.ndarray) -> Any:
    """One of the models, which takes ``(rows, size)``."""
    model = WAYS[way](len(weight))
    model.weight.data = weight
    return forge.compile(model.export({"x": spec.Tensor(["rows", len(weight)], "float32")}))


def main() -> None:
    rng = np.random.default_rng(0)
    x, weight = rng.standard_normal((512, 1024)).astype(np.float32), rng.random(1024, np.float32)
    expected = x / np.sqrt(np.mean(x.astype(np.float64) ** 2, 1, keepdims=True) + EPSILON) * weight
    for way in WAYS:
        run = compiled(way, weight)
        np.testing.assert_allclose(run(x), expected, rtol=1e-5, atol=1e-6)
        times = []
        for _ in range(20):
            begin = time.perf_counter()
            run(x)
            times.append(time.perf_counter() - begin)
        print(f"{way}: {1e6 * min(times):.0f} us")


if __name__ == "__main__":
    main()
