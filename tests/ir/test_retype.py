"""Symbols replaced and named, types inferred again, sizes of params."""

from __future__ import annotations

import numpy as np
import pytest

from forge import dims
from forge.errors import InvalidGraphError
from forge.ir.parser import parse_module
from forge.ir.retype import infer_again, number_symbols, sizes_of_params, substitute_symbols
from forge.ir.verifier import verify


def test_substitute_symbols_goes_everywhere() -> None:
    module = parse_module(
        "def @main(%c: bool, %x: Tensor[(n, m), float32]) {\n"
        "  %0 = if(%c, %x) { then_branch = fn (%a: Tensor[(n, m), float32]) { reshape(%a, newshape=[m, n]) }, "
        "else_branch = fn (%a: Tensor[(n, m), float32]) { transpose(%a) } };\n  %1 = @f(%0); reshape(%1, newshape=[n*m])\n}\n"
        "def @f(%v: Tensor[(n, k), float32]) { reshape(%v, newshape=[n, k]) }"
    )
    changed = substitute_symbols(module, {"n": 4})
    verify(changed)
    text = str(changed)
    assert "newshape=[m, 4]" in text and "newshape=[4*m]" in text
    assert "def @f(%v: Tensor[(n, k), float32])" in text
    assert "Tensor[(n, m), float32]" in str(module)


def test_numbers_of_symbols_do_not_depend_on_the_process() -> None:
    text = (
        "def @main(%x: Tensor[(d_0, 3), float32]) {\n"
        "  %0 = argwhere(%x);\n  %1 = argwhere(%0);\n  %2 = reshape(%1, newshape=[-1]);\n  (%0, %2)\n}"
    )
    texts = set()
    for _ in range(2):
        dims.fresh()
        module = parse_module(text)
        number_symbols(module.main)
        verify(module)
        texts.add(str(module))
    (same,) = texts
    introduced = [line for line in same.splitlines() if "ty=" in line]
    assert len(introduced) == 2
    assert same == str(parse_module(same))


def test_numbering_swaps_names_at_once() -> None:
    module = parse_module(
        "def @main(%x: Tensor[(3), float32]) { %0 = argwhere(%x) /* ty=Tensor[(d_1, 1), int64] */; "
        "%1 = argwhere(%0) /* ty=Tensor[(d_0, 2), int64] */; (%0, %1, broadcast_to(1f, shape=[d_0, d_1])) }"
    )
    number_symbols(module.main)
    assert [str(v.type) for v in module.main.outputs] == [
        "Tensor[(d_0, 1), int64]", "Tensor[(d_1, 2), int64]", "Tensor[(d_1, d_0), float32]",
    ]  # fmt: skip


def test_infer_again_reports_what_changed() -> None:
    module = parse_module("def @main(%x: Tensor[(3), float32]) { %0 = argwhere(%x) /* ty=Tensor[(found, 1), int64] */; abs(%0) }")
    nodes = module.main.nodes
    assert [infer_again(n) for n in nodes] == [[], []]
    nodes[0].result.type = module.main.inputs[0].type
    assert infer_again(nodes[1]) == [nodes[1].result]
    nodes[0].set_operand(0, None)
    with pytest.raises(InvalidGraphError, match="is missing"):
        infer_again(nodes[0])


def test_sizes_of_params() -> None:
    inputs = {"x": "n", "w": "n, 2*m", "v": "m + 1", "b": "m"}
    declared = ", ".join(f"%{name}: Tensor[({shape}), float32]" for name, shape in inputs.items())
    module = parse_module(f"def @main({declared}) {{ (%x, %w, %v, %b) }}")
    module.params = {"w": np.zeros((3, 8)), "v": np.zeros(5), "b": np.zeros(4)}
    assert sizes_of_params(module.main) == {"n": 3, "m": 4}
    module.params["v"] = np.zeros(4, np.float32)
    with pytest.raises(InvalidGraphError, match=r"params: 'v': got size 4 for m \+ 1; expected m = 4, as 'b' has it"):
        sizes_of_params(module.main)
    del module.params["b"], module.params["v"]
    assert sizes_of_params(module.main) == {"n": 3, "m": 4}
    module.params["w"] = np.zeros((3, 9), np.float32)
    with pytest.raises(InvalidGraphError, match=r"params: 'w': got size 9 for 2\*m; expected a symbol or a number"):
        sizes_of_params(module.main)
