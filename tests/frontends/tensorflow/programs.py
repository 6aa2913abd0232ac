"""Programs as people write them in TensorFlow; `record_programs` saves them, `test_programs` runs them.

Each maker gives a module for ``tf.saved_model.save`` with its signatures, and calls: names of signatures with their arguments,
one after the other, so that what variables keep is seen.
"""

# ruff: noqa: B023

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

Call = tuple[str, Mapping[str, np.ndarray]]
Program = tuple[Any, Mapping[str, Any], Sequence[Call]]
SERVE = "serving_default"
RANDOM = np.random.default_rng(5)


def floats(*shape: int) -> np.ndarray:
    return RANDOM.normal(size=shape).astype(np.float32)


def _module(function: Callable[..., Any], *specs: Any, **variables: Any) -> Any:
    """A module with one function of the variables and of tensors."""
    import tensorflow as tf

    module = tf.Module()
    for name, value in variables.items():
        setattr(module, name, value)
    module.run = tf.function(lambda *given: function(module, *given), input_signature=list(specs))
    return module


def _one(function: Callable[..., Any], shapes: Sequence[Any], calls: Sequence[Sequence[np.ndarray]], **variables: Any) -> Program:
    """A program of one signature, whose inputs are ``x0``, ``x1``, .."""
    import tensorflow as tf

    specs = [tf.TensorSpec(shape, tf.as_dtype(calls[0][k].dtype), name=f"x{k}") for k, shape in enumerate(shapes)]
    module = _module(function, *specs, **variables)
    return module, {SERVE: module.run}, [(SERVE, {f"x{k}": v for k, v in enumerate(call)}) for call in calls]


def counted_loop() -> Program:
    import tensorflow as tf

    def run(_: Any, x: Any) -> Any:
        y = x
        for i in tf.range(5):
            y = y * 0.5 + tf.cast(i, tf.float32)
        return y

    return _one(run, [(None, 3)], [[floats(2, 3)]])


def loop_until() -> Program:
    import tensorflow as tf

    def run(_: Any, x: Any) -> Any:
        n = tf.constant(0)
        while tf.reduce_sum(x) < 100.0:
            x = x * 2.0
            n += 1
        return {"x": x, "rounds": n}

    return _one(run, [(3,)], [[np.abs(floats(3)) + 0.1]])


def loop_with_break() -> Program:
    import tensorflow as tf

    def run(_: Any, x: Any, limit: Any) -> Any:
        total = tf.zeros([])
        for i in tf.range(tf.shape(x)[0]):
            if x[i] < 0.0:
                continue
            total += x[i]
            if total > limit:
                break
        return total

    return _one(run, [(None,), ()], [[floats(9), np.float32(1.5)], [floats(4), np.float32(99)]])


def nested_loops() -> Program:
    import tensorflow as tf

    def run(_: Any, x: Any) -> Any:
        y = tf.zeros_like(x)
        for i in tf.range(3):
            for j in tf.range(i + 1):
                y += x * tf.cast(j + 1, tf.float32)
        return y

    return _one(run, [(2, 2)], [[floats(2, 2)]])


def array_of_rows() -> Program:
    import tensorflow as tf

    def run(_: Any, x: Any) -> Any:
        rows = tf.TensorArray(tf.float32, size=4)
        state = tf.zeros_like(x[0])
        for i in tf.range(4):
            state = tf.tanh(state + x[i])
            rows = rows.write(i, state)
        return rows.stack()

    return _one(run, [(4, 3)], [[floats(4, 3)]])


def array_backwards() -> Program:
    import tensorflow as tf

    def run(_: Any, x: Any) -> Any:
        n = tf.shape(x)[0]
        parts = tf.TensorArray(tf.float32, size=n).unstack(x)
        rows = tf.TensorArray(tf.float32, size=n)
        state = tf.zeros_like(x[0])
        for i in tf.range(n):
            state = 0.5 * state + parts.read(n - 1 - i)
            rows = rows.write(n - 1 - i, state)
        return rows.stack(), state

    return _one(run, [(None, 3)], [[floats(5, 3)], [floats(2, 3)]])


def array_that_grows() -> Program:
    import tensorflow as tf

    def run(_: Any, x: Any) -> Any:
        rows = tf.TensorArray(tf.float32, size=0, dynamic_size=True)
        for i in range(3):
            rows = rows.write(i, x * float(i + 1))
        return rows.concat()

    return _one(run, [(2, 2)], [[floats(2, 2)]])


def array_gather_scatter() -> Program:
    import tensorflow as tf

    def run(_: Any, x: Any) -> Any:
        rows = tf.TensorArray(tf.float32, size=4).scatter([2, 0, 3, 1], x)
        return rows.gather([1, 1, 3]), rows.size()

    return _one(run, [(4, 2)], [[floats(4, 2)]])


