"""States and donated inputs of functions: text, files, hashes, rules."""

from __future__ import annotations

import json
import zipfile
from pathlib import Path

import numpy as np
import pytest

from forge.driver import compile_module
from forge.errors import InvalidGraphError, ParseError
from forge.ir.edits.edit import edit
from forge.ir.functions.reference import Reference
from forge.ir.functions.states import State
from forge.ir.graph import Module
from forge.ir.saved import serialize
from forge.ir.saved.hashing import fingerprint, structural_hash
from forge.ir.text.parser import parse_module
from forge.ir.text.printer import print_module
from forge.ir.verifier import verify

TEXT = """\
def @prefill(%tokens: Tensor[(n, 4), float32], state %step: int64 = 3i64, public=True) {
  %0 = nn.relu(%tokens);
  %1 = add(%step, 1i64);
  (%0, %cache = %0, %step = %1)
}

def @decode(%x: Tensor[(1, 4), float32], state %cache: Tensor[(s, 4), float32], donated %sum: Tensor[(4), float32], public=True) {
  %0 = concatenate(%cache, %x);
  %1 = add(%sum, 1f);
  (%cache = %0, %sum = %1, %0)
}
"""


def module() -> Module:
    made = parse_module(TEXT)
    verify(made)
    return made


def test_text_comes_back() -> None:
    made = module()
    assert str(made) == TEXT
    assert list(made.public) == ["prefill", "decode"] and made.main is made.graphs["prefill"]
    prefill, decode = made.graphs.values()
    assert prefill.states["step"].initial == 3 and prefill.states["cache"].output == 1
    assert decode.states["cache"].output == 0 and decode.donated == {"sum": 1}


def test_a_large_initial_value_is_a_constant_of_the_text() -> None:
    made = module()
    first = np.arange(8, dtype=np.float32).reshape(2, 4)
    for graph in made.public.values():
        graph.states["cache"] = State(graph.states["cache"].output, first)
    verify(made)
    back = parse_module(print_module(made, metadata=True))
    assert all(np.array_equal(graph.states["cache"].initial, first) for graph in back.public.values())
    assert structural_hash(back) == structural_hash(made) != structural_hash(module())


def test_files_keep_states_and_params_of_functions(tmp_path: Path) -> None:
    made = parse_module(TEXT.replace("state %step: int64 = 3i64", "%step: int64").replace(", %step = %1", ", %1"))
    decode = made.graphs["decode"]
    decode.donated.clear()
    decode.params["sum"] = np.ones(4, np.float32)
    made.graphs["prefill"].params["step"] = np.asarray(2)
    serialize.save(made, tmp_path / "m.forge")
    back = serialize.load(tmp_path / "m.forge")
    assert fingerprint(back) == fingerprint(made) and str(back) == str(made)
    assert back.graphs["decode"].params["sum"].tolist() == [1, 1, 1, 1]


def test_arrays_that_functions_share_are_stored_once(tmp_path: Path) -> None:
    twice = "def @twice(%v: Tensor[(64), float32], public=True) { add(%v, %v) }"
    made = parse_module("def @main(%w: Tensor[(64), float32]) { %w } " + twice)
    made.params["w"] = np.ones(64, np.float32)
    made.graphs["twice"].params["v"] = made.params["w"]
    serialize.save(made, tmp_path / "m.forge")
    back = serialize.load(tmp_path / "m.forge")
    assert np.shares_memory(back.graphs["twice"].params["v"], back.params["w"])
    assert (tmp_path / "m.forge").stat().st_size < 2 * 256 + 2048


