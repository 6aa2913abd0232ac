"""Another batch for models that were made for one."""

from __future__ import annotations

import numpy as np
import pytest

from forge.ir import Module
from forge.ir.edits.rebatch import replace_batch
from forge.ir.interp import run_module
from forge.ir.parser import parse_module
from forge.ir.verifier import verify


def replaced(text: str, old: int, new: int) -> Module:
    module = parse_module(text)
    verify(module)
    changed = replace_batch(module, module.main.inputs, old, new)
    verify(changed)
    return changed


def test_replace_batch_changes_target_shapes() -> None:
    text = (
        "def @main(%x: Tensor[(2, 3, 4), float32], %w: Tensor[(12), float32]) { %0 = reshape(%x, newshape=[2, 12]); add(%0, %w) }"
    )
    changed = replaced(text, 2, 5)
    assert str(changed.main.outputs[0].type) == "Tensor[(5, 12), float32]"
    assert "newshape=[5, 12]" in str(changed)


def test_replace_batch_leaves_other_nodes_alone() -> None:
    text = (
        "def @main(%x: Tensor[(1, 4), float32], %s: Tensor[(n, 4), float32]) {\n"
        '  %0 = zeros(shape=[1, 4], dtype="float32");\n  %1 = argwhere(%s) /* ty=Tensor[(found, 2), int64] */;\n'
        "  (add(%x, %0), %1)\n}"
    )
    changed = replaced(text, 1, 3)
    assert [str(v.type) for v in changed.main.outputs] == ["Tensor[(3, 4), float32]", "Tensor[(found, 2), int64]"]
    assert "zeros(shape=[1, 4]" in str(changed)


def test_replace_batch_with_symbols_elsewhere() -> None:
    changed = replaced("def @main(%x: Tensor[(1, n), float32]) { %0 = reshape(%x, newshape=[-1]); %1 = abs(%0); %1 }", 1, 3)
    assert str(changed.main.outputs[0].type) == "Tensor[(3*n), float32]"


def test_replace_batch_retypes_calls() -> None:
    changed = replaced(
        "def @main(%x: Tensor[(1, 4), float32]) { %0 = @f(%x); abs(%0) } def @f(%v: Tensor[(b, 4), float32]) { exp(%v) }", 1, 3
    )
    assert str(changed.main.outputs[0].type) == "Tensor[(3, 4), float32]"


@pytest.mark.parametrize(
    ("text", "old", "result"),
    [
        ("reshape(%x, newshape=[4, 2])", 2, "(6, 2)"),
        ("reshape(%x, newshape=[8])", 2, "(12)"),
        ("%0 = reshape(%x, newshape=[2, 2, 2]); %1 = reshape(%0, newshape=[4, 2]); reshape(%1, newshape=[2, 4])", 2, "(3, 4)"),
        ("%0 = reshape(%x, newshape=[4, 1]); reshape(%0, newshape=[1, 4])", 1, "(3, 4)"),
    ],
)
def test_replace_batch_scales_rows_of_the_batch(text: str, old: int, result: str) -> None:
    changed = replaced(f"def @main(%x: Tensor[({old}, 4), float32]) {{ {text} }}", old, 3)
    assert str(changed.main.outputs[0].type) == f"Tensor[{result}, float32]"


def test_replace_batch_repeats_constants() -> None:
    token = np.arange(6, dtype=np.float32).reshape(1, 1, 6)
    text = "def @main(%x: Tensor[(1, 4, 6), float32]) { concatenate(meta[relay.Constant][0], %x, axis=1) }"
    changed = replace_batch(module := parse_module(text, [token]), module.main.inputs, 1, 3)
    verify(changed)
    x = np.random.default_rng(0).standard_normal((3, 4, 6)).astype(np.float32)
    np.testing.assert_array_equal(run_module(changed, {"x": x})[0], np.concatenate([token.repeat(3, 0), x], axis=1))
    verify(module)


