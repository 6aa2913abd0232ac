"""What the parser reads, what it says of mistakes, and that nothing else than an error comes out of nonsense."""

from __future__ import annotations

import base64
import contextlib
import json
import random
import re
import time
from datetime import timedelta
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from forge import from_onnx
from forge.errors import ParseError
from forge.ir import Module, ObjectType, OptionalType, SequenceType, TensorType, UnrankedType
from forge.ir.parser import parse_module
from forge.ir.printer import print_module
from forge.ir.verifier import verify
from tests.ops import harness
from tests.ops.cases import written

few = settings(max_examples=150)


def body(text: str, parameters: str = "%x: Tensor[(2, 3), float32]") -> str:
    return f"def @main({parameters}) {{\n  {text}\n}}\n"


def printed(text: str) -> str:
    module = parse_module(text)
    verify(module)
    return print_module(module)


@pytest.mark.parametrize(
    ("text", "canonical"),
    [
        ("%y = nn.relu(%x); %y", "nn.relu(%x)"),
        ("nn.relu( %x , )", "nn.relu(%x)"),
        ("nn.relu(add(%x, %x))", "%0 = add(%x, %x);\n  nn.relu(%0)"),
        ("%0 = nn.relu(%x) /* comment */;\n  // another\n  %0", "nn.relu(%x)"),
        ("%a = split(%x, indices_or_sections=3, axis=1); %a.2", "%0 = split(%x, indices_or_sections=3, axis=1);\n  %0.2"),
        ('%"a b" = split(%x, indices_or_sections=3, axis=1); (%"a b".0, %"a b".2)',
         "%0 = split(%x, indices_or_sections=3, axis=1);\n  (%0.0, %0.2)"),
        ("split(%x, indices_or_sections=3, axis=1)", "%0 = split(%x, indices_or_sections=3, axis=1);\n  (%0.0, %0.1, %0.2)"),
        ("(%x, nn.relu(%x),)", "%0 = nn.relu(%x);\n  (%x, %0)"),
        ("()", "()"),
        ("%y = %x; add(%y, 1.5)", "add(%x, 1.5f)"),
        ("add(%x, -.5e1f)", "add(%x, -5f)"),
        ("(1i32, 3000000000, 1i8, 255u8, 1.5f64, True, -inff, nanf16)",
         "(1, 3000000000i64, 1i8, 255u8, 1.5f64, True, -inff, nanf16)"),
        ("nn.leaky_relu(%x, alpha=1)", "nn.leaky_relu(%x, alpha=1f)"),
        ("nn.leaky_relu(%x, alpha=1f16)", "nn.leaky_relu(%x, alpha=1f)"),
        ("nn.leaky_relu(%x, alpha=-inff)", "nn.leaky_relu(%x, alpha=-inff)"),
        ("transpose(%x, axes=None)", "transpose(%x)"),
        ("clip(%x, None, 1f)", "clip(%x, None, 1f)"),
        ("clip(%x, 1f, None)", "clip(%x, 1f)"),
        ("nn.relu(%x) /* ty=Tensor[(2, 3), float32] span=from_string:4:7 */", "nn.relu(%x)"),
    ],
)  # fmt: skip
def test_reads(text: str, canonical: str) -> None:
    assert printed(body(text)) == body(canonical)


def test_version_line_comments_and_declared_result() -> None:
    text = '#[version = "0.0.5"]\n// made by hand\ndef @main(%x: float32) -> float32 {\n  %x // not a comment: an error\n}\n'
    with pytest.raises(ParseError, match="line 4, column 6"):
        parse_module(text)
    assert printed(text.replace(" // not a comment: an error", "")) == "def @main(%x: float32) {\n  %x\n}\n"


def test_longest_name_in_scope_wins() -> None:
    text = (
        "def @main(%input.1: Tensor[(4), float32], %input: Tensor[(4), float32], %a.0.1: float32) {\n"
        "  %a = split(%input, indices_or_sections=2);\n  (%input.1, %input, %a.0, %a.1, %a.0.1)\n}\n"
    )
    outputs = parse_module(text).main.outputs
    assert [v.name for v in outputs] == ["input.1", "input", "", "", "a.0.1"]
    assert [v.index for v in outputs[2:4]] == [0, 1]


