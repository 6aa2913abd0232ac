"""Products of complex tensors as four products of real ones, which have the kernels."""

from __future__ import annotations

from typing import Any

import numpy as np

from forge import dtypes
from forge.ops.core.op import Op
from forge.ops.core.signatures import Builder, Value, Values


def split_product(op: Op[Any], builder: Builder, attrs: Any, a: Value, b: Value) -> Values | None:
    """``op(a, b)``, bilinear, for complex operands; None for others.

    ``op(a, b)``  -->  ``make(op(re a, re b) - op(im a, im b), op(re a, im b) + op(im a, re b))``
    """
    if not dtypes.is_complex(a.dtype):
        return None
    options = dict(vars(attrs))
    wanted = options.pop("out_dtype", "") or a.dtype
    (a_real, a_imag), (b_real, b_imag) = (_parts(builder, x, wanted) for x in (a, b))
    pairs = ((a_real, b_real), (a_imag, b_imag), (a_real, b_imag), (a_imag, b_real))
    products = [builder.call(op, x, y, **options) for x, y in pairs]
    real = builder.call("subtract", products[0], products[1])
    return [builder.call("complex.make", real, builder.call("add", products[2], products[3]))]


def _parts(builder: Builder, x: Value, dtype: str) -> tuple[Value, Value]:
    """Real and imaginary part of ``x`` as ``dtype``; of a constant as constants, so that weights can be packed."""
    if x.constant is not None:
        array = x.constant.astype(dtypes.numpy_dtype(dtype))
        return builder.constant(np.ascontiguousarray(array.real)), builder.constant(np.ascontiguousarray(array.imag))
    wide = x if x.dtype == dtype else builder.call("cast", x, dtype=dtype)
    return builder.call("complex.real", wide), builder.call("complex.imag", wide)