def test_replace_batch_repeats_initial_states() -> None:
    """Two constants, and the batch is not their first axis."""
    rng = np.random.default_rng(0)
    shapes = ((2, 8, 3), (2, 8, 2), (2, 16), (2, 1, 2), (2, 1, 2))
    arrays = [rng.standard_normal(shape).astype(np.float32) for shape in shapes]
    w, r, b, h, c = (f"meta[relay.Constant][{k}]" for k in range(5))
    activations = '["sigmoid", "tanh", "tanh", "sigmoid", "tanh", "tanh"]'
    zeros = ", ".join(f"activation_{n}=[0f, 0f, 0f, 0f, 0f, 0f]" for n in ("alpha", "beta"))
    layer = f'nn.lstm(%t, {w}, {r}, {b}, None, {h}, {c}, direction="bidirectional", activations={activations}, {zeros})'
    text = f"%t = transpose(%x, axes=[1, 0, 2]); %0 = {layer}; %0.0"
    check_slices(f"def @main(%x: Tensor[(1, 5, 3), float32]) {{ {text} }}", 2, *arrays)


def check_slices(text: str, axis: int, *arrays: np.ndarray) -> None:
    """The model for a batch of three gives what the model for one gives for each of them, along ``axis`` of its output."""
    module = parse_module(text, arrays)
    verify(module)
    changed = replace_batch(module, module.main.inputs, 1, 3)
    verify(changed)
    shape = module.main.inputs[0].shape
    x = np.random.default_rng(1).standard_normal((3, *shape[1:])).astype(np.float32)
    one_by_one = [run_module(module, {"x": row[None]})[0] for row in x]
    np.testing.assert_allclose(run_module(changed, {"x": x})[0], np.concatenate(one_by_one, axis), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(
    ("text", "axis"),
    [
        ("%0 = reshape(%x, newshape=[2, 12]); %1 = nn.relu(%0); reshape(%1, newshape=[1, 24])", 0),
        ("%0 = transpose(%x, axes=[1, 0, 2]); reshape(%0, newshape=[4, 1, 2, 3])", 1),
        ("%0 = transpose(%x, axes=[1, 0, 2]); reshape(%0, newshape=[4, 1, -1])", 1),
        ("%0 = reshape(%x, newshape=[4, 6]); %1 = nn.softmax(%0); reshape(%1, newshape=[1, 4, 6])", 0),
        ("%0 = reshape(%x, newshape=[2, 2, 6]); %1 = transpose(%0, axes=[0, 2, 1]); %2 = nn.matmul(%0, %1); "
         "reshape(%2, newshape=[1, 8])", 0),
        ("%0 = broadcast_to(%x, shape=[2, 1, 4, 6]); %0", 1),
        ("%0 = broadcast_to(%x, shape=[1, 4, 6]); %0", 0),
    ],
)
def test_every_element_of_the_batch_goes_its_own_way(text: str, axis: int) -> None:
    check_slices(f"def @main(%x: Tensor[(1, 4, 6), float32]) {{ {text} }}", axis)


@pytest.mark.parametrize(
    "mixing",
    [
        "take(%0, meta[relay.Constant][0], axis=0)", "nn.softmax(%0, axis=0)", "sum(%0, axis=[0])",
        "nn.matmul(%0, %0, transpose_b=True)", "trilu(%0)", "cumsum(%0, axis=0)",
        "reverse(%0, axis=0)",
    ],
)  # fmt: skip
def test_what_may_mix_elements_of_the_batch_is_refused(mixing: str) -> None:
    text = f"def @main(%x: Tensor[(1, 4, 6), float32]) {{ %0 = reshape(%x, newshape=[4, 6]); {mixing} }}"
    module = parse_module(text, [np.array([0, 1]), np.ones((2, 6), np.float32)])
    with pytest.raises(ValueError, match=r"set_batch_size: node .*: (mixes|may mix) elements of the batch \(.*; (give|export)"):
        replace_batch(module, module.main.inputs, 1, 3)


def test_replace_batch_keeps_constants_that_differ_along_the_batch() -> None:
    text = "def @main(%x: Tensor[(2, 4), float32]) { add(%x, meta[relay.Constant][0]) }"
    for array, fits in ((np.ones((2, 4), np.float32), True), (np.arange(8, dtype=np.float32).reshape(2, 4), False)):
        module = parse_module(text, [array])
        if fits:
            assert str(replace_batch(module, module.main.inputs, 2, 3).main.outputs[0].type) == "Tensor[(3, 4), float32]"
        else:
            with pytest.raises(ValueError, match=r"fixes the batch size 2 .*shapes do not broadcast"):
                replace_batch(module, module.main.inputs, 2, 3)


def test_a_batch_behind_other_axes_that_are_split_elsewhere() -> None:
    text = "def @main(%x: Tensor[(1, 4, 6), float32]) { %0 = transpose(%x, axes=[1, 0, 2]); reshape(%0, newshape=[8, 3]) }"
    module = parse_module(text)
    with pytest.raises(ValueError, match="expected a shape in which the batch can be recognized"):
        replace_batch(module, module.main.inputs, 1, 3)


def test_a_model_that_fixes_its_batch() -> None:
    module = parse_module("def @main(%x: Tensor[(2, 4), float32]) { %y = reshape(%x, newshape=[1, 8]); %y }")
    with pytest.raises(ValueError, match=r"set_batch_size: node y \(reshape\) fixes the batch size 2 .*symbolic batch dimension"):
        replace_batch(module, module.main.inputs, 2, 3)
    verify(module)


@pytest.mark.parametrize("apart", ["transpose(%0, axes=[1, 0])", "nn.dense(meta[relay.Constant][0], %0)"])
def test_rows_may_become_columns(apart: str) -> None:
    text = f"def @main(%x: Tensor[(1, 4, 6), float32]) {{ %0 = reshape(%x, newshape=[4, 6]); {apart} }}"
    module = parse_module(text, [np.ones((2, 6), np.float32)])
    assert replace_batch(module, module.main.inputs, 1, 3).main.outputs[0].shape[1] == 12


def test_constants_of_rows_are_repeated_for_each_element() -> None:
    """Positions that are added where the rows of all elements are listed; and a batch that becomes one."""
    places = np.arange(24, dtype=np.float32).reshape(4, 6)
    lines = "%0 = reshape(%x, newshape=[4, 6]); %1 = add(%0, meta[relay.Constant][0]); reshape(%1, newshape=[1, 4, 6])"
    check_slices(f"def @main(%x: Tensor[(1, 4, 6), float32]) {{ {lines} }}", 0, places)
    same = np.full((2, 4), 3, np.float32)
    module = parse_module("def @main(%x: Tensor[(2, 4), float32]) { add(%x, meta[relay.Constant][0]) }", [same])
    changed = replace_batch(module, module.main.inputs, 2, 1)
    verify(changed)
    assert changed.main.outputs[0].shape == (1, 4) and [n.op for n in changed.main] == ["constant", "add"]


def test_functions_get_the_new_batch() -> None:
    text = """
    def @main(%x: Tensor[(1, 4), float32]) { %0 = @f(%x); %1 = @f(%0); @g(%1) }
    def @f(%v: Tensor[(1, 4), float32]) {
      %0 = reshape(%v, newshape=[1, 2, 2]); %1 = nn.softmax(%0); reshape(%1, newshape=[1, 4]) }
    def @g(%v: Tensor[(k, 4), float32]) { sum(%v, axis=[1]) }
    """
    changed = replaced(text, 1, 3)
    assert changed.main.outputs[0].shape == (3,) and changed.graphs["f"].inputs[0].shape == (3, 4)
    x = np.random.default_rng(0).standard_normal((3, 4)).astype(np.float32)
    one_by_one = [run_module(parse_module(text), {"x": row[None]})[0] for row in x]
    np.testing.assert_allclose(run_module(changed, {"x": x})[0], np.concatenate(one_by_one), rtol=1e-6)


@pytest.mark.parametrize("function", ["softmax over the batch", "the batch at two axes"])
def test_functions_that_mix_elements(function: str) -> None:
    if function == "softmax over the batch":
        text = "def @main(%x: Tensor[(1, 4), float32]) { @f(%x) } def @f(%v: Tensor[(k, 4), float32]) { nn.softmax(%v, axis=0) }"
        message = r"node %0 \(nn.softmax\): mixes elements of the batch \(combines all entries along axis 0"
    else:
        text = "def @main(%x: Tensor[(1, 1), float32]) { %0 = @f(%x); %1 = transpose(%0, axes=[1, 0]); @f(%1) } \
                def @f(%v: Tensor[(1, 1), float32]) { abs(%v) }"
        message = r"calls @f with the batch at other axes than elsewhere; call inline_partitions\(\) first"
    module = parse_module(text)
    with pytest.raises(ValueError, match=message) as caught:
        replace_batch(module, module.main.inputs, 1, 3)
    assert "CallAttrs" not in str(caught.value) and "TensorType" not in str(caught.value)
