"""Mutations of tensors, functions and nesting."""

from __future__ import annotations

import random
from collections.abc import Sequence

import numpy as np
import onnx
from onnx import numpy_helper

from tests.frontends.onnx.fuzz import extremes
from tests.frontends.onnx.fuzz.mutate import graphs, mutation, nodes, pick, tensors, value_names

LOCATIONS = (
    "weights.bin", "weights.bin", "weights.bin", "/etc/hostname", "../outside.bin", "link.bin", "folder", "missing.bin", "", ".",
    "a\0b", "folder/../weights.bin", "..\\outside.bin", "./weights.bin", "x" * 5000, "dangling.bin", "model.onnx", "é.bin",
)
"""Files next to the mutated model; ``worker.py`` creates those that exist."""


@mutation
def tensor_type(model: onnx.ModelProto, rng: random.Random) -> None:
    """Another element type over the same contents."""
    tensor = pick(rng, tensors(model))
    if tensor is not None:
        tensor.data_type = rng.choice((*range(30), 1000, -1, 2**31 - 1))


@mutation
def tensor_dims(model: onnx.ModelProto, rng: random.Random) -> None:
    """Dimensions that are huge, negative, overflow when multiplied, or have another rank."""
    tensor = pick(rng, tensors(model))
    if tensor is None:
        return
    kind = rng.randrange(5)
    if kind == 0:
        tensor.dims[:] = rng.choice(([2**32, 2**32], [2**62, 4], [2**63 - 1], [0, 2**62], [2**31] * 3, [-1, -1], [1] * 70))
    elif kind == 1:
        tensor.dims.append(extremes.integer(rng))
    elif kind == 2 and tensor.dims:
        del tensor.dims[rng.randrange(len(tensor.dims))]
    elif tensor.dims:
        tensor.dims[rng.randrange(len(tensor.dims))] = extremes.integer(rng)


@mutation
def tensor_bytes(model: onnx.ModelProto, rng: random.Random) -> None:
    """Contents that are too short, too long, absent, or in the wrong field."""
    tensor = pick(rng, tensors(model))
    if tensor is None:
        return
    data = tensor.raw_data
    kind = rng.randrange(6)
    if kind == 0:
        tensor.raw_data = data[: rng.randrange(len(data) + 1)]
    elif kind == 1:
        tensor.raw_data = data + rng.randbytes(rng.choice((1, 3, 4, 8, 1000)))
    elif kind == 2:
        for field in ("raw_data", "float_data", "int32_data", "int64_data", "string_data", "double_data", "uint64_data"):
            tensor.ClearField(field)
    elif kind == 3:
        tensor.raw_data = rng.randbytes(len(data))
    elif kind == 4:
        tensor.int32_data.extend([extremes.INTEGERS[k] for k in (0, 2, 5, 14, 16)])
    else:
        tensor.string_data.extend([b"\xff\0", b""])


@mutation
def tensor_contents(model: onnx.ModelProto, rng: random.Random) -> None:
    """Valid tensors of extreme numbers: sizes, repeats, scales, conditions."""
    tensor = pick(rng, tensors(model))
    if tensor is None or len(tensor.raw_data) > 4096 or tensor.data_location == onnx.TensorProto.EXTERNAL:
        return
    try:
        array = numpy_helper.to_array(tensor)
    except (KeyError, TypeError, ValueError, NotImplementedError, MemoryError):
        return
    if array.size > 512:
        return
    extreme = extremes.array(rng, array.dtype, array.shape)
    if array.dtype.kind in "iu" and array.size and rng.random() < 0.7:
        extreme = np.where(np.arange(array.size).reshape(array.shape) == rng.randrange(array.size), extreme, array)
    name = tensor.name
    tensor.CopyFrom(numpy_helper.from_array(extreme.astype(array.dtype), name))


@mutation
def tensor_external(model: onnx.ModelProto, rng: random.Random) -> None:
    """External data that is elsewhere, too short, not a file, or described in nonsense."""
    tensor = pick(rng, tensors(model))
    if tensor is None:
        return
    if rng.random() < 0.7:
        tensor.ClearField("raw_data")
    tensor.data_location = onnx.TensorProto.EXTERNAL
    numbers = ("0", "0", "0", "1", "4", "64", "-1", "4095", "4096", "4097", "9" * 18, "9" * 19, "x", "", "1e3", " 1", "0x10")
    fields = (("location", LOCATIONS), ("offset", numbers), ("length", numbers), ("checksum", ("", "abc")), ("", ("",)))
    for key, choices in fields:
        for _ in range(rng.choice((0, 1, 1, 1, 2)) if key != "location" else rng.choice((1, 1, 1, 1, 0, 2))):
            if key in ("location", "offset") or rng.random() < 0.4:
                tensor.external_data.add(key=key, value=rng.choice(choices))