def test_a_quoted_number_is_a_name_and_an_unquoted_one_a_result() -> None:
    module = parse_module('def @main(%"0": float32) {\n  %0 = exp(%"0");\n  add(%0, %"0")\n}\n')
    verify(module)
    (add,) = module.main.select("add")
    assert add.operands[1] is module.main.inputs[0]
    assert print_module(module).splitlines()[0] == 'def @main(%"0": float32) {'


@pytest.mark.parametrize(
    ("text", "type_"),
    [
        ("float32", TensorType((), "float32")),
        ("Tensor[(), int8]", TensorType((), "int8")),
        ("Tensor[(64), float32]", TensorType((64,), "float32")),
        ("Tensor[?, string]", UnrankedType("string")),
        ("Sequence[Tensor[?, int64]]", SequenceType(UnrankedType("int64"))),
        ("Sequence[Tensor[none, int64]]", SequenceType(UnrankedType("int64", is_absent=True))),
        ("Optional[Sequence[bool]]", OptionalType(SequenceType(TensorType((), "bool")))),
        ("Object[kv_cache]", ObjectType("kv_cache")),
    ],
)
def test_types_read_back(text: str, type_: object) -> None:
    module = parse_module(f"def @main(%x: {text}) {{ %x }}")
    assert module.main.inputs[0].type == type_
    assert parse_module(print_module(module)).main.inputs[0].type == type_


def test_symbolic_dimensions_in_types_and_attributes() -> None:
    text = (
        "def @main(%x: Tensor[(n, ((m + 1) // 2), max(4, n)), float32]) {\n"
        "  reshape(%x, newshape=[n, ((m + 1) // 2)*max(4, n)])\n}\n"
    )
    assert printed(text) == text
    assert str(parse_module(text).main.outputs[0].type) == "Tensor[(n, ((m + 1) // 2)*max(4, n)), float32]"


def test_symbols_of_data_dependent_results_are_written_and_read() -> None:
    text = body("argwhere(%x) /* ty=Tensor[(found, 2), int64] */")
    assert printed(text) == text
    implicit = printed(body("argwhere(%x)"))
    assert "/* ty=Tensor[(" in implicit
    assert printed(implicit) == implicit


@pytest.mark.parametrize(
    ("types", "message"),
    [
        ("exp(%x) /* ty=Tensor[(m), int64] */", r"declared type Tensor\[\(m\), int64\]; inferred Tensor\[\(n\), int64\]"),
        ("exp(%x) /* ty=Tensor[(4), int64] */", r"declared type Tensor\[\(4\), int64\]; inferred Tensor\[\(n\), int64\]"),
        ("exp(%x) /* ty=Tensor[(q), int64] */", r"declared type Tensor\[\(q\), int64\]; inferred Tensor\[\(n\), int64\]"),
        ("argwhere(%x) /* ty=Tensor[(m, 1), int64] */", r"declared type Tensor\[\(m, 1\), int64\]; inferred"),
        ("argwhere(%x) /* ty=Tensor[(5, 1), int64] */", r"declared type Tensor\[\(5, 1\), int64\]; inferred"),
        ("argwhere(%x) /* ty=Tensor[(2*q, 1), int64] */", r"declared type Tensor\[\(2\*q, 1\), int64\]; inferred"),
        ("argwhere(%x) /* ty=Tensor[(q, q), int64] */", r"declared type Tensor\[\(q, q\), int64\]; inferred"),
        ("@f(%x, %y)", r"@f: operand %b: got Tensor\[\(m\), int64\]; expected Tensor\[\(n\), int64\]"),
        ("@g(%x) /* ty=(Tensor[(q, 1), int64], Tensor[(q, 1), int64]) */", r"declared type Tensor\[\(q, 1\), int64\]; inferred"),
        ("@g(%x) /* ty=(Tensor[(q, 1), int64], Tensor[(m, 1), int64]) */", r"declared type Tensor\[\(m, 1\), int64\]; inferred"),
    ],
)
def test_declared_sizes_must_be_those_of_the_operator(types: str, message: str) -> None:
    """Compiled code reads and writes as many elements as types say."""
    text = f"""def @main(%x: Tensor[(n), int64], %y: Tensor[(m), int64]) {{ {types} }}
        def @f(%a: Tensor[(k), int64], %b: Tensor[(k), int64]) {{ add(%a, %b) }}
        def @g(%a: Tensor[(k), int64]) {{ (argwhere(%a), argwhere(%a)) }}"""
    with pytest.raises(ParseError, match=message):
        parse_module(text.replace("exp(%x)", "negative(%x)"))