def test_files_of_the_first_version_are_read(tmp_path: Path) -> None:
    made = parse_module("def @main(%x: float32, %w: float32) { add(%x, %w) }")
    made.params["w"] = np.float32(2)
    serialize.save(made, tmp_path / "new.forge")
    with zipfile.ZipFile(tmp_path / "new.forge") as new, zipfile.ZipFile(tmp_path / "old.forge", "w") as old:
        for name in new.namelist():
            content = new.read(name)
            if name == "forge.json":
                description = json.loads(content)
                (function,) = description.pop("functions").values()
                params = [entry[:3] for entry in function["params"]]
                own = {"format_version": 1, "params": params, "outputs": function["outputs"]}
                content = json.dumps({**description, **own}).encode()
            old.writestr(name, content)
    assert fingerprint(serialize.load(tmp_path / "old.forge")) == fingerprint(made)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("%cache: Tensor[(s, 4)", "%cache: Tensor[(s, 5)", "shape|concatenate"),
        ("%sum = %1, %0)", "%1, %0)", "donated input 'sum': got output -1"),
        ("%sum = %1, %0)", "%1, %sum = %0)", "donated input 'sum': output 2 has type .*; expected the same type"),
        ("(%0, %cache = %0", "(%0, %cache = %1", "state 'cache': got .*; expected .* as @prefill has it"),
        ("int64 = 3i64", "int64 = 3f", "its initial value is float32; expected int64"),
    ],
)  # fmt: skip
def test_broken_rules(old: str, new: str, message: str) -> None:
    assert TEXT.count(old) >= 1
    with pytest.raises((InvalidGraphError, ParseError), match=message):
        verify(parse_module(TEXT.replace(old, new)))


def test_a_state_has_one_source() -> None:
    made = module()
    decode = made.graphs["decode"]
    decode.states["cache"] = State(decode.donated["sum"])
    with pytest.raises(InvalidGraphError, match="output 1 replaces more than one input"):
        verify(made)
    decode.states["cache"] = State(7)
    with pytest.raises(InvalidGraphError, match="state 'cache': got output 7; expected one of 3"):
        verify(made)
    decode.states["cache"] = State(0)
    decode.states["nothing"] = State()
    with pytest.raises(InvalidGraphError, match="state 'nothing': names no input"):
        verify(made)


def test_functions_agree_on_a_state() -> None:
    made = module()
    made.graphs["decode"].states["cache"] = State(0, np.zeros((1, 4), np.float32))
    with pytest.raises(InvalidGraphError, match="state 'cache': its initial value is another than that of @prefill"):
        verify(made)


def test_names_change_with_inputs() -> None:
    decode = module().graphs["decode"]
    with edit(decode) as e:
        e.rename(decode.inputs[1], "keys")
        e.rename(decode.inputs[2], "total")
    assert decode.states["keys"].output == 0 and decode.donated == {"total": 1}


def test_a_module_needs_a_public_function() -> None:
    with pytest.raises(ParseError, match="none with public=True"):
        parse_module("def @f(%x: float32) { %x }")
    made = Module()
    made.graphs = {"f": made.graphs["main"]}
    with pytest.raises(InvalidGraphError, match="no function @main, and none with the attribute public; it has: f"):
        verify(made)


def test_the_interpreter_keeps_states() -> None:
    prefill = Reference(parse_module(TEXT.replace(", donated %sum: Tensor[(4), float32]", "").replace(
        "  %1 = add(%sum, 1f);\n", "").replace(", %sum = %1", "")))
    decode = prefill["decode"]
    x = np.random.default_rng(0).standard_normal((1, 4)).astype(np.float32)
    np.testing.assert_array_equal(decode(x), x)
    np.testing.assert_array_equal(decode(2 * x), np.concatenate([x, 2 * x]))
    tokens = np.random.default_rng(1).standard_normal((3, 4)).astype(np.float32)
    expected = np.maximum(tokens, 0)
    np.testing.assert_array_equal(prefill(tokens), expected)
    np.testing.assert_array_equal(decode(x=x), np.concatenate([expected, x]))
    assert prefill.states["step"] == 4
    np.testing.assert_array_equal(Reference(prefill._module)["decode"](x), x)


def test_sizes_of_states_that_were_not_set() -> None:
    text = """
def @main(%x: Tensor[(2, 3), float32], state %k: Tensor[(n, 3), float32], state %v: Tensor[(n, 3), float32]) { add(%k, %v) }
def @fill(%x: Tensor[(m, 3), float32], public=True) { (%k = %x) }"""
    module = parse_module(text)
    x = np.ones((2, 3), np.float32)
    reference, session = Reference(module), compile_module(module.copy(), use_cache=False).runtime().session()
    for call in (reference, session):
        assert call(x).shape == (0, 3)
        call["fill"](x)
        np.testing.assert_array_equal(call(x), x)
