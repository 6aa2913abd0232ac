"""inline_calls."""

from __future__ import annotations

import numpy as np
import pytest

import forge.ops  # noqa: F401  (registers the operators)
from forge.errors import InvalidGraphError
from forge.ir.graph import Module, clone_node
from forge.ir.interp import run_module
from forge.ir.parser import parse_module
from forge.ir.types import TensorType
from forge.ir.verifier import verify
from forge.passes import inline_calls

TWICE = """
def @main(%x: Tensor[(batch, 4), float32]) {
  %a = @double(%x) /* ty=Tensor[(batch, 4), float32] */;
  %b = @double(%a) /* ty=Tensor[(batch, 4), float32] */;
  nn.relu(%b)
}
def @double(%v: Tensor[(n, 4), float32]) { %s = add(%v, %v); reshape(%s, newshape=[n, 4]) }
"""


def inline(module: Module) -> int:
    """Inlines in place; what is left is a valid graph without calls that computes the same."""
    inputs = {v.name: np.arange(12, dtype=np.float32).reshape(3, 4) for v in module.main.inputs}
    expected = run_module(module, inputs)
    names = module.main.output_names
    count = inline_calls.run(module.main, module)
    verify(module)
    assert not [n for n in module.main.walk() if n.op == "call"]
    assert module.main.output_names == names
    for got, want in zip(run_module(Module(module.main), inputs), expected, strict=True):
        np.testing.assert_array_equal(got, want)
    return count


def test_text_before_and_after() -> None:
    module = parse_module(TWICE)
    assert inline(module) == 2
    assert str(Module(module.main)) == (
        "def @main(%x: Tensor[(batch, 4), float32]) {\n"
        "  %0 = add(%x, %x);\n"
        "  %1 = reshape(%0, newshape=[batch, 4]);\n"
        "  %2 = add(%1, %1);\n"
        "  %3 = reshape(%2, newshape=[batch, 4]);\n"
        "  nn.relu(%3)\n"
        "}\n"
    )


def test_the_function_itself_is_kept() -> None:
    module = parse_module(TWICE)
    before = str(Module(module.graphs["double"]))
    inline(module)
    assert str(Module(module.graphs["double"])) == before


def test_functions_that_call_functions() -> None:
    module = parse_module("""
    def @main(%x: Tensor[(3, 4), float32]) { @f(%x) /* ty=Tensor[(3, 4), float32] */ }
    def @f(%x: Tensor[(3, 4), float32]) { %0 = @g(%x) /* ty=Tensor[(3, 4), float32] */; nn.relu(%0) }
    def @g(%x: Tensor[(3, 4), float32]) { negative(%x) }
    """)
    assert inline(module) == 1
    assert [n.op for n in module.main.nodes] == ["negative", "nn.relu"]


def test_a_function_that_returns_its_parameter_keeps_output_names() -> None:
    module = parse_module("""
    def @main(%x: Tensor[(3, 4), float32]) {
      %y = @same(%x) /* ty=Tensor[(3, 4), float32] */; %z = @same(%x) /* ty=Tensor[(3, 4), float32] */; (%y, %z) }
    def @same(%v: Tensor[(3, 4), float32]) { %v }
    """)
    assert inline(module) == 2
    assert module.main.output_names == ["y", "z"]


def test_calls_in_regions() -> None:
    module = parse_module("""
    def @main(%x: Tensor[(3, 4), float32]) {
      %s = sum(%x);
      %c = greater(%s, 0f);
      if(%c, %x) {
        then_branch = fn (%v: Tensor[(3, 4), float32]) { @f(%v) },
        else_branch = fn (%v: Tensor[(3, 4), float32]) { negative(%v) }
      }
    }
    def @f(%x: Tensor[(3, 4), float32]) { sqrt(%x) }
    """)
    assert inline(module) == 1
    assert [n.op for n in module.main.walk()][-2:] == ["sqrt", "negative"]


def test_sizes_that_only_the_function_knows_are_its_own_in_every_copy() -> None:
    module = parse_module("""
    def @main(%x: Tensor[(3, 4), float32]) { %y = nn.relu(%x); %a = @f(%x); %b = @f(%y); (%a, %b) }
    def @f(%v: Tensor[(n, 4), float32]) { %c = greater(%v, 5f); argwhere(%c) }
    """)
    assert inline(module) == 2
    first, second = (v.shape[0] for v in module.main.outputs)
    assert str(first) != str(second)


def test_recursion_is_refused() -> None:
    module = parse_module(TWICE)
    call = module.main.nodes[0]
    module.graphs["double"].insert(clone_node(call, {call.operands[0]: module.graphs["double"].inputs[0]}))
    with pytest.raises(InvalidGraphError, match="@double: calls itself"):
        inline_calls.run(module.main, module)


def test_a_function_that_does_not_exist() -> None:
    module = parse_module(TWICE)
    del module.graphs["double"]
    with pytest.raises(InvalidGraphError, match="calls @double, which does not exist"):
        inline_calls.run(module.main, module)


def test_growth_without_measure_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(inline_calls, "MAX_NODES", 100)
    functions = [f"def @f{k}(%x: float32) {{ %0 = @f{k + 1}(%x); @f{k + 1}(%0) }}" for k in range(60)]
    text = "\n".join(["def @main(%x: float32) { @f0(%x) }", *functions, "def @f60(%x: float32) { abs(%x) }"])
    module = parse_module(text)
    with pytest.raises(InvalidGraphError, match="more than 100 nodes"):
        inline_calls.run(module.main, module)


def test_a_call_that_does_not_fit() -> None:
    module = parse_module(TWICE)
    module.graphs["double"].inputs[0].type = TensorType((2, 2, 2), "float32")
    with pytest.raises(InvalidGraphError, match="@double"):
        inline_calls.run(module.main, module)