def test_new_symbols_may_have_any_new_names() -> None:
    call = "@g(%x) /* ty=(Tensor[(p, 1), int64], Tensor[(q, 1), int64]) */"
    module = parse_module(f"def @main(%x: Tensor[(n), int64]) {{ {call} }} "
                          "def @g(%a: Tensor[(k), int64]) { (argwhere(%a), argwhere(%a)) }")
    verify(module)
    assert [str(v.shape[0]) for v in module.main.outputs] == ["p", "q"]


def test_functions_in_any_order_and_their_own_symbols() -> None:
    text = (
        "def @inner(%v: Tensor[(k), float32]) {\n  exp(%v)\n}\n\n"
        "def @main(%x: Tensor[(n, 3), float32], %k: Tensor[(k), float32]) {\n"
        "  %0 = @outer(%x);\n  %1 = @inner(%k);\n  (%0.0, %0.1, %1)\n}\n\n"
        "def @outer(%v: Tensor[(k, j), float32]) {\n"
        "  %0 = reshape(%v, newshape=[-1]);\n  %1 = @inner(%0);\n  (%1, %v)\n}\n"
    )
    assert printed(text) == text
    module = parse_module(text)
    assert list(module.graphs) == ["inner", "main", "outer"]
    assert [str(v.type) for v in module.main.outputs] == [
        "Tensor[(3*n), float32]", "Tensor[(n, 3), float32]", "Tensor[(k), float32]",
    ]  # fmt: skip


def test_function_attributes() -> None:
    text = 'def @main(%x: float32, backend="dnnl", level=2, wide=True) {\n  %x\n}\n'
    assert printed(text) == text
    assert parse_module(text).main.attributes == {"backend": "dnnl", "level": 2, "wide": True}


def test_regions() -> None:
    text = (
        "def @main(%c: bool, %x: float32) {\n"
        "  if(%c, %x) { then_branch = fn (%a: float32) {\n    exp(%a)\n  }, else_branch = fn (%b: float32) {\n    %b\n  } }\n}\n"
    )
    assert printed(text) == text


def test_constants_are_shared_in_a_scope() -> None:
    weights = np.arange(3, dtype=np.float32)
    module = parse_module(body("add(add(%x, meta[relay.Constant][0]), meta[relay.Constant][0])"), [weights])
    assert len(module.main.select("constant")) == 1
    assert np.shares_memory(module.main.find("constant").attrs.value, weights)


def test_names_of_results_are_kept() -> None:
    module = parse_module(body("%hidden = nn.relu(%x); %1 = exp(%hidden); %1"))
    assert [n.result.name for n in module.main.nodes] == ["hidden", ""]


