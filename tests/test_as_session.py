"""``IRModule.as_session``: inputs that outputs replace become states, by name or as exporters name them."""

from __future__ import annotations

import numpy as np
import pytest

import forge
from forge.errors import InvalidGraphError, OptionError
from forge.ir.interp import run_module

DECODE = """\
def @main(%tokens: Tensor[(b, n), int64], %attention_mask: Tensor[(q, t), int64], %position_ids: Tensor[(b, n), int64],
          {past}: Tensor[(pb, heads, p, 4), float32]) {{
  %0 = reshape(%tokens, newshape=[b, 1, n, 1]);
  %1 = cast(%0, dtype="float32");
  %2 = broadcast_to(%1, shape=[b, 2, n, 4]);
  %3 = broadcast_to({past}, shape=[b, 2, p, 4], exact=True);
  {present} = concatenate(%3, %2, axis=2);
  %seen = sum(%attention_mask, axis=[1]);
  %at = add(%position_ids, 0i64);
  (%seen, {present}, %at)
}}
"""
PREFILL = """\
def @main(%tokens: Tensor[(b, n), int64], %attention_mask: Tensor[(b, n), int64]) {{
  %0 = reshape(%tokens, newshape=[b, 1, n, 1]);
  %1 = cast(%0, dtype="float32");
  {present} = broadcast_to(%1, shape=[b, 2, n, 4]);
  %seen = sum(%attention_mask, axis=[1]);
  (%seen, {present})
}}
"""
NAMES = [
    ("past_key_values.0.key", "present.0.key"),
    ("past_key_values.0.decoder.value", "present.0.decoder.value"),
    ("past_key_values.0.key", "present_key_values.0.key"),
    ("input.past_key_values.layers.0.keys", "output.past_key_values.layers.0.keys"),
    ("input.cache.recurrent", "output.cache.recurrent"),
    ("past_0", "present_0"),
    ("past_key_self_3", "present_key_self_3"),
]


def module(text: str = DECODE, past: str = "past_key_values.0.key", present: str = "present.0.key") -> forge.IRModule:
    return forge.IRModule(text.format(past=f"%{past}", present=f"%{present}"))


@pytest.mark.parametrize(("past", "present"), NAMES)
def test_names_of_exporters(past: str, present: str) -> None:
    ir = module(past=past, present=present)
    ir.as_session()
    assert [v.name for v in ir.main.inputs] == ["tokens", past]
    assert ir.main.states[past].output == 1
    assert [str(d) for d in ir.main.inputs[1].shape] == ["b", "2", "p", "4"]


def test_what_follows_from_the_cache_is_computed() -> None:
    ir = module()
    ir.as_session()
    tokens, cache = np.array([[5, 6], [7, 8]]), np.zeros((2, 2, 3, 4), np.float32)
    seen, longer, at = run_module(ir.mod, {"tokens": tokens, "past_key_values.0.key": cache})
    assert seen.tolist() == [5, 5] and at.tolist() == [[3, 4], [3, 4]]
    assert longer.shape == (2, 2, 5, 4) and longer[1, 0, 3:, 0].tolist() == [7, 8]


def test_inputs_are_kept_on_request() -> None:
    ir = module()
    ir.as_session(keep=["attention_mask"])
    assert [v.name for v in ir.main.inputs] == ["tokens", "attention_mask", "past_key_values.0.key"]


def test_names_that_are_given() -> None:
    ir = module(past="old", present="new")
    ir.as_session({"old": "new"})
    assert ir.main.states["old"].output == 1


def test_prefill_leaves_what_decode_reads() -> None:
    ir = forge.join({"prefill": module(PREFILL), "decode": module()})
    ir.as_session()
    prefill, decode = ir.mod.public.values()
    assert prefill.states["past_key_values.0.key"].output == 1 and [v.name for v in prefill.inputs] == ["tokens"]
    assert decode.states["past_key_values.0.key"].output == 1
    (seen, _) = run_module(ir.function("prefill").mod, {"tokens": np.array([[5, 6, 7]])})
    assert seen.tolist() == [3]


def test_functions_may_name_a_state_differently() -> None:
    prefill = module(PREFILL, present="past_key_values.layers.0.keys")
    decode = module(past="input.past_key_values.layers.0.keys", present="output.past_key_values.layers.0.keys")
    ir = forge.join({"prefill": prefill, "decode": decode})
    ir.as_session()
    assert [list(graph.states) for graph in ir.mod.public.values()] == [["input.past_key_values.layers.0.keys"]] * 2


def test_nothing_is_recognized() -> None:
    ir = module(past="old", present="new")
    before = str(ir.mod)
    with pytest.raises(OptionError, match=r"got inputs tokens, .*, old; outputs seen, new, at; .*as_session\(\{.input.: .output"):
        ir.as_session()
    assert str(ir.mod) == before
    with pytest.raises(OptionError, match="no output is the next value of an input"):
        module(PREFILL).as_session()


@pytest.mark.parametrize(
    ("states", "message"),
    [
        ({"older": "new"}, "got 'older'; expected one of the inputs: tokens, "),
        ({"old": "newer"}, "got 'newer'; expected one of the outputs: seen, new, at"),
        ({"old": "new", "tokens": "new"}, "'new' stands there twice"),
        ("old", "got 'old'; expected names of outputs by those of inputs"),
    ],
)
def test_wrong_names(states: dict[str, str], message: str) -> None:
    with pytest.raises(OptionError, match=message):
        module(past="old", present="new").as_session(states)


def test_types_that_do_not_fit() -> None:
    with pytest.raises(InvalidGraphError, match=r"state 'old': the output is .*int64\] for .*float32\]; expected the same"):
        module(past="old", present="new").as_session({"old": "at"})
    with pytest.raises(InvalidGraphError, match="state 'tokens': the output is"):
        module(past="old", present="new").as_session({"tokens": "seen"})


@pytest.mark.parametrize("keep", ["attention_mask", [1]])
def test_wrong_kept_inputs(keep: object) -> None:
    with pytest.raises(OptionError, match=r"as_session: keep: got .*; expected names of inputs"):
        module().as_session(keep=keep)  # type: ignore[arg-type]


def test_a_kept_input_that_does_not_exist() -> None:
    with pytest.raises(OptionError, match="as_session: keep: got 'mask'; expected names of: tokens, attention_mask"):
        module().as_session(keep=["mask"])