@mutation
def sparse(model: onnx.ModelProto, rng: random.Random) -> None:
    """Sparse initializers whose indices, counts and shapes do not fit."""
    graph = model.graph
    target = pick(rng, graph.initializer)
    name = target.name if target is not None and rng.random() < 0.7 else rng.choice([*value_names(model), "sparse"])
    made = graph.sparse_initializer.add()
    count = rng.choice((0, 1, 2, 3))
    made.values.CopyFrom(numpy_helper.from_array(np.ones(count, np.float32), name))
    shape = (count,) if rng.random() < 0.5 else (count, rng.choice((1, 2, 3)))
    contents = np.array([extremes.integer(rng) if rng.random() < 0.3 else k for k in range(int(np.prod(shape)))], np.int64)
    made.indices.CopyFrom(numpy_helper.from_array(contents.reshape(shape), "indices"))
    made.dims[:] = extremes.integers(rng, rng.choice((1, 2)))
    if target is not None and rng.random() < 0.7:
        kept = [t for t in graph.initializer if t.name != name]
        del graph.initializer[:]
        graph.initializer.extend(kept)


@mutation
def functions(model: onnx.ModelProto, rng: random.Random) -> None:
    """Functions that call themselves, each other, or the next one twice, forty deep; calls that do not fit."""
    node = pick(rng, nodes(model))
    if node is None:
        return
    depth = rng.choice((1, 2, 12, 25, 40))
    for level in range(depth):
        following = f"F{(level + 1) % depth}" if rng.random() < 0.5 or level + 1 < depth else ""
        calls = rng.choice((1, 2)) if depth > 1 else 1
        model.functions.append(_function(f"F{level}", following, calls, rng))
    node.domain, node.op_type = "fuzz", "F0"
    model.opset_import.add(domain="fuzz", version=1)


def _function(name: str, calls: str, count: int, rng: random.Random) -> onnx.FunctionProto:
    made = onnx.FunctionProto(name=name, domain="fuzz")
    made.opset_import.add(domain="", version=rng.choice((1, 13, 21, 21, 10**6)))
    made.opset_import.add(domain="fuzz", version=1)
    made.input.extend(["x", "y"][: rng.choice((0, 1, 1, 2))])
    made.output.extend(["z"] * rng.choice((1, 1, 2)))
    for k in range(count):
        kind = (calls, "fuzz") if calls else ("Relu", "")
        made.node.append(onnx.helper.make_node(kind[0], ["x"], ["z" if k == count - 1 else f"t{k}"], domain=kind[1]))
    return made


@mutation
def nesting(model: onnx.ModelProto, rng: random.Random) -> None:
    """A node inside of many conditions or loops."""
    node = pick(rng, model.graph.node)
    if node is None or not node.output:
        return
    depth = rng.choice((1, 2, 10, 20, 30))
    output = node.output[0]
    inner = onnx.NodeProto.FromString(node.SerializeToString())
    del inner.output[1:]
    inner.output[0] = f"{output}_0"
    kind = rng.choice(("If", "If", "Loop", "Scan"))
    for level in range(1, depth + 1):
        inner = _wrapped(kind, inner, f"{output}_{level - 1}", output if level == depth else f"{output}_{level}", rng)
    for k, name in enumerate(("fuzz_condition", "fuzz_count")):
        value = np.array(True) if k == 0 else np.array(rng.choice((0, 1, 3, 2**62, -1)), np.int64)
        model.graph.initializer.append(numpy_helper.from_array(value, name))
    node.CopyFrom(inner)