MISTAKES = [
    ("nn.rleu(%x)", 2, 3, "unknown operator 'nn.rleu'; did you mean nn.relu"),
    ("constant(%x)", 2, 3, "unknown operator 'constant'"),
    ("call(%x)", 2, 3, "unknown operator 'call'"),
    ("nn.relu(%y)", 2, 11, "%y is not defined here"),
    ("%long_name = exp(%x); exp(%lang_name)", 2, 29, "did you mean %long_name"),
    ("nn.relu(%x", 3, 1, "got '}'; expected ',' or ')'"),
    ("nn.relu(%x %x)", 2, 14, "got '%x'; expected ',' or ')'"),
    ("nn.relu(%x, %x)", 2, 3, "got 2 operands; expected 1"),
    ("add(%x)", 2, 3, "got 1 operands; expected 2"),
    ("add(%x, None)", 2, 3, "operand 'rhs' is missing"),
    ("nn.relu(%x, alpha=1f)", 2, 3, "unknown attribute 'alpha'; expected one of: none"),
    ("nn.leaky_relu(%x, alpha=\"a\")", 2, 3, "attribute 'alpha': got 'a'; expected float"),
    ("nn.leaky_relu(%x, alpha=1f, alpha=2f)", 2, 31, "attribute alpha is given twice"),
    ("nn.leaky_relu(%x, alpha=)", 2, 27, "got ')'; expected a value"),
    ("nn.leaky_relu(%x, alpha=1e999f)", 2, 27, "1e999f is beyond the largest float"),
    ("cast(%x, dtype=\"float33\")", 2, 3, "float33"),
    ("cast(%x)", 2, 3, "attribute 'dtype' is missing; expected str"),
    ("add(%x, 1i64)", 2, 3, "int64"),
    ("add(%x, 300u8)", 2, 11, "300u8 does not fit uint8"),
    ("add(%x, 99999999999999999999)", 2, 11, "does not fit int64"),
    ("add(%x, 1e39f)", 2, 11, "1e39f does not fit float32"),
    ("add(%x, 7e4f16)", 2, 11, "7e4f16 does not fit float16"),
    ("add(%x, 12abc)", 2, 11, "unexpected character '1'"),
    ("add(%x, $)", 2, 11, "unexpected character '$'"),
    ("add(%x, \"one\")", 2, 11, "got '\"one\"'; expected a variable, a literal, a call or None"),
    ("add(%x, meta[relay.Constant][0])", 2, 32, "constant 0 is missing; the text came with 0 constants"),
    ("add(%x, meta[relay.Const][0])", 2, 16, "got meta[relay.Const]; expected meta[relay.Constant]"),
    ("%x = exp(%x); %x", 2, 3, "%x is defined twice"),
    ("%0 = exp(%x);", 3, 1, "got '}'; expected a variable, a literal, a call or None"),
    ("%0 = exp(%x) %0", 2, 16, "got '%0'; expected ';'"),
    ("None", 2, 3, "None is not a value"),
    ("%a = split(%x, indices_or_sections=3, axis=1); exp(%a)", 2, 54, "%a has 3 results"),
    ("%a = split(%x, indices_or_sections=3, axis=1); %a.3", 2, 50, "%a has 3 results; got %a.3"),
    ("exp(split(%x, indices_or_sections=3, axis=1))", 2, 7, "a call with 3 results cannot be an operand"),
    ("split(%x, indices_or_sections=2, axis=1)", 2, 3, "3"),
    ("exp(%x) /* ty=Tensor[(2, 4), float32] */", 2, 3, "declared type Tensor[(2, 4), float32]; inferred Tensor[(2, 3), float32]"),
    ("exp(%x) /* ty=(float32, float32) */", 2, 3, "2 types for 1 results"),
    ("exp(%x) /* ty=Tensor[(n, 3), float32] */", 2, 3, "declared type Tensor[(n, 3), float32]; inferred Tensor[(2, 3), float32]"),
    ("exp(%x) /* ty=Tensor[(2, 3), float32]", 2, 11, "'/*' without '*/'"),
    ("exp(%x) /* results=[1] */", 2, 14, "results= is not a list of strings"),
    ("exp(%x) /* results=[\"a\", \"b\"] */", 2, 3, "2 names for 1 results"),
    ("exp(%x) /* name=\"\\q\" */", 2, 19, "which is not a JSON string"),
    ("exp(%x) */", 2, 11, "'*/' without '/*'"),
    ("exp(%x) /* note", 2, 11, "'/*' without '*/'"),
    ("exp(%\"x)", 2, 8, "a string without end on its line"),
    ("@f(%x)", 2, 3, "function @f is not defined; the text defines: main"),
    ("@main(%x)", 2, 3, "function @main calls itself through @main"),
    ("if(True, %x) { then_branch = fn (%a: float32) { %a } }", 2, 3,
     "got regions then_branch; expected then_branch, else_branch"),
    ("exp(%x) { r = fn () { () } }", 2, 3, "got regions r; expected none"),
    ("if(True, %x) { then_branch = fn (%a: float32) { %x }, else_branch = fn () { () } }", 2, 51, "%x is not defined here"),
    ("transpose(%x, axes=[0, 1)", 2, 27, "got ')'; expected ',' or ']'"),
    ("transpose(%x, axes=[0, n n])", 2, 26, "'n n' is not an integer expression"),
    ("transpose(%x, axes=[0, 9**9**9])", 2, 26, "is not an integer expression"),
    ("exp(%x) /* ty=float32 /* name=\"a\" */", 2, 25, "a note inside a note; expected '*/'"),
    ("exp(%x) /* ty=float32 3 */", 2, 25, "got '3'; expected ty=, name=, results=, place= or '*/'"),
    ("exp(%x) /* ty=float32 size=3 */", 2, 25, "got size=; expected ty=, name=, results= or place="),
    ("exp(%x) /* name=3 */", 2, 19, "got '3'; expected a string"),
    ("exp(%x) /* ty=3 */", 2, 17, "got '3'; expected a type, as in Tensor[(1, 3), float32]"),
    ("exp(%x) /* ty=Object[3] */", 2, 24, "got '3'; expected the name of a kind of object"),
    ("exp(%x) /* ty=Tensor[(2), 3] */", 2, 29, "got '3'; expected a dtype"),
    ("exp(%x) /* ty=Tensor[?, 3] */", 2, 27, "got '3'; expected a dtype"),
    ("add(%x, meta[3][0])", 2, 16, "got '3'; expected relay.Constant"),
    ("add(%x, meta[relay.Constant][n])", 2, 32, "got 'n'; expected the number of a constant"),
    ("if(True, %x) { 3 = fn () { () } }", 2, 18, "got '3'; expected the name of a region"),
    ("if(True, %x) { then_branch = { () } }", 2, 32, "got '{'; expected 'fn'"),
    ("nn.leaky_relu(%x, alpha=%x)", 2, 27, "'%x' is not an integer expression"),
    ("% = exp(%x); %x", 2, 3, "got '%'; expected a variable, a literal, a call or None"),
    ("transpose(%x, axes=[0, 0])", 2, 3, "transpose"),
    ("reshape(%x, newshape=[n, 2])", 2, 3, "reshape: an attribute uses the symbol n, which no earlier value defines"),
]  # fmt: skip


