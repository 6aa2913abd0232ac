"""Names that an edit changes, and what knows them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import forge
from forge.errors import InvalidGraphError

A, B = np.full(2, 3, np.float32), np.full(2, 5, np.float32)


def example() -> forge.IRModule:
    inputs = ", ".join(f"%{name}: Tensor[(2), float32]" for name in "xab")
    return forge.IRModule(f"def @main({inputs}) {{ %0 = multiply(%x, %a); add(%0, %b) }}", {"a": A, "b": B})


def outputs(ir: forge.IRModule) -> list[float]:
    x = np.ones(2, np.float32)
    return [*ir.get_inference_function("reference")(x), *ir.get_inference_function()(x)]


def test_params_follow_an_input() -> None:
    ir = example()
    with ir.edit() as e:
        e.rename(ir.main.inputs[1], "scale")
    assert list(ir.params) == ["scale", "b"] and ir.input_names == ["x"] and ir.typed_mod
    assert outputs(ir) == outputs(example())


def test_two_inputs_swap_their_names() -> None:
    ir = example()
    with ir.edit() as e:
        e.rename(ir.main.inputs[1], "b")
        e.rename(ir.main.inputs[2], "a")
    assert ir.params["b"][0] == 3 and ir.params["a"][0] == 5
    assert outputs(ir) == outputs(example())


def test_what_the_block_binds_stays() -> None:
    ir = example()
    with ir.edit() as e:
        e.rename(ir.main.inputs[1], "scale")
        ir.params["scale"] = B
    assert list(ir.params) == ["scale", "b"] and ir.params["scale"][0] == 5


def test_a_block_that_fails_leaves_params_as_they_were() -> None:
    ir = example()
    before = str(ir.typed_mod)
    with pytest.raises(InvalidGraphError, match="2 inputs are called %b"), ir.edit() as e:
        e.rename(ir.main.inputs[1], "b")
    with pytest.raises(RuntimeError), ir.edit() as e:
        e.rename(ir.main.inputs[1], "scale")
        raise RuntimeError
    assert list(ir.params) == ["a", "b"] and str(ir.typed_mod) == before


@pytest.mark.parametrize("name", ["", 3, None, b"x"])
def test_what_is_no_name(name: Any) -> None:
    ir = example()
    first = ir.main.nodes[0]
    for item, what in ((ir.main.inputs[1], "value %a"), (first, r"node %0 \(multiply\)")):
        with pytest.raises(InvalidGraphError, match=rf"rename: {what}: got {name!r}; expected a name, text"), ir.edit() as e:
            e.rename(item, name)
    assert ir.input_names == ["x"] and not first.name


def test_what_is_renamed_is_a_node_or_value() -> None:
    ir = example()
    with pytest.raises(InvalidGraphError, match="rename: got 'x'; expected a node or value"), ir.edit() as e:
        e.rename("x", "y")  # type: ignore[arg-type]
