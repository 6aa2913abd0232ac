"""Decoders whose exporter merged two graphs by an If over ``use_cache_branch``, as sessions that need no such input."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest

pytest.importorskip("onnxruntime")

import forge
from tests.frontends.onnx.support import model, onnxruntime_outputs

HIDDEN, VOCABULARY = 8, 9
TOKENS = [np.array([[3, 14, 15], [1, 2, 3]]), np.array([[9], [4]]), np.array([[2, 6], [5, 3]]), np.array([[5], [0]])]
OUTPUTS = "float[batch, n, 9] logits, float[batch, 2, total, 4] present_0_decoder_key"
CROSS_OUTPUTS = f"{OUTPUTS}, float[batch, 2, encoded, 4] present_0_encoder_key"
HEADS = "e = Gather(table, input_ids)  r = Reshape(e, heads)  new = Transpose<perm = [0, 2, 1, 3]>(r)"


def attention(name: str, queries: str, keys: str, mask: bool = False) -> str:
    return f"""
        {name}_t = Transpose<perm = [0, 1, 3, 2]>({keys})  {name}_s = MatMul({queries}, {name}_t)
        {f"v = Cast<to = 1>(attention_mask)  w = Log(v)  m = Unsqueeze(w, ones)  {name}_a = Add({name}_s, m)" if mask else ""}
        {name}_p = Softmax<axis = -1>({name}_{"a" if mask else "s"})  {name} = MatMul({name}_p, {keys})"""


def logits(values: str) -> str:
    return f"o = Transpose<perm = [0, 2, 1, 3]>({values})  q = Reshape(o, flat)  logits = MatMul(q, head)"


def merged(inputs: str, outputs: str, with_past: str, no_past: str) -> onnx.ModelProto:
    """A model of one If; its caches have dots in their names, which the text form of ONNX does not know."""
    names = ", ".join(declared.split("] ")[1] for declared in outputs.split(", float"))
    text = f"""
        merged (int64[batch, n] input_ids, {inputs}, bool[1] use_cache_branch) => ({outputs}) {{
            {names} = If (use_cache_branch) <
                then_branch = with_past () => ({outputs}) {{ {with_past} }},
                else_branch = no_past () => ({outputs}) {{ {no_past} }}
            >
        }}"""
    rng = np.random.default_rng(0)
    proto = model(
        text, 18, table=rng.standard_normal((50, HIDDEN)).astype("f"), head=rng.standard_normal((HIDDEN, VOCABULARY)).astype("f"),
        heads=np.array([0, 0, 2, 4]), heads_of_one=np.array([-1, 1, 2, 4]), flat=np.array([0, 0, HIDDEN]), ones=np.array([1, 2]))
    data = proto.SerializeToString()
    for name in ("past_key_values", "present"):
        for part in ("decoder", "encoder"):
            data = data.replace(f"{name}_0_{part}_key".encode(), f"{name}.0.{part}.key".encode())
    return onnx.load_from_string(data)


def decoder(past_sizes: str, later_tokens: str) -> onnx.ModelProto:
    """Its branches differ, so that the wrong one is seen."""
    past = "present_0_decoder_key = Concat<axis = 2>(past_key_values_0_decoder_key, new)"
    first = "present_0_decoder_key = Identity(new)"
    parts = [f"{HEADS}  {kept}  {attention('a', 'new', 'present_0_decoder_key', mask=True)}" for kept in (past, first)]
    if later_tokens == "one":
        parts[0] = parts[0].replace("heads)", "heads_of_one)")
    inputs = f"int64[batch, seen] attention_mask, float[{past_sizes}, past, 4] past_key_values_0_decoder_key"
    return merged(inputs, OUTPUTS, f"{parts[0]}  {logits('a')}", f"{parts[1]}  d = Add(a, new)  {logits('d')}")


def cross_decoder() -> onnx.ModelProto:
    """The branch with a cache leaves the keys of the encoder out: as its exporter writes it, by a constant without elements."""
    with_past = f"""
        {HEADS}  present_0_decoder_key = Concat<axis = 2>(past_key_values_0_decoder_key, new)
        {attention("a", "new", "present_0_decoder_key")} {attention("c", "a", "past_key_values_0_encoder_key")} {logits("c")}
        present_0_encoder_key = Constant<value = float[0, 2, 1, 4] {{}}>()"""
    no_past = f"""
        {HEADS}  present_0_decoder_key = Identity(new)  h = Reshape(encoder_hidden_states, heads)
        present_0_encoder_key = Transpose<perm = [0, 2, 1, 3]>(h)
        {attention("a", "new", "present_0_decoder_key")} {attention("c", "a", "present_0_encoder_key")} {logits("c")}"""
    inputs = ("float[batch, source, 8] encoder_hidden_states, float[batch, 2, past, 4] past_key_values_0_decoder_key, "
              "float[batch, 2, encoded, 4] past_key_values_0_encoder_key")
    return merged(inputs, CROSS_OUTPUTS, with_past, no_past)


@pytest.mark.parametrize(("past_sizes", "later_tokens"), [("batch, 2", "any"), ("rows, heads", "any"), ("batch, 2", "one")])
def test_a_session_takes_the_branch_without_a_cache_first(tmp_path: Path, past_sizes: str, later_tokens: str) -> None:
    proto = decoder(past_sizes, later_tokens)
    ir = forge.from_onnx(proto)
    ir.as_session()
    assert [v.name for v in ir.main.inputs] == ["input_ids", "past_key_values.0.decoder.key"]
    ir.compile(output_path=tmp_path / "model")
    session = forge.Runtime(tmp_path / "model").session()
    for _ in range(2):
        cache = np.zeros((2, 2, 0, 4), np.float32)
        for k, given in enumerate(TOKENS):
            tokens = given[:, :1] if later_tokens == "one" and k else given
            mask = np.ones((2, cache.shape[2] + tokens.shape[1]), np.int64)
            expected, cache = onnxruntime_outputs(proto, tokens, mask, cache, np.array([k > 0]))
            np.testing.assert_allclose(session(tokens), expected, rtol=1e-4, atol=1e-5)
        np.testing.assert_allclose(session.state()["past_key_values.0.decoder.key"], cache, rtol=1e-5)
        session.reset()


@pytest.mark.parametrize("keep", [[], ["use_cache_branch"]])
def test_keys_of_the_encoder_stay_what_the_first_call_makes_them(tmp_path: Path, keep: list[str]) -> None:
    proto = cross_decoder()
    ir = forge.from_onnx(proto)
    ir.as_session(keep=keep)
    ir.compile(output_path=tmp_path / "model")
    session = forge.Runtime(tmp_path / "model").session()
    for length in (7, 3):
        hidden = np.random.default_rng(length).standard_normal((2, length, HIDDEN)).astype(np.float32)
        cache = keys = np.zeros((2, 2, 0, 4), np.float32)
        for k, tokens in enumerate(TOKENS):
            expected, cache, new = onnxruntime_outputs(proto, tokens, hidden, cache, keys, np.array([k > 0]))
            keys = new if k == 0 else keys
            got = session(input_ids=tokens, encoder_hidden_states=hidden, **dict.fromkeys(keep, np.array([k > 0])))
            np.testing.assert_allclose(got, expected, rtol=1e-4, atol=1e-5)
        np.testing.assert_allclose(session.state()["past_key_values.0.encoder.key"], keys, rtol=1e-5)
        session.reset()
