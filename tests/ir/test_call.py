"""Calls of functions: binding symbols, inference, what the verifier cannot see without the module."""

from __future__ import annotations

import pytest

from forge import dims
from forge.errors import TypeInferenceError
from forge.ir import Builder, Graph, Module, OptionalType, SequenceType, TensorType
from forge.ir.call import bind_parameters, call_function
from forge.ir.parser import parse_module
from forge.ir.verifier import verify

N, M, K = (dims.symbol(s) for s in "nmk")


def callee() -> Graph:
    return parse_module("def @main(%a: Tensor[(k, 2*k), float32], %b: Tensor[(m), int64]) { (transpose(%a), argwhere(%b)) }").main


def test_results_in_terms_of_the_operands() -> None:
    builder = Builder()
    x = builder.input(TensorType((N, 2 * N), "float32"), "x")
    y = builder.input(TensorType((7,), "int64"), "y")
    first, second = call_function(builder, "f", callee(), x, y, name="node")
    assert str(first.type) == "Tensor[(2*n, n), float32]"
    found = second.shape[0]
    assert dims.symbols(found) == [str(found)]
    assert str(found) not in ("n", "m", "k")


def test_every_call_has_data_dependent_symbols_of_its_own() -> None:
    builder = Builder()
    x = builder.input(TensorType((3, 6), "float32"), "x")
    y = builder.input(TensorType((7,), "int64"), "y")
    calls = [call_function(builder, "f", callee(), x, y) for _ in range(2)]
    assert calls[0][1].type != calls[1][1].type
    module = Module(builder.output(*calls[0], *calls[1]))
    module.graphs["f"] = callee()
    verify(module)


@pytest.mark.parametrize(
    ("first", "second", "message"),
    [
        (TensorType((3, 5), "float32"), TensorType((7,), "int64"),
         r"@f: operand %a: got Tensor\[\(3, 5\), float32\]; expected Tensor\[\(3, 6\)"),
        (TensorType((3, 6), "float64"), TensorType((7,), "int64"), "@f: operand %a: got .* expected"),
        (TensorType((3, 6), "float32"), TensorType((7, 1), "int64"), "@f: operand %b: got .* expected"),
        (SequenceType(TensorType((3, 6), "float32")), TensorType((7,), "int64"), r"@f: operand %a: got Sequence"),
        (TensorType((N, M), "float32"), TensorType((7,), "int64"),
         r"@f: operand %a: got Tensor\[\(n, m\), float32\]; expected Tensor\[\(n, 2\*n\)"),
    ],
)  # fmt: skip
def test_operands_that_do_not_fit(first: TensorType, second: TensorType, message: str) -> None:
    builder = Builder()
    with pytest.raises(TypeInferenceError, match=message):
        call_function(builder, "f", callee(), builder.input(first), builder.input(second))
    with pytest.raises(TypeInferenceError, match="@f: got 1 operands; expected 2"):
        call_function(builder, "f", callee(), builder.input(first))


def test_symbols_inside_sequences_are_bound() -> None:
    function = Graph()
    function.outputs = [function.add_input(OptionalType(SequenceType(TensorType((K, M), "bool"))), "s")]
    builder = Builder()
    operand = builder.input(OptionalType(SequenceType(TensorType((M, 3), "bool"))))
    assert bind_parameters("f", function, [operand]) == {"k": M, "m": 3}
    assert call_function(builder, "f", function, operand)[0].type == operand.type


def test_text_names_the_function() -> None:
    module = parse_module('def @main(%x: float32) { %0 = @"a/b"(%x) /* name="c" */; @g(%0) } def @"a/b"(%v: float32) { exp(%v) } '
                          "def @g(%v: float32) { abs(%v) }")  # fmt: skip
    assert str(module).splitlines()[1:3] == ['  %0 = @"a/b"(%x);', "  @g(%0)"]
    assert module.main.find("c").attributes["function"] == "a/b"


def test_a_parameter_with_a_number_takes_no_symbol() -> None:
    """Its body relies on the number: what is not known to have that many elements would be read beyond its end."""
    fixed = parse_module("def @main(%a: Tensor[(9), float32]) { exp(%a) }").main
    with pytest.raises(TypeInferenceError, match=r"got Tensor\[\(n\), float32\]; expected Tensor\[\(9\), float32\]"):
        bind_parameters("f", fixed, [Builder().input(TensorType((N,), "float32"))])
