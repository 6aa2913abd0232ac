"""One node of onnxruntime's own domain: Forge, interpreted and compiled with guarded memory, against onnxruntime or NumPy."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import onnx
from onnx import helper, numpy_helper

from forge import dtypes
from forge.driver import check_options, compile_module
from forge.frontends.onnx import import_model
from forge.frontends.onnx.tensors import element_code
from forge.ir.graph import Module
from forge.ir.op import Accuracy
from forge.target import Target
from tests import guard_runtime
from tests.frontends.onnx.support import evaluate, onnxruntime_outputs
from tests.ops import compare

DOMAIN = "com.microsoft"
OPSET = 17

HAS_VNNI = bool({"avx512vnni", "avxvnni"} & set(Target.parse("llvm").features))
"""Whether onnxruntime's products of uint8 and int8 are exact here; elsewhere pairs of them saturate unless int8 has 7 bits."""

Arrays = Sequence[np.ndarray]


def node_model(
    op: str,
    inputs: Sequence[np.ndarray | None],
    attributes: dict[str, Any] | None = None,
    *,
    outputs: Sequence[bool] = (True,),
    constant: Sequence[int] = (),
    symbolic: Sequence[int] = (),
    domain: str = DOMAIN,
    opset: int = OPSET,
    declared: Mapping[int, int] | None = None,
) -> onnx.ModelProto:
    """A model of one node.

    Args:
        outputs: which outputs are there.
        constant: positions of inputs that are initializers.
        symbolic: sizes that are symbols, the same symbol wherever the size occurs in an input.
        declared: element types of outputs that onnxruntime does not infer.
    """
    names = ["" if x is None else f"x{i}" for i, x in enumerate(inputs)]
    results = [f"y{i}" if wanted else "" for i, wanted in enumerate(outputs)]
    node = helper.make_node(op, names, results, name=f"the_{op}", domain=domain, **(attributes or {}))
    given = [
        helper.make_tensor_value_info(f"x{i}", _code(x), [f"s{size}" if size in symbolic else size for size in x.shape])
        for i, x in enumerate(inputs) if x is not None and i not in constant
    ]
    weights = [numpy_helper.from_array(x, f"x{i}") for i, x in enumerate(inputs) if x is not None and i in constant]
    types = declared or {}
    infos = [
        helper.make_tensor_value_info(name, types[i], None) if i in types else onnx.ValueInfoProto(name=name)
        for i, name in enumerate(results) if name
    ]
    graph = helper.make_graph([node], "one", given, infos, weights)
    domains = [helper.make_opsetid("", opset), helper.make_opsetid(DOMAIN, 1)]
    return helper.make_model(graph, opset_imports=domains, ir_version=9)


def _code(x: np.ndarray) -> int:
    return element_code(dtypes.canonical(x.dtype))


def check(
    op: str,
    inputs: Sequence[np.ndarray | None],
    attributes: dict[str, Any] | None = None,
    *,
    outputs: Sequence[bool] = (True,),
    constant: Sequence[int] = (),
    symbolic: Sequence[int] = (),
    domain: str = DOMAIN,
    oracle: Callable[..., Any] | None = None,
    declared: Mapping[int, int] | None = None,
    opt_level: int = 3,
) -> Module:
    """Compares the outputs of one node with those of ``oracle``, or of onnxruntime.

    Where sizes are ``symbolic``, code is compiled for symbols, and the interpreter runs with numbers as well.

    ``oracle`` gets all inputs; its results are compared in order. Returns the module that was compiled last.
    """
    fed = [x for i, x in enumerate(inputs) if x is not None and i not in constant]

    def proto(symbols: Sequence[int]) -> onnx.ModelProto:
        return node_model(
            op, inputs, attributes, outputs=outputs, constant=constant, symbolic=symbols, domain=domain, declared=declared
        )

    expected = onnxruntime_outputs(proto(()), *fed) if oracle is None else _as_list(oracle(*inputs))
    if symbolic:
        agree("interpreter", evaluate(import_model(proto(())), *fed), expected)
    module = import_model(proto(symbolic))
    same(module, fed, expected, opt_level)
    return module


def same(module: Module, inputs: Arrays, expected: Arrays, opt_level: int = 3) -> None:
    """Fails unless interpreter and compiled code give what is expected."""
    agree("interpreter", evaluate(module, *inputs), expected)
    compiled = compile_module(module, check_options(opt_level=opt_level), use_cache=False)
    agree("compiled", guard_runtime.run(compiled, module.main, [np.asarray(x, order="C") for x in inputs]), expected)


def agree(how: str, results: Arrays, expected: Arrays) -> None:
    """Fails unless ``results`` are what is expected, up to the order of sums."""
    for position, (a, b) in enumerate(zip(results, expected, strict=True)):
        compare.check(np.asarray(a), np.asarray(b), Accuracy.ACCUMULATING, f"{how}, output {position}")


def _as_list(results: Any) -> list[Any]:
    return list(results) if isinstance(results, list | tuple) else [results]


def floats(seed: int, *shape: int, dtype: Any = np.float32) -> np.ndarray:
    """Normally distributed numbers."""
    return np.random.default_rng(seed).standard_normal(shape).astype(dtype)


def ints(seed: int, low: int, high: int, shape: Sequence[int], dtype: Any = np.int64) -> np.ndarray:
    """Integers from ``low`` to ``high``, both possible."""
    return np.random.default_rng(seed).integers(low, high, shape, endpoint=True).astype(dtype)
