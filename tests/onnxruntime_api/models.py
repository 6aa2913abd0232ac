"""Small models of the kinds that programs for onnxruntime run, with seeded weights."""

from __future__ import annotations

import math

import numpy as np
import onnx

from tests.frontends.onnx.support import example, model

WIDTH, HEADS, VOCABULARY, POSITIONS = 16, 2, 40, 32
LABELS = ("cat", "dog", "bird")


def describe(proto: onnx.ModelProto, **entries: str) -> onnx.ModelProto:
    """The model with metadata."""
    proto.producer_name, proto.domain, proto.model_version = "tests", "org.example", 7
    proto.doc_string, proto.graph.doc_string = "a model", "a graph"
    onnx.helper.set_model_props(proto, entries)
    return proto


def attention(x: str, keys: str, values: str, mask: str) -> str:
    """``out`` from tokens ``x``, with keys and values as text that defines ``k`` and ``v`` from ``kh`` and ``vh``."""
    return f"""
        q0 = MatMul({x}, wq)  k0 = MatMul({x}, wk)  v0 = MatMul({x}, wv)
        q1 = Reshape(q0, split)  k1 = Reshape(k0, split)  v1 = Reshape(v0, split)
        q = Transpose<perm = [0, 2, 1, 3]>(q1)  kh = Transpose<perm = [0, 2, 1, 3]>(k1)  vh = Transpose<perm = [0, 2, 1, 3]>(v1)
        {keys} {values}
        kt = Transpose<perm = [0, 1, 3, 2]>(k)  s0 = MatMul(q, kt)  s1 = Div(s0, root)  s = Add(s1, {mask})
        p = Softmax<axis = -1>(s)  o0 = MatMul(p, v)  o1 = Transpose<perm = [0, 2, 1, 3]>(o0)  o2 = Reshape(o1, join)
        out = MatMul(o2, wo)"""