@pytest.mark.parametrize(("text", "line", "column", "message"), MISTAKES, ids=[m[0][:40] for m in MISTAKES])
def test_mistakes_in_a_body(text: str, line: int, column: int, message: str) -> None:
    with pytest.raises(ParseError) as caught:
        parse_module(body(text))
    shown = str(caught.value)
    first, source, caret = shown.split("\n")[0], *shown.split("\n")[-2:]
    assert first.startswith(f"line {line}, column {column}: ")
    assert message in shown
    assert source == "  " + body(text).split("\n")[line - 1]
    assert caret == " " * (column + 1) + "^"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "line 1, column 1: the text has no function @main"),
        ("def", "line 1, column 4: got the end of the text; expected the name of a function"),
        ("def main() { () }", "line 1, column 5: got 'main'; expected the name of a function"),
        ("def @other() { () }", "the text has no function @main"),
        ("def @main() { () } def @main() { () }", "line 1, column 24: function @main is defined twice"),
        ("def @main(%x) { %x }", "line 1, column 13: got ')'; expected ':'"),
        ("def @main(x: float32) { %x }", "line 1, column 12: got ':'; expected '='"),
        ("def @main(%x: float33) { %x }", "line 1, column 15: unknown dtype 'float33'"),
        ("def @main(%x: Tensor[2, float32]) { %x }", "line 1, column 22: got '2'; expected '('"),
        ("def @main(%x: Tensor[(-2), float32]) { %x }", "line 1, column 15: tensor type: got extent -2"),
        ("def @main(%x: Tensor[(2, 3) float32]) { %x }", "line 1, column 29: got 'float32'; expected ','"),
        ("def @main(%x: Tensor[(9223372036854775807, 3), float32]) { %x }", "expected fewer than 2**63 elements"),
        ("def @main(%x: float32, %x: float32) { %x }", "line 1, column 24: %x is defined twice"),
        ("def @main(%x: float32, a=1, a=2) { %x }", "line 1, column 29: attribute a is given twice"),
        ("def @main(%x: float32) -> int8 { %x }", "line 1, column 24: declared to return int8; returns float32"),
        ("def @main(%x: float32) -> (float32, float32) { %x }", "declared to return float32, float32; returns float32"),
        ("def @main(%x: float32) { %x", "line 1, column 28: got the end of the text; expected '}'"),
        ("def @main(%x: float32) { %x } }", "line 1, column 31: got '}'; expected 'def'"),
        ("def @main(%x: float32) { @f(%x) } def @f(%v: float32) { @g(%v) } def @g(%v: float32) { @f(%v) }",
         "function @f calls itself through @main -> @f -> @g"),
        ("def @main(%x: float32) { @f(%x, %x) } def @f(%v: float32) { %v }", "@f: got 2 operands; expected 1"),
        ("def @main(%x: float32) { @f(%x) } def @f(%v: int8) { %v }", "@f: operand %v: got float32; expected int8"),
        ("def @main(%x: float32) { @f(%x, a=1) } def @f(%v: float32) { %v }", "a function takes neither attributes nor regions"),
        ('def @main() { () }\n#[metadata]\n{"relay.Constant": 3}', "line 2, column 1: metadata: TypeError"),
        ('def @main() { () }\n#[metadata]\n{"relay.Constants": []}', "line 2, column 1: metadata: KeyError('relay.Constant')"),
        ("def @main() { () }\n#[metadata]\n{3: 4}", "line 3, column 2: metadata: Expecting property name"),
        ("def @main() { () }\n#[metadata]\n[", "line 3, column 2: metadata: Expecting value"),
    ],
)  # fmt: skip
def test_mistakes_outside_bodies(text: str, message: str) -> None:
    with pytest.raises(ParseError) as caught:
        parse_module(text)
    assert message in str(caught.value)


