"""Modules to look at."""

from __future__ import annotations

import numpy as np

from forge.ir import Builder, Graph, Module, TensorType
from forge.ir.call import call_function
from forge.ir.nodes import Value

HOSTILE = (
    "</script><script>window.hurt = 1</script>", "<img src=x onerror='window.hurt = 1'>", "<!--<script>", "]]>",
    "\"' onload=\"hurt()",
    "&lt;b&gt;", "\0\x1b[31m", "\ud800", "\u2028\u202e", "${window.hurt = 1}", "a/../b", "x" * 5000,
)


def layer(build: Builder, x: Value, scope: str) -> Value:
    """A linear layer with a rectifier, in a scope of names."""
    weight = build.constant(np.ones((8, 8), "float32"), name=f"{scope}.weight")
    hidden = build.call("nn.dense", x, weight, units=8, name=f"{scope}/dense")
    return build.call("nn.relu", hidden, name=f"{scope}/relu")


def nested() -> Module:
    """Two blocks of two layers, each with a shortcut."""
    build = Builder()
    value = build.input(TensorType((2, 8), "float32"), "x")
    for block in ("block_a", "block_b"):
        inner = layer(build, value, f"net/{block}/first")
        inner = layer(build, inner, f"net/{block}/second")
        value = build.call("add", inner, value, name=f"net/{block}/sum")
    return Module(build.output(value))


def control() -> Module:
    """An ``if`` with a branch of two nodes and one of a single node, and a function that is called twice."""
    tensor = TensorType((4,), "float32")
    double = Builder(Graph(name="double"))
    x = double.input(tensor, "x")
    double.output(double.call("add", double.call("exp", x), x))
    build = Builder()
    flag, data = build.input(TensorType((), "bool"), "flag"), build.input(tensor, "data")
    (once,) = call_function(build, "double", double.graph, data, name="call_1")
    (twice,) = call_function(build, "double", double.graph, once, name="call_2")
    then, other = Builder(Graph(name="then")), Builder(Graph(name="other"))
    then.output(then.call("sqrt", then.call("abs", then.input(tensor, "a"))))
    other.output(other.call("negative", other.input(tensor, "b")))
    node = build.node("if", [flag, twice], {}, regions=[then.graph, other.graph], name="choice")
    module = Module(build.output(node.result))
    module.graphs["double"] = double.graph
    return module


def hostile() -> Module:
    """A chain of nodes with names that try to break out of every place where they are shown."""
    build = Builder()
    value = build.input(TensorType((1,), "float32"), HOSTILE[0])
    for name in HOSTILE:
        other = build.constant(np.ones(1, "float32"), name=name)
        value = build.call("add", value, other, name=name)
        value.name = name + "_"
        assert value.producer is not None
        value.producer.location = f"{name}/{name}"
    return Module(build.output(value))


def flat(count: int) -> Module:
    """A chain without scopes, with a shortcut around every seventh node."""
    build = Builder()
    value = earlier = build.input(TensorType((2, 8), "float32"), "x")
    for k in range(count):
        if k % 7 == 6:
            value = build.call("add", value, earlier, name=f"add_{k}")
            earlier = value
        else:
            value = build.call("nn.relu" if k % 2 else "exp", value, name=f"node_{k}")
    return Module(build.output(value))


def tangle(count: int) -> Module:
    """Sums of any two values before them, in scopes that have nothing to do with that."""
    rng = np.random.default_rng(0)
    build = Builder()
    values = [build.input(TensorType((2,), "float32"), "x")]
    for k in range(count):
        a, b = rng.integers(0, len(values), 2)
        scope = "/".join(str(n) for n in rng.integers(0, 6, 2))
        values.append(build.call("add", values[a], values[b], name=f"{scope}/add_{k}"))
    return Module(build.output(values[-1]))