def weights_of_attention() -> dict[str, np.ndarray]:
    weights = {name: example(k, WIDTH, WIDTH) / 4 for k, name in enumerate(("wq", "wk", "wv", "wo"))}
    shapes = {"split": np.array([0, 0, HEADS, WIDTH // HEADS]), "join": np.array([0, 0, WIDTH])}
    return {**weights, **shapes, "root": np.float32(math.sqrt(WIDTH / HEADS)), "words": example(9, VOCABULARY, WIDTH)}


def encoder() -> onnx.ModelProto:
    """A BERT of one layer: hidden states of all tokens, and those of the first through a dense layer."""
    mask = "m0 = Cast<to = 1>(attention_mask)  m1 = Sub(one, m0)  m2 = Mul(m1, low)  m = Unsqueeze(m2, axes)"
    text = f"""
        encoder (int64[batch, sequence] input_ids, int64[batch, sequence] attention_mask, int64[batch, sequence] token_type_ids)
            => (float[batch, sequence, 16] last_hidden_state, float[batch, 16] pooler_output) {{
            e0 = Gather(words, input_ids)  e1 = Gather(types, token_type_ids)  e2 = Add(e0, e1)
            size = Shape<start = 1, end = 2>(input_ids)  e3 = Slice(positions, zero, size, zero)  e4 = Add(e2, e3)
            x = LayerNormalization<axis = -1>(e4, scale, shift)
            {mask} {attention("x", "k = Identity(kh)", "v = Identity(vh)", "m")}
            a0 = Add(x, out)  a = LayerNormalization<axis = -1>(a0, scale, shift)
            f0 = MatMul(a, up)  f1 = Div(f0, sqrt2)  f2 = Erf(f1)  f3 = Add(f2, one)  f4 = Mul(f0, f3)  f5 = Mul(f4, half)
            f = MatMul(f5, down)  h0 = Add(a, f)  last_hidden_state = LayerNormalization<axis = -1>(h0, scale, shift)
            first = Gather<axis = 1>(last_hidden_state, index)  d = MatMul(first, wo)  pooler_output = Tanh(d)
        }}"""
    return model(
        text, 17, **weights_of_attention(), types=example(10, 2, WIDTH), positions=example(11, POSITIONS, WIDTH),
        scale=np.abs(example(12, WIDTH)), shift=example(13, WIDTH), up=example(14, WIDTH, 32) / 4,
        down=example(15, 32, WIDTH) / 4, one=np.float32(1), half=np.float32(0.5), low=np.float32(-1e4),
        sqrt2=np.float32(math.sqrt(2)), axes=np.array([1, 2]), zero=np.array([0]), index=np.array(0))


def decoder() -> onnx.ModelProto:
    """A decoder of one layer whose calls take and give keys and values, as exports of transformers do."""
    past = "float[batch, 2, past_sequence_length, 8] past_key, float[batch, 2, past_sequence_length, 8] past_value"
    present = "float[batch, 2, total, 8] present_key, float[batch, 2, total, 8] present_value"
    keys, values = "k = Concat<axis = 2>(past_key, kh)", "v = Concat<axis = 2>(past_value, vh)"
    text = f"""
        decoder (int64[batch, sequence] input_ids, int64[batch, total] attention_mask, {past})
            => (float[batch, sequence, {VOCABULARY}] logits, {present}) {{
            x = Gather(words, input_ids)
            m0 = Cast<to = 1>(attention_mask)  m1 = Sub(one, m0)  m2 = Mul(m1, low)  m = Unsqueeze(m2, axes)
            {attention("x", keys, values, "m")}
            present_key = Identity(k)  present_value = Identity(v)
            h = Add(x, out)  logits = MatMul(h, head)
        }}"""
    return model(text, 17, **weights_of_attention(), head=example(20, WIDTH, VOCABULARY), one=np.float32(1),
                 low=np.float32(-1e4), axes=np.array([1, 2]))


def network(size: str = "height, width") -> onnx.ModelProto:
    """A classifier of images, whose metadata name the classes."""
    text = f"""
        network (float[batch, 3, {size}] images) => (float[batch, 3] output0) {{
            c = Conv<kernel_shape = [3, 3], pads = [1, 1, 1, 1], strides = [2, 2]>(images, w, b)  r = Relu(c)
            p = GlobalAveragePool(r)  f = Flatten(p)  g = Gemm<transB = 1>(f, dense, bias)  output0 = Softmax<axis = -1>(g)
        }}"""
    proto = model(text, 17, w=example(0, 8, 3, 3, 3), b=example(1, 8), dense=example(2, 3, 8), bias=example(3, 3))
    return describe(proto, names=str(dict(enumerate(LABELS))), stride="2", task="classify", character="\n".join(LABELS))


def classifier(labels: str = "strings") -> onnx.ModelProto:
    """What skl2onnx makes of a logistic regression: labels, and probabilities as maps."""
    names = 'classlabels_strings = ["cat", "dog", "bird"]' if labels == "strings" else "classlabels_ints = [1, 5, 9]"
    keys = names if labels == "strings" else "classlabels_int64s = [1, 5, 9]"
    kind, element = ("string", 8) if labels == "strings" else ("int64", 7)
    text = f"""
        classifier (float[None, 2] X) => ({kind}[None] output_label, float[None, 3] output_probability) {{
            label, scores = ai.onnx.ml.LinearClassifier<{names}, coefficients = [1.0, -0.5, 0.25, 2.0, -1.0, 0.5],
                intercepts = [0.1, 0.2, -0.3], multi_class = 1, post_transform = "SOFTMAX">(X)
            output_label = Identity(label)
            output_probability = ai.onnx.ml.ZipMap<{keys}>(scores)
        }}"""
    proto = model(text, 15, domains={"ai.onnx.ml": 1})
    value = onnx.helper.make_tensor_type_proto(1, None)
    maps = onnx.helper.make_sequence_type_proto(onnx.helper.make_map_type_proto(element, value))
    proto.graph.output[1].CopyFrom(onnx.helper.make_value_info("output_probability", maps))
    return proto


def voice() -> onnx.ModelProto:
    """A detector of speech that takes and gives its state, and the rate as a scalar."""
    text = """
        voice (float[batch, 8] input, float[2, batch, 4] state, int64 sr) => (float[batch, 1] output, float[2, batch, 4] stateN) {
            s = Cast<to = 1>(sr)  r = Div(s, rate)  x = Mul(input, r)  u = MatMul(x, w)  old = Gather<axis = 0>(state, one)
            n = Add(u, old)  new = Tanh(n)
            a = Unsqueeze(old, zero)  b = Unsqueeze(new, zero)  stateN = Concat<axis = 0>(a, b)
            m = ReduceMean<axes = [1], keepdims = 1>(new)  output = Sigmoid(m)
        }"""
    return model(text, 17, rate=np.float32(16000), w=example(0, 8, 4), one=np.array(1), zero=np.array([0]))


def linear(extents: str = "N, 3") -> onnx.ModelProto:
    """Two outputs of one input: a product, whose weights are an initializer, and a sum with one that is an input, too."""
    text = f"""
        linear (float[{extents}] x, float[3] shift) => (float[N, 2] product, float[N, 3] sum) {{
            product = MatMul(x, w)  sum = Add(x, shift)
        }}"""
    return describe(model(text, 17, w=example(0, 3, 2), shift=example(1, 3)), author="me", licence="MIT")


def strings() -> onnx.ModelProto:
    return model("""
        texts (string[N] x) => (string[2, N] kept, int64[N] codes) {
            a = Unsqueeze(x, zero)  kept = Concat<axis = 0>(a, a)
            codes = ai.onnx.ml.LabelEncoder<keys_strings = ["this", "test"], values_int64s = [3, 4], default_int64 = -1>(x)
        }""", 17, domains={"ai.onnx.ml": 2}, zero=np.array([0]))


def sequences() -> onnx.ModelProto:
    return model("""
        lists (seq(int64[N]) items, int64[N] item) => (seq(int64[N]) longer, int64 length) {
            longer = SequenceInsert(items, item)  length = SequenceLength(longer)
        }""", 17)


def gathering() -> onnx.ModelProto:
    return model("gathering (float[N] x, int64[K] i) => (float[K] y) { y = Gather(x, i) }", 17)


def counting() -> onnx.ModelProto:
    """The sizes of its output depend on data."""
    return model("counting (float[N] x) => (int64[1, M] places) { places = NonZero(x) }", 17)