def _metadata(**changes: object) -> str:
    entry = {"dtype": "float32", "shape": [2], "data": base64.b64encode(bytes(8)).decode(), **changes}
    return body("meta[relay.Constant][0]") + "#[metadata]\n" + json.dumps({"relay.Constant": [entry]})


def test_metadata() -> None:
    assert np.array_equal(parse_module(_metadata()).main.outputs[0].constant, np.zeros(2))


@pytest.mark.parametrize(
    "changes",
    [
        {"dtype": "float33"}, {"dtype": ["a"]}, {"dtype": None}, {"dtype": "float64"}, {"dtype": "string"}, {"shape": [3]},
        {"shape": [-2]},
        {"shape": [True, 2]}, {"shape": 2}, {"shape": [2.0]}, {"shape": ["2"]}, {"shape": [10**30]}, {"shape": [2**62, 2**62]},
        {"data": "*"}, {"data": "AA"}, {"data": 5}, {"data": ""}, {"dtype": "bool", "shape": [3], "data": "AAEC"},
        {"dtype": "int4", "shape": [3], "data": "AAH/"},
    ],
)  # fmt: skip
def test_damaged_metadata(changes: dict[str, object]) -> None:
    with pytest.raises(ParseError, match=r"line 4, column 1: metadata: constant 0: .*; expected the JSON") as caught:
        parse_module(_metadata(**changes))
    assert str(caught.value).endswith("\n  #[metadata]\n  ^")


def test_deep_text() -> None:
    with pytest.raises(ParseError, match=r"line 2, column 259: the text nests deeper than 64 levels"):
        parse_module(body("exp(" * 70 + "%x"))


