"""print -> parse -> print is the identity, and the parsed module is equal: hashes, meaning, files."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import forge
from forge import dtypes
from forge.ir import Builder, Graph, Module, TensorType
from forge.ir.interp import run_module
from forge.ir.parser import parse_module
from forge.ir.printer import print_module, print_with_constants
from forge.ir.saved.hashing import fingerprint, structural_hash
from forge.ir.saved.serialize import load, save
from forge.ir.verifier import verify
from tests.ir.random_modules import constant_dtypes, inputs_for, modules, names, same, special_array

GOLDEN = Path(__file__).parent / "golden"
ROOT = Path(__file__).parents[2]
few = settings(max_examples=80)


def test_resnet18_listing_prints_back_to_the_letter() -> None:
    text = (GOLDEN / "resnet18.relay").read_text()
    module = parse_module(text)
    verify(module)
    assert print_module(module, indent="") == text
    indented = print_module(module)
    assert [line.lstrip(" ") for line in indented.splitlines()] == text.splitlines()
    assert all(line.startswith("  %") for line in indented.splitlines()[1:-2])
    assert str(module.main.outputs[0].type) == "Tensor[(1, 1000), float32]"


@few
@given(modules())
def test_generated_modules_are_valid(module: Module) -> None:
    verify(module)


@few
@given(modules(), st.booleans(), st.booleans())
def test_text_is_the_identity(module: Module, types: bool, with_names: bool) -> None:
    text = print_module(module, types=types, names=with_names, metadata=True)
    again = parse_module(text)
    assert print_module(again, types=types, names=with_names, metadata=True) == text
    assert structural_hash(again) == structural_hash(module)
    assert not with_names or fingerprint(again) == fingerprint(module)
    verify(again)


@few
@given(modules())
def test_constants_may_travel_beside_the_text(module: Module) -> None:
    printed = print_with_constants(module, names=True)
    again = parse_module(printed.text, printed.constants)
    assert print_with_constants(again, names=True).text == printed.text
    assert fingerprint(again) == fingerprint(module)


@few
@given(modules())
def test_the_parsed_module_computes_the_same(module: Module) -> None:
    inputs = inputs_for(module)
    again = parse_module(print_module(module, metadata=True))
    renamed = {new.name: inputs[old.name] for old, new in zip(module.main.inputs, again.main.inputs)}
    for a, b in zip(run_module(module, inputs), run_module(again, renamed), strict=True):
        assert same(a, b)


@few
@given(modules())
def test_saving_keeps_everything(tmp_path: Path, module: Module) -> None:
    path = tmp_path / "m.forge"
    save(module, path)
    again = load(path)
    assert fingerprint(again) == fingerprint(module)
    assert print_module(again, types=True, names=True, metadata=True) == print_module(
        module, types=True, names=True, metadata=True
    )
    for a, b in zip(run_module(module, inputs_for(module)), run_module(again, inputs_for(again)), strict=True):
        assert same(a, b)


@few
@given(modules())
def test_a_copy_is_equal_and_independent(module: Module) -> None:
    before = print_module(module, types=True, names=True)
    clone = module.copy()
    assert print_module(clone, types=True, names=True) == before
    for graph in clone.graphs.values():
        for value in graph.inputs:
            value.name = "changed"
        graph.outputs = []
    assert print_module(module, types=True, names=True) == before


@few
@given(constant_dtypes, st.sampled_from([(), (1,), (3, 2), (0, 2)]), st.integers(0, 99), names)
def test_constants_keep_their_bits(dtype: str, shape: tuple[int, ...], seed: int, name: str) -> None:
    array = special_array(dtype, shape, seed)
    module = Module(Graph())
    module.main.outputs = [Builder(module.main).constant(array, name=name)]
    again = parse_module(print_module(module, names=True, metadata=True)).main.outputs[0]
    assert again.constant is not None
    assert same(again.constant, array)
    assert again.name == name


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_every_16_bit_scalar_has_exact_text(dtype: str) -> None:
    module = Module(Graph())
    builder = Builder(module.main)
    patterns = np.arange(1 << 16, dtype=np.uint16).view(dtypes.numpy_dtype(dtype))[::7]
    module.main.outputs = [builder.constant(np.asarray(p)) for p in patterns]
    printed = print_with_constants(module)
    outputs = parse_module(printed.text, printed.constants).main.outputs
    assert np.array([v.constant for v in outputs]).tobytes() == patterns.tobytes()
    assert all(np.isnan(c.astype(np.float32)) for c in printed.constants)


@few
@given(st.floats(width=32), st.floats())
def test_any_float_scalar_has_exact_text(single: float, double: float) -> None:
    module = Module(Graph())
    builder = Builder(module.main)
    arrays = [np.asarray(single, np.float32), np.asarray(double, np.float64)]
    module.main.outputs = [builder.constant(a) for a in arrays]
    again = parse_module(print_module(module, metadata=True)).main.outputs
    assert all(v.constant is not None and same(v.constant, a) for v, a in zip(again, arrays))


@few
@given(st.floats())
def test_any_float_attribute_has_exact_text(alpha: float) -> None:
    module = Module(Graph())
    builder = Builder(module.main)
    module.main.outputs = [builder.call("nn.leaky_relu", builder.input(TensorType((), "float32"), "x"), alpha=alpha)]
    again = parse_module(print_module(module)).main.nodes[0].attributes["alpha"]
    assert np.float64(again).tobytes() == np.float64(alpha).tobytes() or (again != again and alpha != alpha)


@few
@given(st.lists(st.text(max_size=8), min_size=1, max_size=4), st.text(max_size=8))
def test_any_text_may_be_a_name(inputs: list[str], function: str) -> None:
    module = Module(Graph())
    module.main.outputs = [module.main.add_input(TensorType((), "bool"), name) for name in inputs]
    module.graphs[f"{function}?"] = Graph()
    text = print_module(module)
    again = parse_module(text)
    assert print_module(again) == text
    assert list(again.graphs) == ["main", f"{function}?"]
    first = {name: inputs.index(name) for name in inputs if name}
    assert all(again.main.inputs[k].name == name for name, k in first.items())


@pytest.mark.parametrize("freeze", [True, False])
def test_an_imported_model_is_itself_after_text_and_file(tmp_path: Path, freeze: bool) -> None:
    ir = forge.from_onnx(str(ROOT / "examples/digits/digits.onnx"), freeze_params=freeze)
    text = print_module(ir.mod, types=True, names=True, metadata=True)
    again = parse_module(text)
    assert print_module(again, types=True, names=True, metadata=True) == text
    assert structural_hash(again) == hash(ir)
    ir.save(tmp_path / "m.forge")
    loaded = forge.load(tmp_path / "m.forge")
    assert loaded.fingerprint == ir.fingerprint
    assert print_module(loaded.mod, names=True) == print_module(ir.mod, names=True)
    assert (loaded.input_names, loaded.output_names) == (ir.input_names, ir.output_names)
