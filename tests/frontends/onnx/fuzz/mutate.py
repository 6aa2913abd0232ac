"""Changes to the messages of a model that keep it a readable protobuf and make it an invalid, absurd or hostile model."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from typing import Any, TypeVar

import numpy as np
import onnx
from onnx import numpy_helper

from tests.frontends.onnx.fuzz import extremes

Mutation = Callable[[onnx.ModelProto, random.Random], None]
M = TypeVar("M", bound=Mutation)

MUTATIONS: dict[str, Mutation] = {}


def mutation(function: M) -> M:
    """Decorator: adds a mutation to the table. It may leave the model as it is where nothing fits."""
    MUTATIONS[function.__name__] = function
    return function


def graphs(model: onnx.ModelProto) -> list[onnx.GraphProto]:
    """The main graph and all sub-graphs, those in functions included."""
    found = [model.graph]
    for nodes in [model.graph.node, *(f.node for f in model.functions)]:
        found.extend(_inner_graphs(nodes))
    return found


def _inner_graphs(nodes: Any) -> Iterator[onnx.GraphProto]:
    for node in nodes:
        for attribute in node.attribute:
            for graph in [*([attribute.g] if attribute.HasField("g") else []), *attribute.graphs]:
                yield graph
                yield from _inner_graphs(graph.node)


def nodes(model: onnx.ModelProto) -> list[onnx.NodeProto]:
    own = [n for g in graphs(model) for n in g.node]
    return own + [n for f in model.functions for n in f.node]


def tensors(model: onnx.ModelProto) -> list[onnx.TensorProto]:
    found = [t for g in graphs(model) for t in g.initializer]
    found.extend(part for g in graphs(model) for s in g.sparse_initializer for part in (s.values, s.indices))
    found.extend(a.t for n in nodes(model) for a in n.attribute if a.HasField("t"))
    return found


def attributes(model: onnx.ModelProto) -> list[onnx.AttributeProto]:
    return [a for n in nodes(model) for a in n.attribute]


def infos(model: onnx.ModelProto) -> list[onnx.ValueInfoProto]:
    return [i for g in graphs(model) for i in (*g.input, *g.output, *g.value_info)]


def value_names(model: onnx.ModelProto) -> list[str]:
    named = {o for n in nodes(model) for o in n.output} | {i.name for i in infos(model)} | {t.name for t in tensors(model)}
    return sorted(named)


def pick(rng: random.Random, choices: Any) -> Any:
    """One of ``choices``; None when there are none."""
    return rng.choice(choices) if len(choices) else None


def delete_at(repeated: Any, rng: random.Random) -> None:
    if len(repeated):
        del repeated[rng.randrange(len(repeated))]


def mutate(model: onnx.ModelProto, rng: random.Random, other: onnx.ModelProto) -> list[str]:
    """Changes ``model`` in one to five ways; nodes may come from ``other``. Returns their names."""
    names = rng.choices(list(MUTATIONS), k=rng.choice((1, 1, 1, 2, 2, 3, 5)))
    for name in names:
        MUTATIONS[name](model, rng)
    if rng.random() < 0.1:
        graft(model, other, rng)
        names.append("graft")
    return names


def graft(model: onnx.ModelProto, other: onnx.ModelProto, rng: random.Random) -> None:
    """Puts nodes of another model after those of this one, on any values."""
    names = value_names(model)
    for tensor in other.graph.initializer:
        model.graph.initializer.append(tensor)
    for index, node in enumerate(list(other.graph.node)[:4]):
        copy = model.graph.node.add()
        copy.CopyFrom(node)
        for position, name in enumerate(copy.input):
            if name and rng.random() < 0.7 and names:
                copy.input[position] = rng.choice(names)
        for position in range(len(copy.output)):
            copy.output[position] = f"grafted_{index}_{position}"
        if copy.output and rng.random() < 0.7:
            model.graph.output.add().name = copy.output[0]


@mutation
def node_input(model: onnx.ModelProto, rng: random.Random) -> None:
    """Missing, absent, foreign, own and later values as operands; too many of them."""
    node = pick(rng, nodes(model))
    if node is None:
        return
    names = value_names(model)
    chosen = rng.choice((rng.choice(extremes.NAMES), *([rng.choice(names)] * 4 if names else []), *node.output))
    kind = rng.randrange(10)
    if kind == 0 and node.input:
        delete_at(node.input, rng)
    elif kind == 1:
        node.input.append(chosen)
    elif kind == 2:
        node.input.extend([chosen] * rng.choice((2, 10, 300)))
    elif node.input:
        node.input[rng.randrange(len(node.input))] = "" if kind == 3 else chosen


@mutation
def node_output(model: onnx.ModelProto, rng: random.Random) -> None:
    """Results that are absent, defined twice or too many."""
    node = pick(rng, nodes(model))
    if node is None:
        return
    chosen = rng.choice([*value_names(model), *extremes.NAMES])
    kind = rng.randrange(4)
    if kind == 0:
        delete_at(node.output, rng)
    elif kind == 1:
        node.output.extend([f"{chosen}_{k}" for k in range(rng.choice((1, 2, 100)))])
    elif node.output:
        node.output[rng.randrange(len(node.output))] = "" if kind == 2 else chosen


@mutation
def node_order(model: onnx.ModelProto, rng: random.Random) -> None:
    """Nodes that are gone, repeated or in another order."""
    graph = rng.choice(graphs(model))
    listed = [onnx.NodeProto.FromString(n.SerializeToString()) for n in graph.node]
    kind = rng.randrange(4)
    if kind == 0 and listed:
        del listed[rng.randrange(len(listed))]
    elif kind == 1 and listed:
        listed.append(rng.choice(listed))
    elif kind == 2:
        rng.shuffle(listed)
    else:
        listed.reverse()
    del graph.node[:]
    graph.node.extend(listed)


@mutation
def node_operator(model: onnx.ModelProto, rng: random.Random) -> None:
    """Another operator on the same operands, or one that does not exist."""
    from forge.frontends.onnx import REGISTRY

    node = pick(rng, nodes(model))
    if node is None:
        return
    row = rng.choice(list(REGISTRY.rows()))
    if rng.random() < 0.85:
        node.op_type, node.domain = row.op, row.domain
        if row.domain:
            model.opset_import.add(domain=row.domain, version=rng.choice((1, 1, 2, 3, 5, 99)))
        if rng.random() < 0.5:
            del node.attribute[:]
    elif rng.random() < 0.5:
        node.op_type = rng.choice(extremes.NAMES)
    else:
        node.domain = rng.choice(("ai.onnx", "ai.onnx.ml", "com.microsoft", "nowhere", "", "\0"))


@mutation
def node_name(model: onnx.ModelProto, rng: random.Random) -> None:
    """Names that are shared, long, empty or no identifiers."""
    for node in nodes(model):
        node.name = rng.choice(extremes.NAMES)


@mutation
def attribute_value(model: onnx.ModelProto, rng: random.Random) -> None:
    """Huge kernels, zero strides, axes out of range, NaN scales, unknown modes."""
    attribute = pick(rng, attributes(model))
    if attribute is None:
        return
    kind = onnx.AttributeProto.AttributeType.Name(attribute.type)
    if kind == "INT":
        attribute.i = extremes.integer(rng)
    elif kind == "FLOAT":
        attribute.f = np.float32(np.clip(extremes.real(rng), -3e38, 3e38))
    elif kind == "STRING":
        attribute.s = rng.choice((*(n.encode() for n in extremes.NAMES), b"\xff\xfe", b"SAME_UPPER", b"linear", b"VALID"))
    elif kind == "INTS":
        attribute.ints[:] = extremes.integers(rng, len(attribute.ints))
    elif kind == "FLOATS":
        attribute.floats[:] = [np.float32(extremes.real(rng)) for _ in range(rng.choice((0, 1, len(attribute.floats))))]
    elif kind == "STRINGS":
        attribute.strings[:] = [b"\xff"] * rng.choice((0, 1, len(attribute.strings)))


@mutation
def attribute_kind(model: onnx.ModelProto, rng: random.Random) -> None:
    """An attribute of a wrong kind, with contents of another, or with none."""
    attribute = pick(rng, attributes(model))
    if attribute is None:
        return
    if rng.random() < 0.3:
        attribute.type = rng.choice(onnx.AttributeProto.AttributeType.values())
        return
    name = attribute.name
    fill_attribute(attribute, name, rng)


def fill_attribute(attribute: onnx.AttributeProto, name: str, rng: random.Random) -> None:
    """Makes it a random attribute called ``name``."""
    value: Any = rng.choice((
        extremes.integer(rng), extremes.integer(rng), float(np.clip(extremes.real(rng), -3e38, 3e38)), "", "text",
        extremes.integers(rng, 2), [1.0, -1.0], ["a", "b"], extremes.size_operand(rng, "t"),
        onnx.helper.make_graph([], "empty", [], []),
    ))
    if value == []:
        value = [0]
    attribute.CopyFrom(onnx.helper.make_attribute(name, value))


@mutation
def attribute_list(model: onnx.ModelProto, rng: random.Random) -> None:
    """Attributes that are gone, unknown, given twice, or refer to those of a function around."""
    node = pick(rng, nodes(model))
    if node is None:
        return
    kind = rng.randrange(5)
    if kind == 0:
        delete_at(node.attribute, rng)
    elif kind == 1 and node.attribute:
        node.attribute.append(rng.choice(node.attribute))
    elif kind == 2 and node.attribute:
        rng.choice(node.attribute).ref_attr_name = rng.choice(("alpha", "x", "axis"))
    else:
        fill_attribute(node.attribute.add(), _attribute_name(node, rng), rng)


def _attribute_name(node: onnx.NodeProto, rng: random.Random) -> str:
    from forge.frontends.onnx import REGISTRY

    row = REGISTRY.lookup(node.domain, node.op_type, 10**6) or REGISTRY.lookup(node.domain, node.op_type, 21)
    known = sorted(row.attributes) if row is not None else []
    return rng.choice([*known, *known, "axis", "to", "nowhere", ""])


@mutation
def declared_dimension(model: onnx.ModelProto, rng: random.Random) -> None:
    """Huge and negative sizes, expressions that are none, other ranks."""
    info = pick(rng, [i for i in infos(model) if i.type.HasField("tensor_type")])
    if info is None:
        return
    shape = info.type.tensor_type.shape
    kind = rng.randrange(7)
    if kind == 0:
        info.type.tensor_type.ClearField("shape")
    elif kind == 1:
        shape.dim.add().dim_value = extremes.integer(rng)
    elif kind == 2:
        delete_at(shape.dim, rng)
    elif kind == 3:
        for _ in range(rng.choice((3, 9, 40))):
            shape.dim.add().dim_value = rng.choice((1, 1, 2, 2**32))
    elif shape.dim:
        dim = rng.choice(shape.dim)
        if kind == 4:
            dim.dim_param = rng.choice(extremes.DIM_TEXTS)
        elif kind == 5:
            dim.Clear()
        else:
            dim.dim_value = extremes.integer(rng)


@mutation
def declared_type(model: onnx.ModelProto, rng: random.Random) -> None:
    """Element types that do not exist or do not fit; sequences, optionals, maps and sparse tensors, nested."""
    info = pick(rng, infos(model))
    if info is None:
        return
    kind = rng.randrange(6)
    if kind == 0:
        info.ClearField("type")
    elif kind <= 3:
        info.type.tensor_type.elem_type = rng.choice((*range(30), 1000, -1, 2**31 - 1))
    elif kind == 4:
        inner = onnx.TypeProto.FromString(info.type.SerializeToString())
        for _ in range(rng.choice((1, 1, 2, 30))):
            outer = onnx.TypeProto()
            rng.choice((outer.sequence_type, outer.optional_type)).elem_type.CopyFrom(inner)
            inner = outer
        info.type.CopyFrom(inner)
    else:
        info.type.map_type.key_type = rng.choice((0, 1, 7, 8))


@mutation
def declared_names(model: onnx.ModelProto, rng: random.Random) -> None:
    """Inputs, outputs and initializers that are gone, declared twice, or called like other values."""
    graph = rng.choice(graphs(model))
    listed: Any = rng.choice((graph.input, graph.output, graph.initializer, graph.value_info))
    kind = rng.randrange(4)
    if not len(listed):
        graph.output.add().name = rng.choice([*value_names(model), *extremes.NAMES])
    elif kind == 0:
        delete_at(listed, rng)
    elif kind == 1:
        listed.append(rng.choice(listed))
    elif kind == 2:
        rng.choice(listed).name = rng.choice([*value_names(model), *extremes.NAMES])
    else:
        del listed[:]


@mutation
def versions(model: onnx.ModelProto, rng: random.Random) -> None:
    """Opsets and IR versions that are absent, contradictory, in the future, or simply other ones."""
    kind = rng.randrange(6)
    if kind == 0:
        del model.opset_import[:]
    elif kind == 1:
        model.opset_import.add(domain="", version=rng.choice((0, -1, 10**6, 2**62, 3)))
    elif kind == 2:
        model.ir_version = rng.choice((-1, 0, 1, 3, 99, 2**62))
    else:
        for imported in model.opset_import:
            imported.version = rng.choice((0, -1, 10**6, 2**62)) if kind == 3 else rng.randint(1, 27)


@mutation
def random_operand(model: onnx.ModelProto, rng: random.Random) -> None:
    """A steering operand (shape, repeats, pads, axes, k) with extreme contents."""
    node = pick(rng, [n for n in nodes(model) if len(n.input) > 1])
    if node is None:
        return
    position = rng.randrange(1, len(node.input))
    name = f"extreme_{len(model.graph.initializer)}"
    model.graph.initializer.append(extremes.size_operand(rng, name))
    node.input[position] = name


@mutation
def frozen_input(model: onnx.ModelProto, rng: random.Random) -> None:
    """An input becomes a constant with extreme contents."""
    info = pick(rng, model.graph.input)
    if info is None or not info.type.HasField("tensor_type"):
        return
    shape = tuple(min(max(0, d.dim_value), 4) for d in info.type.tensor_type.shape.dim)[:6]
    try:
        dtype = onnx.helper.tensor_dtype_to_np_dtype(info.type.tensor_type.elem_type)
        tensor = numpy_helper.from_array(extremes.array(rng, np.dtype(dtype), shape), info.name)
    except (KeyError, TypeError, ValueError, NotImplementedError):
        return
    model.graph.initializer.append(tensor)