def test_a_long_line_is_shown_around_the_caret() -> None:
    text = body("(" + "%x, " * 500 + "%y)")
    with pytest.raises(ParseError, match="line 2, column 2004") as caught:
        parse_module(text)
    source, caret = str(caught.value).split("\n")[1:]
    assert len(source) < 130
    assert source[caret.index("^") :].startswith("%y")


@pytest.mark.parametrize(
    "text",
    [
        body("exp(" * 5000 + "%x" + ")" * 5000),
        body("(" * 5000),
        body("transpose(%x, axes=" + "[" * 5000 + "]" * 5000 + ")"),
        body("transpose(%x, axes=[" + "(" * 5000 + "1" + ")" * 5000 + "])"),
        body("transpose(%x, axes=[" + "9" * 5000 + "])"),
        body("add(%x, " + "9" * 5000 + ")"),
        body("add(%x, " + "9" * 5000 + "f)"),
        body("add(%x, 0." + "1" * 100_000 + "g)"),
        body("add(%x, 1e" + "9" * 5000 + "f)"),
        body("add(%x, meta[relay.Constant][" + "9" * 5000 + "])"),
        body("%x." + "9" * 5000),
        body("exp(%x) /* ty=" + "Sequence[" * 5000),
        body("if(True, %x) { then_branch = fn () { " * 300),
        body("exp(%x) /* ty=Tensor[(" + "*".join(f"(n{k} + 1)" for k in range(40)) + "), float32] */"),
        body("%x", f"%x: {'Optional[' * 2000}float32{']' * 2000}"),
        "def @main() { () }\n#[metadata]\n" + "[" * 100_000,
        "#[version = " + "\n" * 10_000,
        "/*" * 50_000,
        '"' * 50_001,
        "%" * 50_000,
        "\x00" * 1000,
    ],
    ids=lambda text: text[:30].encode("unicode_escape").decode(),
)
def test_bombs_are_errors_at_once(text: str) -> None:
    start = time.process_time()
    with pytest.raises(ParseError):
        parse_module(text)
    assert time.process_time() - start < 3


def test_shape_arithmetic_does_not_explode() -> None:
    """Chains in which every node uses the one before it twice, whose contents type inference asks for."""
    for op, start in (("multiply", "shape_of(%x)"), ("add", "shape_of(%x)"), ("multiply", "meta[relay.Constant][0]")):
        lines = [f"%0 = {start};", *(f"%{k + 1} = {op}(%{k}, %{k});" for k in range(60)), "reshape(%x, %60)"]
        began = time.process_time()
        with contextlib.suppress(ParseError):  # what exceeds the bounds on dimensions is refused
            parse_module(body("\n".join(lines), "%x: Tensor[(n, m), float32]"), [np.array([3, 7])])
        assert time.process_time() - began < 3


RESNET = (Path(__file__).parent / "golden" / "resnet18.relay").read_text()
SEEDS = [
    "\n".join([*RESNET.splitlines()[:6], "%4", "}"]),
    body("%a = split(%x, indices_or_sections=3, axis=1) "
         "/* ty=(Tensor[(2, 1), float32], Tensor[(2, 1), float32], Tensor[(2, 1), float32])"
         ' name="s" */; %1 = clip(%a.0, None, 1e-5f); if(True, %1) { then_branch = fn (%v: Tensor[(2, 1), float32]) { exp(%v) },'
         " else_branch = fn (%v: Tensor[(2, 1), float32]) { %v } }"),
    "def @main(%x: Tensor[(n, (m // 2)), int64], %s: Sequence[Tensor[?, string]]) {\n  %0 = @f(%x);\n"
    "  (reshape(%0, newshape=[-1, (n % 4)]), %s, 3i8, True)\n}\n"
    "def @f(%v: Tensor[(a, b), int64], k=[1, \"x\"]) { argwhere(%v) }\n",
    _metadata(),
]  # fmt: skip
DIGITS = print_module(from_onnx(Path(__file__).parent.parent.parent / "examples/digits/digits.onnx").mod, types=True)
PIECES = [
    "%", "@", '"', "(", ")", "[", "]", "{", "}", ",", ";", "=", ":", "/*", "*/", "/* ty=", "//", "-", "1", "9" * 30, "1e999f",
    "nanf", "inff",
    "None", "True", "meta[relay.Constant][0]", "n", "%x", "%0", ".0", ".", "fn", "def @main", "\n", " ", "\\",
    "Tensor[(n), int4]", "exp(%x)",
    "axis=-1", "strides=[0, 0]", "newshape=[0, -1, -1]", "#[metadata]", "\x00", "é", "*", "?", "->", "indices_or_sections=0", "0",
]  # fmt: skip


