"""Text in forms that jax does not print, and what is said of damaged text."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from forge.errors import ImportModelError
from forge.frontends.stablehlo.module import (
    FunctionType,
    Opaque,
    OpaqueType,
    Operation,
    QuantizedType,
    Symbol,
    TensorType,
    TokenType,
    TupleType,
)
from forge.frontends.stablehlo.text import read_text
from tests.frontends.stablehlo.comparison import difference

F32 = TensorType((2,), "float32")


def body(text: str, arguments: str = "%a: tensor<2xf32>, %b: tensor<2xf32>") -> list[Operation]:
    """The operations of a function but the last one."""
    module = read_text(f"func.func @main({arguments}) {{\n{text}\n  return\n}}", "test")
    return module.functions["main"].body.operations[:-1]


def attribute(text: str) -> Any:
    (operation,) = body(f'"test.op"() {{value = {text}}} : () -> ()')
    return operation.attributes["value"]


def elements(text: str) -> np.ndarray:
    (operation,) = body(f"%0 = stablehlo.constant {text}")
    return operation.attributes["value"]


@pytest.mark.parametrize(("text", "expected"), [
    ("1", 1), ("-3 : i8", -3), ("255 : ui8", 255), ("true", True), ("1 : i1", True), ("2 : index", 2), ("0x10 : i32", 16),
    ("1.5", 1.5), ("1.5 : f32", 1.5), ("0x7F800000 : f32", float("inf")), ("0.1 : f32", float(np.float32(0.1))),
    ('"a\\0Ab\\22\\\\\\n\\t"', 'a\nb"\\\n\t'),
    ('"text" : i32', "text"), ("unit", True), ("@f", Symbol("f")), ('@"a b"', Symbol("a b")),
    ("@f::@g", Symbol("f::g")), ("[1, [2.0], []]", [1, [2.0], []]), ('{a, b.c = 1, "d e" = 2}', {"a": True, "b.c": 1, "d e": 2}),
    ("array<i64: 1, -2>", [1, -2]), ("array<i1: true, false>", [True, False]), ("array<i32>", []), ("array<f32: 0.5>", [0.5]),
    ("tensor<2xf32>", F32), ("f32", OpaqueType("f32")), ("() -> tensor<2xf32>", FunctionType((), (F32,))),
    ("(tensor<2xf32>) -> (tensor<2xf32>, !stablehlo.token)", FunctionType((F32,), (F32, TokenType()))),
    ("#stablehlo<precision HIGH>", "HIGH"), ("#stablehlo.result_accuracy_mode<HIGHEST>", "HIGHEST"),
    ("#chlo<comparison_direction LT>", "LT"), ("#mhlo<comparison_type SIGNED>", "SIGNED"),
    ('#sdy.sharding<@mesh, [{"x"}, {}]>', Opaque('#sdy.sharding<@mesh, [{"x"}, {}]>')),
    ("affine_map<(d0, d1) -> (d1, d0)>", Opaque("affine_map<(d0, d1) -> (d1, d0)>")),
    ("#stablehlo.channel_handle<handle = 1, type = 2>", {"handle": 1, "type": 2}),
    ("#stablehlo.dot<lhs_contracting_dimensions = [1]>", {
        "lhs_batching_dimensions": [], "rhs_batching_dimensions": [], "lhs_contracting_dimensions": [1],
        "rhs_contracting_dimensions": []}),
    ("#stablehlo.result_accuracy<atol = 1.0e-5, ulps = 2, mode = #stablehlo.result_accuracy_mode<TOLERANCE>>", {
        "atol": 1e-5, "rtol": 0.0, "ulps": 2, "mode": "TOLERANCE"}),
    ("loc(unknown)", ""),
])  # fmt: skip
def test_attributes(text: str, expected: Any) -> None:
    found = attribute(text)
    assert type(found) is type(expected) and found == expected


def test_convolution_dimensions_are_read_raw_too() -> None:
    raw = attribute(
        "#stablehlo.conv<raw input_batch_dimension = 0, input_feature_dimension = 2, input_spatial_dimensions = [1], "
        "kernel_input_feature_dimension = 1, kernel_output_feature_dimension = 2, kernel_spatial_dimensions = [0], "
        "output_batch_dimension = 0, output_feature_dimension = 2, output_spatial_dimensions = [1]>")
    assert attribute("#stablehlo.conv<[b, 0, f]x[0, i, o]->[b, 0, f]>") == raw


@pytest.mark.parametrize(("text", "expected"), [
    ("dense<[1, 2]> : tensor<2xi32>", np.array([1, 2], np.int32)),
    ("dense<> : tensor<0x3xi8>", np.zeros((0, 3), np.int8)),
    ("dense<1> : tensor<2x3xi64>", np.ones((2, 3), np.int64)),
    ("dense<[[true], [false]]> : tensor<2x1xi1>", np.array([[True], [False]])),
    ("dense<[-1, 255]> : tensor<2xui8>", np.array([255, 255], np.uint8)),
    ("dense<[0x7F, -8]> : tensor<2xi8>", np.array([127, -8], np.int8)),
    ("dense<[1.5, 0xFF800000, 0x80000000, -2.0e1]> : tensor<4xf32>", np.array([1.5, -np.inf, -0.0, -20], np.float32)),
    ("dense<0x7FF8000000000000> : tensor<f64>", np.array(np.nan)),
    ("dense<[(1.0, -2.0), (0x7F800000, 0.0)]> : tensor<2xcomplex<f32>>", np.array([1 - 2j, complex(np.inf, 0)], np.complex64)),
    ("dense<(1.0, 2.0)> : tensor<2xcomplex<f64>>", np.array([1 + 2j, 1 + 2j])),
    ('dense<"0x0100000002000000"> : tensor<2xi32>', np.array([1, 2], np.int32)),
    ('dense<"0x0000803F"> : tensor<3xf32>', np.ones(3, np.float32)),
    ('dense<"0x05"> : tensor<3xi1>', np.array([True, False, True])),
    ('dense<"0xFF"> : tensor<20xi1>', np.ones(20, bool)),
    ('dense<"0x010001"> : tensor<3xi1>', np.array([True, False, True])),
    ("dense<[1, 2]> : tensor<2xindex>", np.array([1, 2])),
    ("dense_resource<big> : tensor<2xi16>", np.array([1, 2], np.int16)),
])  # fmt: skip
def test_elements(text: str, expected: np.ndarray) -> None:
    resources = '\n{-# dialect_resources: { builtin: { big: "0x0400000001000200", other: "0x" } } #-}\n'
    text = f"func.func @main() {{\n%0 = stablehlo.constant {text}\nreturn\n}}" + (resources if "resource" in text else "")
    (operation, _) = read_text(text, "test").functions["main"].body.operations
    found = operation.attributes["value"]
    assert found.dtype == expected.dtype and found.shape == expected.shape and found.tobytes() == expected.tobytes()
    assert operation.results[0].type.shape == expected.shape  # type: ignore[union-attr]


def test_a_splat_takes_no_memory() -> None:
    assert elements("dense<0.0> : tensor<1000000x1000xf32>").strides == (0, 0)


@pytest.mark.parametrize(("text", "expected"), [
    ("tensor<?x3xbf16>", TensorType((None, 3), "bfloat16")),
    ("tensor<2 x 3 x complex < f32 >>", TensorType((2, 3), "complex64")),
    ("tensor<?x4xf32, #stablehlo.bounds<5, ?>>", TensorType((None, 4), "float32", (5, None))),
    ("tensor<?x4xf32, #stablehlo.type_extensions<bounds = [5, ?]>>", TensorType((None, 4), "float32", (5, None))),
    ("tensor<f8E4M3FN>", TensorType((), "float8_e4m3fn")),
    ("tensor<4xui4>", TensorType((4,), "uint4")),
    ("tuple<tensor<2xf32>, tuple<>>", TupleType((F32, TupleType(())))),
    ("!mhlo.token", TokenType()),
    ("memref<2xf32>", OpaqueType("memref<2xf32>")),
    ("!stablehlo.future<tensor<f32>>", OpaqueType("!stablehlo.future<tensor<f32>>")),
    ("tensor<*xf32>", OpaqueType("tensor<*xf32>")),
    ("tensor<2x!quant.uniform<i8:f32, 0.5:-3>>",
     TensorType((2,), "int8", None, QuantizedType("int8", "float32", (0.5,), (-3,), None, -128, 127))),
    ("tensor<2x!quant.uniform<u8<1:200>:f32:0, {0.5, 0.25:7}>>",
     TensorType((2,), "uint8", None, QuantizedType("uint8", "float32", (0.5, 0.25), (0, 7), 0, 1, 200))),
])  # fmt: skip
def test_types(text: str, expected: Any) -> None:
    assert attribute(text) == expected


def test_aliases_and_locations() -> None:
    module = read_text("""
        !t = tensor<2xf32>
        #dims = array<i64: 0>
        #loc = loc(unknown)
        #loc1 = loc("model.py":10:3)
        module @m attributes {my.value = #dims} {
          func.func public @main(%x: !t loc("x"), %y: !t loc(#loc1)) -> !t {
            %0 = stablehlo.add %x, %y : !t loc(#loc5)
            %1 = stablehlo.add %0, %y : !t loc(callsite("add:"(#loc2) at "b.py":1:1))
            %2 = stablehlo.add %1, %y : !t loc(fused<"meta">[#loc, #loc1])
            %3 = stablehlo.add %2, %y : !t loc("c.py":4:1 to 5:2)
            return %3 : !t loc(#loc)
          } loc(#loc1)
        } loc(#loc)
        #loc2 = loc("inner")
        #loc5 = loc("outer"(#loc2))
    """, "test")  # fmt: skip
    main = module.functions["main"]
    assert [value.location for value in main.body.arguments] == ["x", "model.py:10"]
    assert [operation.location for operation in main.body.operations] == ["outer", "inner", "model.py:10", "c.py:4", ""]
    assert module.attributes == {"my.value": [0]} and main.location == "model.py:10"


def test_old_spellings_are_read_as_today() -> None:
    old = body("""
        %0 = "mhlo.broadcast_in_dim"(%a) {broadcast_dimensions = dense<0> : tensor<1xi64>} : (tensor<2xf32>) -> tensor<2x3xf32>
        %1 = mhlo.compare LT, %a, %b : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xi1>
        %2 = "stablehlo.slice"(%a) {start_indices = dense<[0]> : tensor<1xi64>, limit_indices = dense<[1]> : tensor<1xi64>,
             strides = dense<[1]> : tensor<1xi64>} : (tensor<2xf32>) -> tensor<1xf32>
        %3 = "mhlo.dot_general"(%a, %b) {dot_dimension_numbers = #mhlo.dot<lhs_contracting_dimensions = [0],
             rhs_contracting_dimensions = [0]>} : (tensor<2xf32>, tensor<2xf32>) -> tensor<f32>
        %4 = mhlo.erf %a : tensor<2xf32>
        %5 = mhlo.copy %a : tensor<2xf32>""")
    assert [operation.name for operation in old] == [
        "stablehlo.broadcast_in_dim", "stablehlo.compare", "stablehlo.slice", "stablehlo.dot_general", "chlo.erf", "mhlo.copy"]
    assert old[0].attributes == {"broadcast_dimensions": [0]}
    assert old[2].attributes == {"start_indices": [0], "limit_indices": [1], "strides": [1]}
    assert old[3].attributes["dot_dimension_numbers"]["lhs_contracting_dimensions"] == [0]


def test_attributes_that_have_their_defaults_are_left_out() -> None:
    (operation,) = body("""%0 = "stablehlo.gather"(%a, %i) <{dimension_numbers = #stablehlo.gather<offset_dims = [0]>,
        indices_are_sorted = false, slice_sizes = array<i64: 2>}> : (tensor<2xf32>, tensor<0xi32>) -> tensor<2xf32>""",
        "%a: tensor<2xf32>, %i: tensor<0xi32>")  # fmt: skip
    assert "indices_are_sorted" not in operation.attributes
    text = """%0 = "stablehlo.sort"(%a) <{ATTRIBUTES}> ({
      ^bb0(%x: tensor<f32>, %y: tensor<f32>):
        %1 = stablehlo.compare LT, %x, %y : (tensor<f32>, tensor<f32>) -> tensor<i1>
        stablehlo.return %1 : tensor<i1>
      }) : (tensor<2xf32>) -> tensor<2xf32>"""
    (last,), (first,) = (body(text.replace("ATTRIBUTES", f"dimension = {axis} : i64, is_stable = true")) for axis in (-1, 0))
    assert (last.attributes, first.attributes) == ({"is_stable": True}, {"is_stable": True, "dimension": 0})


GENERIC = """func.func private @g(tensor<2xf32> {a = 1}, tensor<2xf32>) -> (tensor<2xf32> {b})
func.func @main(%a: tensor<2xf32>, %b: tensor<2xf32>, %t: !stablehlo.token, %p: tensor<i1>) {
  %0:2 = "stablehlo.reduce"(%a, %b, %p, %p) <{dimensions = array<i64: 0>}> ({
  ^bb0(%c: tensor<f32>, %d: tensor<f32>, %e: tensor<i1>, %f: tensor<i1>):
    "stablehlo.return"(%c, %e) : (tensor<f32>, tensor<i1>) -> ()
  }) : (tensor<2xf32>, tensor<2xf32>, tensor<i1>, tensor<i1>) -> (tensor<f32>, tensor<i1>)
  %1 = "stablehlo.tuple"(%a, %p) : (tensor<2xf32>, tensor<i1>) -> tuple<tensor<2xf32>, tensor<i1>>
  %2 = "stablehlo.get_tuple_element"(%1) {index = 1 : i32} : (tuple<tensor<2xf32>, tensor<i1>>) -> tensor<i1>
  %3 = "stablehlo.after_all"(%t, %t) : (!stablehlo.token, !stablehlo.token) -> !stablehlo.token
  %4 = "func.call"(%a, %b) {callee = @g} : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>
  %5 = "stablehlo.select"(%p, %a, %b) : (tensor<i1>, tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>
  %6 = "stablehlo.reduce_precision"(%a) {exponent_bits = 5 : i32, mantissa_bits = 10 : i32} : (tensor<2xf32>) -> tensor<2xf32>
  %7 = "stablehlo.complex"(%a, %b) : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xcomplex<f32>>
  %8 = "stablehlo.dot_general"(%a, %b) {algorithm = #stablehlo.dot_algorithm<lhs_precision_type = tf32, rhs_precision_type = tf32,
    accumulation_type = f32, lhs_component_count = 1, rhs_component_count = 1, num_primitive_operations = 3,
    allow_imprecise_accumulation = false>, dot_dimension_numbers = #stablehlo.dot<lhs_batching_dimensions = [0],
    rhs_batching_dimensions = [0]>} : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>
  %9 = "stablehlo.custom_call"(%a) {call_target_name = "a b", called_computations = [@g]} : (tensor<2xf32>) -> tensor<2xf32>
  %10:2 = "stablehlo.optimization_barrier"(%a, %p) : (tensor<2xf32>, tensor<i1>) -> (tensor<2xf32>, tensor<i1>)
  "func.return"() : () -> ()
}"""
PRETTY = """func.func private @g(%x: tensor<2xf32> {a = 1}, %y: tensor<2xf32>) -> (tensor<2xf32> {b})
func.func @main(%a: tensor<2xf32>, %b: tensor<2xf32>, %t: !stablehlo.token, %p: tensor<i1>) { // a comment
  %0:2 = stablehlo.reduce(%a init: %p), (%b init: %p) across dimensions = [0] :
      (tensor<2xf32>, tensor<2xf32>, tensor<i1>, tensor<i1>) -> (tensor<f32>, tensor<i1>)
    reducer(%c: tensor<f32>, %e: tensor<i1>) (%d: tensor<f32>, %f: tensor<i1>) {
    stablehlo.return %c, %e : tensor<f32>, tensor<i1>
  }
  %1 = stablehlo.tuple %a, %p : tuple<tensor<2xf32>, tensor<i1>>
  %2 = stablehlo.get_tuple_element %1[1] : (tuple<tensor<2xf32>, tensor<i1>>) -> tensor<i1>
  %3 = stablehlo.after_all %t, %t : !stablehlo.token
  %4 = call @g(%a, %b) : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>
  %5 = stablehlo.select %p, %a, %b : tensor<i1>, tensor<2xf32>
  %6 = stablehlo.reduce_precision %a, format = e5m10 : tensor<2xf32>
  %7 = stablehlo.complex %a, %b : tensor<2xcomplex<f32>>
  %8 = stablehlo.dot_general %a, %b, batching_dims = [0] x [0], contracting_dims = [] x [], precision = [DEFAULT, DEFAULT],
    algorithm = <lhs_precision_type = tf32, rhs_precision_type = tf32, accumulation_type = f32, lhs_component_count = 1,
    rhs_component_count = 1, num_primitive_operations = 3, allow_imprecise_accumulation = false>
    : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>
  %9 = stablehlo.custom_call @"a b"(%a) {called_computations = [@g]} : (tensor<2xf32>) -> tensor<2xf32>
  %10:2 = stablehlo.optimization_barrier %a, %p : tensor<2xf32>, tensor<i1>
  return
}"""


def test_the_dialects_own_forms() -> None:
    assert difference(read_text(GENERIC, "generic"), read_text(PRETTY.replace("%x: ", "").replace("%y: ", ""), "pretty")) == ""


def test_arguments_may_be_named_by_the_block() -> None:
    old = read_text("func @f(tensor<2xf32>) -> tensor<2xf32> {\n^bb0(%x: tensor<2xf32>):\n return %x : tensor<2xf32>\n}", "old")
    new = read_text("func.func @f(%x: tensor<2xf32>) -> tensor<2xf32> {\n return %x : tensor<2xf32>\n}", "new")
    assert difference(old, new) == ""


def test_meshes_and_shardings_are_kept_by_their_text() -> None:
    module = read_text("""module { sdy.mesh @mesh = <["x"=2]> {stablehlo.mesh = {axes = []}}
        func.func @main(%a: tensor<2xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}]>}) -> tensor<2xf32> {
          %0 = sdy.sharding_constraint %a <@mesh, [{}]> : tensor<2xf32>
          return %0 : tensor<2xf32> } }""", "test")  # fmt: skip
    assert module.attributes == {"@mesh": {"mesh": Opaque('#sdy.mesh<["x"=2]>'), "stablehlo.mesh": {"axes": []}}}
    assert module.functions["main"].argument_attributes == [{"sdy.sharding": Opaque('#sdy.sharding<@mesh, [{"x"}]>')}]


@pytest.mark.parametrize(("text", "message"), [
    ("%0 = stablehlo.add %a, %c : tensor<2xf32>", "test:2:24: got value %c, which is not defined before it is used"),
    ("%0 = stablehlo.add %a, %b : tensor<3xf32>", "stablehlo.add: got operands of types"),
    ("%0:2 = stablehlo.add %a, %b : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>", "got names for 2 results; expected 1"),
    ("%0 = stablehlo.transpose %a, dim = [0] : (tensor<2xf32>) -> tensor<2xf32>", "got keyword 'dim'; expected one of: dims"),
    ("%0 = arith.addf %a, %b : tensor<2xf32>", "arith.addf: its own form is not known; expected the generic one"),
    ("%0 = stablehlo.constant dense<[1, 2]> : tensor<3xi32>", r"got elements in lists of shape \(2,\); expected \(3,\)"),
    ("%0 = stablehlo.constant dense<[1, [2]]> : tensor<2xi32>", "side by side; expected all elements equally deep"),
    ("%0 = stablehlo.constant dense<[[1], [2, 3]]> : tensor<2x1xi32>", "lists of 2 and of 1 elements; expected the same"),
    ("%0 = stablehlo.constant dense<300> : tensor<i8>", "is not of int8; expected integers of 8 bits"),
    ("%0 = stablehlo.constant dense<0x1FFFFFFFF> : tensor<f32>", "expected at most 32 bits"),
    ("%0 = stablehlo.constant dense<1.5> : tensor<i8>", "got a float among elements of int8"),
    ('%0 = stablehlo.constant dense<"0x0102"> : tensor<4xi32>', "got 2 bytes of elements; expected 4 x 4"),
    ('%0 = stablehlo.constant dense<"0x01G2"> : tensor<4xi32>', "not hexadecimal"),
    ("%0 = stablehlo.constant dense<0> : tensor<99999999999x99999999999xi32>", "expected at most"),
    ("%0 = stablehlo.constant dense_resource<big> : tensor<i32>", "resource 'big' has no contents in this text"),
    ("%0 = stablehlo.constant dense<0> : tensor<?xi32>", "expected one whose sizes are all known"),
    ('"a.b"(%a)[^bb1] : (tensor<2xf32>) -> ()', "expected structured control flow"),
    ('"a.b"() {value = #alias} : () -> ()', "attribute alias #alias is not defined before it is used"),
    ('"a.b"() {value = !alias} : () -> ()', "type alias !alias is not defined before it is used"),
    ('"a.b"() {value = 1, value = 2} : () -> ()', "attribute 'value' is given twice"),
    ('"a.b"() {value = tensor<2xf33>} : () -> ()', "got element type 'f33'; expected one of: i1"),
    ('"a.b"() {value = #stablehlo.gather<offset = 1>} : () -> ()', "#gather: got field 'offset'; expected each of these once"),
    ('"a.b"() {value = #stablehlo.conv<[b, 1, f]x[0, i, o]->[b, 0, f]>} : () -> ()', "got dimensions b, 1, f of the input"),
    ('"a.b"() {value = "a', "expected text of MLIR"),
    ('"a.b"() {value = #sdy.x<[>} : () -> ()', "brackets do not match"),
    ('"a.b"() {value = #sdy.x<[ [', "brackets do not match"),
    ('"a.b"() {value = ' + "[" * 100 + "]" * 100 + "} : () -> ()", "is nested more than 64 deep"),
    ('"a.b"() ' + '({ "a.b"() ' * 100, "is nested more than 64 deep"),
    ("%0:-1, %1:2 = stablehlo.add %a, %b : tensor<2xf32>", "got -1 results; expected one at least"),
    ("%0 = stablehlo.iota dim = 99999999999999999999999 : tensor<2xf32>", "expected an integer of 64 bits"),
    ('%0 = "stablehlo.transpose"(%a) {permutation = dense<0> : tensor<99999999xi64>} : (tensor<2xf32>) -> tensor<2xf32>',
     "got an attribute of 99999999 elements; expected at most 65536"),
    ("return\n}\nfunc.func @main() {", "function @main is defined twice"),
    ('return\n}\n"a.b"() : () -> ()\nfunc.func @f() {', "a.b is between the functions of the module"),
])  # fmt: skip
def test_errors_say_where_and_what(text: str, message: str) -> None:
    with pytest.raises(ImportModelError, match=message):
        body(text)


@pytest.mark.parametrize(("text", "message"), [
    ("", "has no functions; expected a module with one at least"),
    ("#a = #sdy.x<[", "brackets are not closed"),
    ("func.func @f(", "got the end of the text; expected a type"),
    ("module {} module {}", "has 2 modules; expected one"),
    ("func.func @f(tensor<f32>) { return }", "its body takes 0 arguments of other types than its signature says"),
    ("func.func @f(%a: tensor<f32>, tensor<f32>) { return }", "got arguments without names"),
    ("func.func @f(%a: tensor<2xf32>) -> tensor<3xf32> { return %a : tensor<2xf32> }", "its body returns 1 results of"),
    ("func.func @f() -> tensor<3xf32> { return }", "its body returns 0 results of other types than its signature says"),
])  # fmt: skip
def test_errors_about_whole_files(text: str, message: str) -> None:
    with pytest.raises(ImportModelError, match=message):
        read_text(text, "test")