def branches() -> Program:
    import tensorflow as tf

    def run(_: Any, x: Any, k: Any) -> Any:
        y = tf.switch_case(k, [lambda: x + 1.0, lambda: x * 2.0, lambda: -x])
        if tf.reduce_max(y) > 1.0:
            y = tf.cond(y[0] > 0.0, lambda: y * 3.0, lambda: y - 1.0)
        else:
            y = tf.abs(y)
        return y

    calls = [[floats(3), np.int32(k)] for k in (0, 1, 2, 7, -1)]
    return _one(run, [(3,), ()], calls)


def branch_in_loop() -> Program:
    import tensorflow as tf

    def run(_: Any, x: Any) -> Any:
        steps = tf.constant(0)
        n = x
        while n > 1:
            n = tf.cond(n % 2 == 0, lambda: n // 2, lambda: 3 * n + 1)
            steps += 1
        return steps

    return _one(run, [()], [[np.int32(7)], [np.int32(27)], [np.int32(1)]])


def collatz_of_vector() -> Program:
    import tensorflow as tf

    def run(_: Any, x: Any) -> Any:
        return tf.map_fn(lambda v: tf.reduce_sum(v * v) + v[0], x)

    return _one(run, [(None, 3)], [[floats(4, 3)]])


def scan_and_fold() -> Program:
    import tensorflow as tf

    def run(_: Any, x: Any) -> Any:
        return tf.scan(lambda a, v: a * 0.9 + v, x, initializer=tf.zeros([3])), tf.foldl(lambda a, v: a + v * v, x)

    return _one(run, [(6, 3)], [[floats(6, 3)]])


def counter() -> Program:
    import tensorflow as tf

    def run(m: Any, x: Any) -> Any:
        m.total.assign_add(tf.reduce_sum(x, 0))
        m.times.assign_add(1)
        return m.total / tf.cast(m.times, tf.float32)

    return _one(run, [(None, 3)], [[floats(2, 3)], [floats(1, 3)], [floats(4, 3)]],
                total=tf.Variable(tf.zeros([3])), times=tf.Variable(0))


def variable_in_loop() -> Program:
    import tensorflow as tf

    def run(m: Any, x: Any) -> Any:
        for i in tf.range(3):
            m.state.assign(m.state * 0.5 + x[i])
            if tf.reduce_sum(m.state) > 1.0:
                m.hits.assign_add(1)
        return m.state + 0.0, m.hits + 0

    return _one(run, [(3, 2)], [[floats(3, 2)], [floats(3, 2) + 1]], state=tf.Variable(tf.ones([2])), hits=tf.Variable(0))


def ring_buffer() -> Program:
    import tensorflow as tf

    def run(m: Any, x: Any) -> Any:
        m.buffer.scatter_nd_update([[m.place]], [x])
        m.place.assign((m.place + 1) % 4)
        return tf.reduce_mean(m.buffer, 0), tf.gather(m.buffer, [0, 3])

    return _one(run, [(2,)], [[floats(2)] for _ in range(5)], buffer=tf.Variable(tf.zeros([4, 2])), place=tf.Variable(0))


def two_signatures() -> Program:
    import tensorflow as tf

    module = tf.Module()
    module.memory = tf.Variable(tf.zeros([2]))
    module.weight = tf.Variable(floats(2, 2))
    spec = [tf.TensorSpec((2,), tf.float32, name="x")]
    module.write = tf.function(lambda x: {"written": module.memory.assign(tf.linalg.matvec(module.weight, x))}, spec)
    module.read = tf.function(lambda x: {"sum": module.memory + x}, spec)
    x = floats(2)
    return module, {SERVE: module.write, "read": module.read}, [
        ("read", {"x": x}), (SERVE, {"x": x}), ("read", {"x": x}), (SERVE, {"x": x * 2}), ("read", {"x": x})]


def tables() -> Program:
    import tensorflow as tf

    keys, values = tf.constant([3, 7, 11], tf.int64), tf.constant([0.5, -1.0, 2.0])
    table = tf.lookup.StaticHashTable(tf.lookup.KeyValueTensorInitializer(keys, values), -9.0)
    return _one(lambda m, x: m.table.lookup(x), [(None,)], [[np.array([7, 3, 4], np.int64)]], table=table)


def words() -> Program:
    import tensorflow as tf

    table = tf.lookup.StaticHashTable(
        tf.lookup.KeyValueTensorInitializer(tf.constant(["cat", "dog"]), tf.constant([1, 2], tf.int64)), 0)
    embedding = tf.Variable(floats(3, 4))
    return _one(lambda m, x: tf.gather(m.embedding, m.table.lookup(x)), [(None,)], [[np.array(["dog", "cow", "cat"])]],
                table=table, embedding=embedding)


def named_outputs() -> Program:
    """Operators with several outputs inside of functions, which name them."""
    import tensorflow as tf

    def run(_: Any, x: Any) -> Any:
        values, places = tf.math.top_k(x, 3)
        a, b, c = tf.split(x, [1, 2, 3], axis=1)
        mean, variance = tf.nn.moments(x, [0])
        parts = tf.unstack(b, axis=1)
        return {"values": values, "places": places, "c": c + a, "last": parts[1] - parts[0], "mean": mean, "variance": variance}

    return _one(run, [(None, 6)], [[floats(4, 6)]])


def sizes() -> Program:
    import tensorflow as tf

    def run(_: Any, x: Any) -> Any:
        shape = tf.shape(x)
        flat = tf.reshape(x, [shape[0], shape[1] * shape[2]])
        back = tf.reshape(tf.transpose(flat), tf.stack([shape[1], shape[2], -1]))
        return tf.pad(back, [[1, 0], [0, 1], [0, 0]]), tf.ones([shape[0], 2]), flat[:, tf.newaxis, 1:]

    return _one(run, [(None, None, 4)], [[floats(2, 3, 4)], [floats(1, 5, 4)]])


def assertion() -> Program:
    import tensorflow as tf

    def run(_: Any, x: Any) -> Any:
        tf.debugging.assert_less(tf.reduce_max(x), 50.0)
        tf.print("seen", tf.shape(x))
        return tf.math.log(tf.nn.relu(x) + 1.0)

    return _one(run, [(None, 2)], [[floats(3, 2)]])


def images() -> Program:
    import tensorflow as tf

    def run(m: Any, x: Any) -> Any:
        y = tf.nn.conv2d(x, m.first, 2, "SAME")
        y = tf.nn.relu6(tf.nn.bias_add(y, m.bias))
        y = tf.nn.depthwise_conv2d(y, m.depthwise, [1, 1, 1, 1], "VALID")
        y = tf.nn.conv2d_transpose(y, m.up, [tf.shape(y)[0], 12, 12, 3], 2, "VALID")
        y = tf.image.resize(y, [9, 7])
        return tf.nn.max_pool2d(y, 3, 2, "SAME"), tf.nn.avg_pool2d(y, 2, 2, "VALID")

    return _one(run, [(None, 14, 14, 3)], [[floats(2, 14, 14, 3)]], first=tf.Variable(floats(3, 3, 3, 4)),
                bias=tf.Variable(floats(4)), depthwise=tf.Variable(floats(3, 3, 4, 2)), up=tf.Variable(floats(4, 4, 3, 8)))


def keras_recurrent() -> Program:
    import keras

    keras.utils.set_random_seed(0)
    x = keras.Input((6, 4), name="x")
    y = keras.layers.Bidirectional(keras.layers.LSTM(5, return_sequences=True))(x)
    y = keras.layers.GRU(4, return_sequences=True, go_backwards=True)(y)
    y = keras.layers.SimpleRNN(3)(y)
    return _keras(keras.Model(x, y), floats(2, 6, 4))


def keras_masked() -> Program:
    import keras

    keras.utils.set_random_seed(0)
    x = keras.Input((7,), name="x", dtype="int32")
    y = keras.layers.LSTM(4)(keras.layers.Embedding(9, 5, mask_zero=True)(x))
    return _keras(keras.Model(x, y), np.array([[3, 1, 4, 0, 0, 0, 0], [1, 5, 8, 2, 6, 5, 3]], np.int32))


def keras_attention() -> Program:
    import keras

    keras.utils.set_random_seed(0)
    x = keras.Input((5, 8), name="x")
    y = keras.layers.LayerNormalization()(x + keras.layers.MultiHeadAttention(2, 4)(x, x))
    y = keras.layers.Dense(6, activation="gelu")(y)
    return _keras(keras.Model(x, y), floats(2, 5, 8))


def keras_images() -> Program:
    import keras

    keras.utils.set_random_seed(0)
    layers = keras.layers
    x = keras.Input((16, 16, 3), name="x")
    y = layers.SeparableConv2D(6, 3, padding="same")(layers.Rescaling(1 / 2)(x))
    y = layers.Activation("swish")(layers.BatchNormalization()(y))
    y = layers.Conv2DTranspose(4, 3, strides=2, padding="same")(layers.MaxPooling2D()(y))
    y = layers.UpSampling2D(2, interpolation="bilinear")(layers.AveragePooling2D(2)(y))
    y = layers.Dense(3)(layers.GlobalAveragePooling2D()(layers.GroupNormalization(2)(y)))
    return _keras(keras.Model(x, y), floats(2, 16, 16, 3))


def keras_conv_lstm() -> Program:
    import keras

    keras.utils.set_random_seed(0)
    x = keras.Input((3, 5, 5, 2), name="x")
    return _keras(keras.Model(x, keras.layers.ConvLSTM2D(3, 3, padding="same")(x)), floats(1, 3, 5, 5, 2))


def _keras(model: Any, x: np.ndarray) -> Program:
    return model, {}, [(SERVE, {"x": x})]


PROGRAMS: dict[str, Callable[[], Program]] = {f.__name__: f for f in (
    counted_loop, loop_until, loop_with_break, nested_loops, array_of_rows, array_backwards, array_that_grows,
    array_gather_scatter, branches, branch_in_loop, collatz_of_vector, scan_and_fold, counter, variable_in_loop, ring_buffer,
    two_signatures, tables, words, named_outputs, sizes, assertion, images, keras_recurrent, keras_masked, keras_attention,
    keras_images, keras_conv_lstm,
)}


def old_graph(name: str) -> tuple[Any, list[str], Mapping[str, np.ndarray]]:
    """A graph with control flow of single nodes, names of its outputs, and what it is given."""
    import tensorflow as tf

    v1 = tf.compat.v1
    graph = tf.Graph()
    with graph.as_default():
        v1.disable_control_flow_v2()
        x = v1.placeholder(tf.float32, [None, 3], name="x")
        outputs = OLD[name](v1, x)
        v1.enable_control_flow_v2()
    return graph, [tensor.name for tensor in outputs], {"x": floats(2, 3)}


def _old_loop(v1: Any, x: Any) -> Any:
    import tensorflow as tf

    limit = tf.constant(7)
    _, y, z = v1.while_loop(
        lambda i, y, z: i < limit, lambda i, y, z: (i + 1, y * 0.5 + x, z + tf.reduce_sum(y)),
        [tf.constant(0), x, tf.constant(0.0)])
    return [y, z]


def _old_condition(v1: Any, x: Any) -> Any:
    import tensorflow as tf

    y = v1.cond(tf.reduce_sum(x) > 0, lambda: x * 2.0, lambda: v1.cond(x[0, 0] > 0, lambda: x - 1.0, lambda: x + 1.0))
    return [tf.exp(y), v1.cond(tf.reduce_max(x) > 100.0, lambda: tf.constant(1.0), lambda: tf.reduce_mean(x))]


def _old_array(v1: Any, x: Any) -> Any:
    import tensorflow as tf

    sequence = tf.TensorArray(tf.float32, 4)
    inputs = tf.TensorArray(tf.float32, 4).unstack(tf.stack([x, x + 1, x * 2, x * x]))

    def step(i: Any, state: Any, out: Any) -> Any:
        state = tf.tanh(state + inputs.read(i))
        return i + 1, state, out.write(i, state)

    _, last, sequence = v1.while_loop(lambda i, s, o: i < 4, step, [0, tf.zeros_like(x), sequence])
    return [sequence.stack(), last]


def _old_nested(v1: Any, x: Any) -> Any:
    import tensorflow as tf

    def outer(i: Any, y: Any) -> Any:
        _, y = v1.while_loop(lambda j, y: j <= i, lambda j, y: (j + 1, y + x * tf.cast(j, tf.float32)), [0, y])
        return i + 1, v1.cond(tf.equal(i % 2, 0), lambda: y * 0.5, lambda: y - 1.0)

    return [v1.while_loop(lambda i, y: i < 3, outer, [0, x])[1]]


def _old_lstm(v1: Any, x: Any) -> Any:
    import tensorflow as tf

    kernel, bias = tf.constant(floats(7, 16)), tf.constant(floats(16))

    def step(i: Any, c: Any, h: Any) -> Any:
        gates = tf.nn.bias_add(tf.matmul(tf.concat([x, h], 1), kernel), bias)
        one, two, three, four = tf.split(gates, 4, axis=1)
        c = c * tf.sigmoid(three + 1.0) + tf.sigmoid(one) * tf.tanh(two)
        return i + 1, c, tf.tanh(c) * tf.sigmoid(four)

    zeros = tf.zeros([tf.shape(x)[0], 4])
    return list(v1.while_loop(lambda i, c, h: i < 3, step, [0, zeros, zeros])[1:])


OLD: dict[str, Callable[[Any, Any], Any]] = {
    "old_loop": _old_loop, "old_condition": _old_condition, "old_array": _old_array, "old_nested": _old_nested,
    "old_lstm": _old_lstm}