def _wrapped(kind: str, inner: onnx.NodeProto, result: str, output: str, rng: random.Random) -> onnx.NodeProto:
    out = onnx.ValueInfoProto(name=result)
    if kind == "If":
        body = onnx.helper.make_graph([inner], "then", [], [out])
        other = onnx.helper.make_graph([inner] if rng.random() < 0.3 else [], "else", [], [out])
        return onnx.helper.make_node("If", ["fuzz_condition"], [output], then_branch=body, else_branch=other)
    if kind == "Loop":
        names = [onnx.ValueInfoProto(name=f"{result}_{n}") for n in ("i", "c")]
        copy = onnx.helper.make_node("Identity", [f"{result}_c"], [f"{result}_again"])
        body = onnx.helper.make_graph([inner, copy], "body", names, [onnx.ValueInfoProto(name=f"{result}_again"), out])
        return onnx.helper.make_node("Loop", ["fuzz_count", "fuzz_condition"], [output], body=body)
    body = onnx.helper.make_graph([inner], "body", [onnx.ValueInfoProto(name=f"{result}_s")], [out])
    return onnx.helper.make_node("Scan", list(inner.input)[:1], [output], body=body, num_scan_inputs=rng.choice((0, 1, 1, 2)))


_SIZED: Sequence[tuple[str, int]] = (  # operator, number of operands that steer it
    ("ConstantOfShape", 1), ("Expand", 2), ("Tile", 2), ("Range", 3), ("Reshape", 2), ("Pad", 2), ("Resize", 4), ("TopK", 2),
    ("Slice", 5), ("Gather", 2), ("OneHot", 3), ("EyeLike", 1), ("RandomNormal", 0), ("Upsample", 2), ("CenterCropPad", 2),
    ("Split", 2), ("Trilu", 2), ("CumSum", 2), ("GatherND", 2), ("ScatterND", 3), ("Concat", 3), ("BlackmanWindow", 1),
    ("MelWeightMatrix", 5), ("DFT", 3), ("STFT", 4), ("Unsqueeze", 2), ("Squeeze", 2), ("ReduceSum", 2), ("Col2Im", 3),
    ("SplitToSequence", 2), ("StringSplit", 1), ("BitShift", 2), ("Mod", 2), ("Pow", 2), ("Div", 2), ("SpaceToDepth", 1),
    ("MaxPool", 1), ("AveragePool", 1), ("Conv", 2), ("LRN", 1), ("ImageDecoder", 1), ("MaxRoiPool", 2), ("AffineGrid", 2),
)


@mutation
def sized_operator(model: onnx.ModelProto, rng: random.Random) -> None:
    """A node whose result is as large as its operands say."""
    names = [*value_names(model), ""]
    op, steering = rng.choice(_SIZED)
    operands = []
    for k in range(steering):
        if k == 0 and steering > 1 and rng.random() < 0.7:
            operands.append(rng.choice(names))
            continue
        operands.append(f"size_{len(model.graph.initializer)}")
        model.graph.initializer.append(extremes.size_operand(rng, operands[-1]))
    node = onnx.helper.make_node(op, operands, [f"sized_{len(model.graph.node)}"])
    for key in rng.sample(("shape", "kernel_shape", "axis", "axes", "blocksize", "size", "strides", "pads", "dilations"), 2):
        if rng.random() < 0.5:
            length = rng.choice((1, 2, 4))
            value = extremes.integer(rng) if key in ("axis", "blocksize", "size") else extremes.integers(rng, length) or [1]
            node.attribute.append(onnx.helper.make_attribute(key, value))
    model.graph.node.append(node)
    model.graph.output.add().name = node.output[0]


@mutation
def strings(model: onnx.ModelProto, rng: random.Random) -> None:
    """A tensor of strings where numbers are expected."""
    tensor = pick(rng, tensors(model))
    if tensor is None:
        return
    name, shape = tensor.name, [d for d in tensor.dims if 0 <= d < 8][:4]
    texts = [rng.choice((b"", b"a", b"\xff", b"1.5", b"\0")) for _ in range(int(np.prod(shape)))]
    tensor.CopyFrom(onnx.TensorProto(name=name, data_type=onnx.TensorProto.STRING, dims=shape, string_data=texts))


@mutation
def repeated_graph(model: onnx.ModelProto, rng: random.Random) -> None:
    """A sub-graph where another one, or none, is expected."""
    found = graphs(model)
    if len(found) < 2:
        return
    target, source = rng.choice(found[1:]), rng.choice(found)
    copy = onnx.GraphProto.FromString(source.SerializeToString())
    if rng.random() < 0.5:
        target.CopyFrom(copy)
    else:
        target.ClearField(rng.choice(("node", "input", "output", "name")))
