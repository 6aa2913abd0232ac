"""choose_layouts and pack_weights."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from forge import dims
from forge.ir.builder import Builder
from forge.ir.graph import Graph
from forge.ir.nodes import Value
from forge.ir.types import TensorType
from forge.options import CompileOptions
from forge.passes import choose_layouts, pack_weights
from tests.passes.checks import AVX2, AVX512, check, parse, text_of, weights


class Net(Builder):
    """A builder with convolutions of random weights."""

    def image(self, channels: int, size: int = 6, name: str = "x") -> Value:
        return self.input(TensorType((dims.symbol("n"), channels, size, size), "float32"), name)

    def conv(self, x: Value, channels: int, kernel: int = 3, **attributes: Any) -> Value:
        groups = attributes.get("groups", 1)
        weight = self.constant(weights(channels, x.shape[1] // groups, kernel, kernel))
        return self.call("nn.conv2d", x, weight, padding=(kernel // 2, kernel // 2), **attributes)


def ops(graph: Graph) -> list[str]:
    return [n.op for n in graph.nodes if n.op != "constant"]


def check_layouts(graph: Graph) -> int:
    return check(choose_layouts.run, graph, symbols={"n": 2})


def test_text_of_one_convolution() -> None:
    graph = parse("""def @main(%x: Tensor[(n, 3, 8, 8), float32]) {
      %0 = nn.conv2d(%x, meta[relay.Constant][0], strides=[2, 2], padding=[1, 1, 1, 1]);
      %1 = nn.bias_add(%0, meta[relay.Constant][1]);
      %2 = nn.relu(%1);
      nn.max_pool2d(%2, pool_size=[2, 2])
    }""", [weights(20, 3, 3, 3), weights(20)])
    assert check_layouts(graph) == 4
    assert text_of(graph) == (
        '%0 = layout_transform(%x, src_layout="NCHW", dst_layout="NCHW3c");\n'
        "%1 = nn.contrib_conv2d_NCHWc(%0, meta[relay.Constant][0], strides=[2, 2], padding=[1, 1, 1, 1], channels=20, "
        'kernel_size=[3, 3], data_layout="NCHW3c", kernel_layout="OIHW3i16o", out_layout="NCHW16c", in_channels=3);\n'
        "%2 = add(%1, meta[relay.Constant][1]);\n"
        "%3 = nn.relu(%2);\n"
        '%4 = nn.max_pool2d(%3, pool_size=[2, 2], layout="NCHW16c");\n'
        'layout_transform(%4, src_layout="NCHW16c", dst_layout="NCHW", channels=20)'
    )


@pytest.mark.parametrize(("channels", "first"), [(3, "reshape"), (2, "reshape"), (20, "layout_transform")])
def test_transposed_images_are_read_and_written_as_they_are(channels: int, first: str) -> None:
    graph = parse(f"""def @main(%x: Tensor[(n, 8, 7, {channels}), float32]) {{
      %0 = transpose(%x, axes=[0, 3, 1, 2]);
      %1 = nn.conv2d(%0, meta[relay.Constant][0], padding=[1, 1]);
      %2 = transpose(%1, axes=[0, 2, 3, 1]);
      nn.layer_norm(%2)
    }}""", [weights(20, channels, 3, 3)])
    check_layouts(graph)
    used = [node.op for node in graph.nodes if node.op != "constant" and graph.use_count(node.result)]
    assert used == [first, "nn.contrib_conv2d_NCHWc", "layout_transform", "nn.layer_norm"]


@pytest.mark.parametrize("channels", [1, 3, 24, 40, 72])
@pytest.mark.parametrize("target", [AVX512, AVX2])
def test_any_number_of_channels(channels: int, target: Any) -> None:
    net = Net()
    x = net.image(channels)
    y = net.call("sigmoid", net.conv(x, channels))
    y = net.call("add", net.conv(y, channels, groups=channels), x)
    graph = net.output(net.conv(y, 5))
    assert check(choose_layouts.run, graph, target, symbols={"n": 2}) == 5
    assert len(graph.select("layout_transform")) <= 3


def test_residual_network_stays_blocked() -> None:
    net = Net()
    y = net.call("nn.relu", net.conv(net.image(3), 32, 3))
    for _ in range(2):
        branch = net.call("nn.relu", net.conv(y, 32))
        y = net.call("nn.relu", net.call("add", net.conv(branch, 32), y))
    y = net.call("nn.batch_flatten", net.call("nn.global_avg_pool2d", y))
    graph = net.output(y)
    check_layouts(graph)
    assert len(graph.select("layout_transform")) == 1
    assert ops(graph)[-2:] == ["reshape", "nn.batch_flatten"]


@pytest.mark.parametrize(
    ("shape", "transforms"), [((), 2), ((1,), 2), ((32, 1, 1), 2), ((1, 32, 1, 1), 2), ((6, 6), 2), ((6,), 2), ((32, 6, 6), 2)]
)
def test_constants_broadcast(shape: tuple[int, ...], transforms: int) -> None:
    net = Net()
    y = net.conv(net.image(3), 32)
    graph = net.output(net.call("multiply", net.constant(weights(*shape)), y))
    check_layouts(graph)
    assert len(graph.select("layout_transform")) == transforms


@pytest.mark.parametrize("shape", [(2, 32, 1, 1), (2, 1, 6, 6), (32, 6, 6), (6, 6), (1,), (2, 32, 6, 6)])
def test_operands_broadcast(shape: tuple[int, ...]) -> None:
    net = Net()
    other = net.input(TensorType(shape, "float32"), "other")
    x = net.input(TensorType((2, 3, 6, 6), "float32"), "x")
    graph = net.output(net.call("subtract", net.conv(x, 32), other))
    check_layouts(graph)
    assert graph.find("subtract").result.rank == 5


def test_squeeze_and_excite() -> None:
    net = Net()
    y = net.call("nn.relu", net.conv(net.image(8), 24))
    gate = net.conv(net.call("nn.relu", net.conv(net.call("nn.global_avg_pool2d", y), 6, 1)), 24, 1)
    graph = net.output(net.call("multiply", y, net.call("sigmoid", gate)))
    check_layouts(graph)
    assert ops(graph).count("layout_transform") == 2


def test_one_channel_gate_broadcasts_over_channels() -> None:
    net = Net()
    y = net.conv(net.image(8), 32)
    graph = net.output(net.call("multiply", y, net.call("sigmoid", net.conv(y, 1, 1))))
    check_layouts(graph)


@pytest.mark.parametrize(("left", "right", "blocked"), [(32, 16, True), (32, 24, False)])
def test_concatenation(left: int, right: int, blocked: bool) -> None:
    net = Net()
    x = net.image(16)
    graph = net.output(net.conv(net.call("concatenate", net.conv(x, left), net.conv(x, right), axis=1), 8))
    check_layouts(graph)
    assert (graph.find("concatenate").result.rank == 5) == blocked


def test_resizing_to_nearest_neighbours_follows() -> None:
    net = Net()
    y = net.conv(net.image(16), 20)
    for axis in (2, 3):
        y = net.call("take", y, net.constant(np.arange(6, dtype=np.int64).repeat(2)), axis=axis, mode="fast")
    graph = net.output(net.conv(y, 16))
    check_layouts(graph)
    assert len(graph.select("layout_transform")) == 2


def test_repeated_rows_and_columns_follow() -> None:
    net = Net()
    y = net.conv(net.image(16), 20)
    for axis in (-2, 3):
        y = net.call("repeat", y, repeats=2, axis=axis)
    graph = net.output(net.conv(y, 16))
    check_layouts(graph)
    assert len(graph.select("layout_transform")) == 2


@pytest.mark.parametrize(("begin", "end", "transforms"), [(16, 48, 2), (0, 16, 2), (8, 24, 4), (16, 40, 4)])
def test_whole_blocks_of_channels_follow(begin: int, end: int, transforms: int) -> None:
    net = Net()
    y = net.call("strided_slice", net.conv(net.image(16), 48), begin=(begin,), end=(end,), strides=(1,), axes=(1,))
    graph = net.output(net.conv(y, 16))
    check_layouts(graph)
    assert len(graph.select("layout_transform")) == transforms


def test_one_unit_is_a_sum() -> None:
    b = Builder()
    x = b.input(TensorType((5, 40), "float32"), "x")
    graph = b.output(b.call("nn.dense", x, b.constant(weights(1, 40)), units=1))
    assert check(pack_weights.run, graph) == 1
    assert [n.op for n in graph.nodes if n.op != "constant"] == ["multiply", "sum"]


def test_rows_and_columns_follow() -> None:
    net = Net()
    y = net.conv(net.image(16), 20)
    y = net.call("subtract", y, net.call("mean", y, axis=(2, 3), keepdims=True))
    y = net.call("multiply", y, net.call("max", y, axis=-1, keepdims=True))
    y = net.call("strided_slice", y, begin=(1, -4), end=(6, 9), axes=(2, -1))
    graph = net.output(net.conv(y, 16))
    check_layouts(graph)
    assert len(graph.select("layout_transform")) == 2


@pytest.mark.parametrize("slopes", [1, 20])
def test_prelu_follows(slopes: int) -> None:
    net = Net()
    y = net.call("nn.prelu", net.conv(net.image(16), 20), net.constant(weights(slopes)))
    graph = net.output(net.conv(y, 16))
    check_layouts(graph)
    assert len(graph.select("layout_transform")) == 2


def test_what_mixes_channels_stays_plain() -> None:
    net = Net()
    y = net.conv(net.image(16), 20)
    y = net.call("subtract", y, net.call("mean", y, axis=(1,), keepdims=True))
    y = net.call("strided_slice", y, begin=(1,), end=(7,), axes=(1,))
    graph = net.output(net.call("nn.softmax", y, axis=1))
    check_layouts(graph)
    assert graph.find("mean").result.shape[1:] == (1, 6, 6)


def test_padding_follows() -> None:
    net = Net()
    y = net.conv(net.image(16), 16)
    y = net.call("nn.pad", y, pad_width=((0, 0), (0, 0), (1, 2), (0, 1)), pad_mode="edge")
    graph = net.output(net.conv(y, 16))
    check_layouts(graph)
    assert graph.find("nn.pad").result.rank == 5


@pytest.mark.parametrize(
    ("kernel", "stride", "padding", "output_padding"),
    [(2, 2, (0,), 0), (4, 2, (1, 1), 0), (3, 2, (1, 1), 1), (3, 1, (1, 0, 0, 1), 0), (2, 3, (0, 0), 0), (5, 2, (2, 2), 1)],
)
@pytest.mark.parametrize("channels", [3, 16])
def test_transposed_convolution(kernel: int, stride: int, padding: tuple[int, ...], output_padding: int, channels: int) -> None:
    net = Net()
    y = net.call("nn.relu", net.conv(net.image(8, 5), 24))
    weight = net.constant(weights(24, channels, kernel, kernel))
    attributes = {"strides": (stride,) * 2, "padding": padding, "output_padding": (output_padding,) * 2}
    y = net.call("nn.conv2d_transpose", y, weight, **attributes)
    graph = net.output(net.call("nn.bias_add", y, net.constant(weights(channels))))
    assert check_layouts(graph) == 4
    assert not graph.select("nn.conv2d_transpose")


def test_transposed_convolution_of_each_channel() -> None:
    net = Net()
    y = net.conv(net.image(8, 5), 24)
    y = net.call("nn.conv2d_transpose", y, net.constant(weights(24, 1, 3, 4)), strides=(2, 2), padding=(1, 1), groups=24)
    graph = net.output(net.conv(y, 16))
    check_layouts(graph)
    assert len(graph.select("layout_transform")) == 2


def test_volumes_stay_blocked() -> None:
    net = Net()
    x = net.input(TensorType((1, 3, dims.symbol("d"), 6, 5), "float32"), "x")
    y = net.call("nn.conv3d", x, net.constant(weights(20, 3, 3, 3, 3)), padding=(1, 1, 1), strides=(1, 2, 1))
    y = net.call("nn.relu", net.call("nn.bias_add", y, net.constant(weights(20))))
    y = net.call("nn.max_pool3d", y, pool_size=(2, 1, 1), strides=(2, 1, 1))
    y = net.call("nn.conv3d_transpose", y, net.constant(weights(20, 16, 2, 3, 3)), strides=(2, 2, 1), padding=(0, 1, 1))
    graph = net.output(net.call("nn.conv3d", y, net.constant(weights(5, 16, 1, 1, 1)), dilation=(2, 1, 1)))
    assert check(choose_layouts.run, graph, symbols={"d": 5}) == 6
    assert len(graph.select("layout_transform")) == 2


@pytest.mark.parametrize("reason", ["weight", "padding", "groups"])
def test_transposed_convolution_that_stays(reason: str) -> None:
    net = Net()
    x = net.image(8, 5)
    weight = net.input(TensorType((8, 4, 2, 2), "float32"), "w") if reason == "weight" else net.constant(weights(8, 4, 2, 2))
    padding = (dims.symbol("n"), 0) if reason == "padding" else (0, 0)
    groups = 2 if reason == "groups" else 1
    graph = net.output(net.call("nn.conv2d_transpose", x, weight, strides=(2, 2), padding=padding, groups=groups))
    assert choose_layouts.run(graph, CompileOptions(target=AVX512)) == 0


def test_outputs_keep_names_and_types() -> None:
    net = Net()
    y = net.conv(net.image(3), 8)
    z = net.call("nn.relu", y)
    y.name, z.name = "before", "after"
    graph = net.output(y, z)
    check_layouts(graph)


@pytest.mark.parametrize("groups", [1, 4])
def test_symbolic_height(groups: int) -> None:
    net = Net()
    x = net.input(TensorType((2, 4, dims.symbol("h"), 6), "float32"), "x")
    graph = net.output(net.call("nn.max_pool2d", net.conv(x, 4, groups=groups), pool_size=(2, 2)))
    assert check(choose_layouts.run, graph, symbols={"h": 5}) == 2


@pytest.mark.parametrize(("channels", "filters"), [(4, 4), (16, 40), (17, 5), (40, 32)])
def test_computed_weight(channels: int, filters: int) -> None:
    net = Net()
    x = net.input(TensorType((2, channels, 6, 6), "float32"), "x")
    y = net.call("nn.conv2d", x, net.input(TensorType((filters, channels, 3, 1), "float32"), "w"), padding=(1, 0))
    graph = net.output(net.call("nn.relu", y))
    assert check(choose_layouts.run, graph) == 2
    assert len(graph.select("nn.contrib_conv2d_NCHWc")) == 1


@pytest.mark.parametrize("reason", ["weight of few uses", "groups", "layout"])
def test_what_stays_plain(reason: str) -> None:
    net = Net()
    x = net.input(TensorType((1, 4, 6, 6), "float32"), "x")
    if reason == "weight of few uses":
        y = net.call("nn.conv2d", x, net.input(TensorType((4, 4, 1, 1), "float32"), "w"))
    elif reason == "layout":
        y = net.call("nn.conv2d", x, net.constant(weights(1, 1, 6, 4)), data_layout="NHWC", kernel_layout="HWIO")
    else:
        y = net.conv(x, 4, groups=2 if reason == "groups" else 1)
    graph = net.output(net.call("nn.relu", y))
    assert check(choose_layouts.run, graph) == 0


def test_dense_weights_are_packed() -> None:
    graph = parse("""def @main(%x: Tensor[(n, 7), float32]) {
      %0 = nn.dense(%x, meta[relay.Constant][0], units=40);
      nn.relu(%0)
    }""", [weights(40, 7)])
    assert check(pack_weights.run, graph, symbols={"n": 3}) == 1
    assert text_of(graph) == "%0 = nn.contrib_dense_pack(%x, meta[relay.Constant][0], units=40);\nnn.relu(%0)"
    packed = graph.find("nn.contrib_dense_pack").operands[1]
    assert packed is not None
    assert packed.shape == (1, 7, 48)


def test_panels_follow_the_target() -> None:
    graph = parse("def @main(%x: Tensor[(2, 7), float32]) { nn.dense(%x, meta[relay.Constant][0]) }", [weights(8, 7)])
    assert check(pack_weights.run, graph, AVX2) == 1
    packed = graph.find("nn.contrib_dense_pack").operands[1]
    assert packed is not None
    assert packed.shape == (1, 7, 8)


def test_a_weight_that_arrives_at_run_time() -> None:
    graph = parse("def @main(%x: Tensor[(2, 7), float32], %w: Tensor[(5, 7), float32]) { nn.dense(%x, %w) }")
    assert check(pack_weights.run, graph) == 1
    assert text_of(graph) == "nn.matmul(%x, %w, transpose_b=True)"


def test_panels_hold_the_weights() -> None:
    packed = np.concatenate(pack_weights.pack_panels(np.arange(6, dtype=np.float32).reshape(3, 2), 2))
    np.testing.assert_array_equal(packed, [[[0, 2], [1, 3]], [[4, 0], [5, 0]]])