SECONDS = timedelta(seconds=10)
TOKEN = re.compile(r'\s+|[A-Za-z_][\w.]*|%[\w.]+|-?\d[\w.]*|"[^"]*"|.', re.DOTALL)
VALUE = re.compile(r'-?\d[\w.]*|True|False|None|"[^"]*"|(?:u?int|float|bool)[0-9]*')
VALUES = [
    "0", "-1", "9223372036854775807", "-9223372036854775808", "1e38f", "nanf", "-1e-300f64", "1000000", "2147483648", "n", "n*n",
    "(n // 0)", "(n % 0)", "None", "True", '"x"', '"string"', "[]", "[0, 0]", "[[1]]", "float16", "int4", "uint8", "string",
    "complex64", "float8_e5m2", "bool",
]  # fmt: skip


def survives(text: str) -> None:
    """The parser gives a module that is valid, prints and reads back, or an error with a line and a caret."""
    try:
        module = parse_module(text)
    except ParseError as error:
        assert re.match(r"line [0-9]+, column [0-9]+: ", str(error))
        assert str(error).endswith("^")
        return
    assert isinstance(module, Module)
    verify(module)
    again = print_module(module, metadata=True)
    assert print_module(parse_module(again), metadata=True) == again


@few
@given(st.text(max_size=200))
def test_random_text(text: str) -> None:
    survives(text)
    survives(body(text))


@few
@given(st.lists(st.sampled_from(PIECES), max_size=30))
def test_random_tokens(pieces: list[str]) -> None:
    survives(body(" ".join(pieces)))
    survives("".join(pieces))


@settings(max_examples=400, deadline=SECONDS)
@given(
    st.sampled_from([*SEEDS, DIGITS]),
    st.lists(st.tuples(st.floats(0, 1), st.integers(0, 12), st.sampled_from(["", *PIECES])), max_size=4),
)
def test_mutations_of_valid_text(text: str, edits: list[tuple[float, int, str]]) -> None:
    for where, removed, inserted in edits:
        start = int(where * len(text))
        text = text[:start] + inserted + text[start + removed :]
    survives(text)


@cache
def texts_of_operators() -> list[list[str]]:
    """Tokens of a module for each operator, with types and constants; one of symbolic sizes where there is one."""
    texts: dict[str, list[str]] = {}
    for case in written():
        if case.op not in texts:
            text = print_module(Module(harness.build_graph(case, case.symbolic)), types=True, metadata=True)
            if len(text) < 20_000:
                texts[case.op] = TOKEN.findall(text)
    return list(texts.values())


def mutate(tokens: list[str], draw: random.Random) -> None:
    """One edit: tokens go, come from elsewhere, or change places; numbers, names and types become others of their kind."""
    place = draw.randrange(len(tokens))
    match draw.randrange(4):
        case 0:
            del tokens[place : place + draw.randint(1, 3)]
        case 1:
            tokens.insert(place, draw.choice(tokens))
        case 2:
            tokens[place] = draw.choice(draw.choice(texts_of_operators()))
        case 3:
            values = [k for k, token in enumerate(tokens) if VALUE.fullmatch(token)]
            tokens[draw.choice(values or [place])] = draw.choice(VALUES)


@pytest.mark.slow
@settings(max_examples=6000, deadline=SECONDS)
@given(st.integers(0, 2**32), st.integers(1, 3))
def test_mutations_of_every_operator(seed: int, edits: int) -> None:
    draw = random.Random(seed)
    tokens = list(draw.choice(texts_of_operators()))
    for _ in range(edits):
        mutate(tokens, draw)
    survives("".join(tokens))
