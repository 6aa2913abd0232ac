"""convert_layout."""

from __future__ import annotations

import numpy as np
import pytest

from forge.ir.graph import Graph
from forge.options import CompileOptions
from forge.passes import convert_layout
from forge.passes.base import GraphPass
from tests.passes.checks import check, parse, text_of, weights


def to(layout: str) -> GraphPass:
    return lambda graph, options: convert_layout.run(graph, CompileOptions(target=options.target, channel_layout=layout))


def parse_image(body: str, *constants: tuple[int, ...], type_: str = "Tensor[(2, 3, 8, 8), float32]") -> Graph:
    return parse(f"def @main(%x: {type_}) {{ {body} }}", [weights(*shape) for shape in constants])


CONV = "%0 = nn.conv2d(%x, meta[relay.Constant][0], padding=[1, 1]); "


def test_text_of_a_convolution_with_its_followers() -> None:
    graph = parse_image(CONV + "%1 = nn.bias_add(%0, meta[relay.Constant][1]); %2 = nn.relu(%1); "
                        "%3 = nn.max_pool2d(%2, pool_size=[2, 2], strides=[2, 2]); nn.batch_flatten(%3)", (5, 3, 3, 3), (5,))
    assert check(to("last"), graph) == 4
    assert text_of(graph) == (
        "%0 = transpose(%x, axes=[0, 2, 3, 1]);\n"
        "%1 = transpose(meta[relay.Constant][0], axes=[2, 3, 1, 0]);\n"
        '%2 = nn.conv2d(%0, %1, padding=[1, 1], data_layout="NHWC", kernel_layout="HWIO");\n'
        "%3 = nn.bias_add(%2, meta[relay.Constant][1], axis=3);\n"
        "%4 = nn.relu(%3);\n"
        '%5 = nn.max_pool2d(%4, pool_size=[2, 2], strides=[2, 2], layout="NHWC");\n'
        "%6 = transpose(%5, axes=[0, 3, 1, 2]);\n"
        "nn.batch_flatten(%6)"
    )


@pytest.mark.parametrize(("body", "constants", "count"), [
    (CONV + "%1 = nn.relu(%0); add(%1, %x)", [(3, 3, 3, 3)], 3),
    (CONV + "add(%0, meta[relay.Constant][1])", [(5, 3, 3, 3), (5, 1, 1)], 2),
    (CONV + "multiply(%0, 2f)", [(5, 3, 3, 3)], 2),
    (CONV + "nn.prelu(%0, meta[relay.Constant][1])", [(5, 3, 3, 3), (5,)], 2),
    (CONV + "concatenate(%0, %x, axis=1)", [(5, 3, 3, 3)], 2),
    (CONV + "nn.pad(%0, pad_width=[[0, 0], [1, 2], [0, 3], [4, 0]])", [(5, 3, 3, 3)], 2),
    (CONV + "mean(%0, axis=[2, 3])", [(5, 3, 3, 3)], 2),
    (CONV + "mean(%0, axis=[1, -1], keepdims=True)", [(5, 3, 3, 3)], 2),
    (CONV + "sum(%0, axis=[2])", [(5, 3, 3, 3)], 1),
    (CONV + "nn.global_avg_pool2d(%0)", [(5, 3, 3, 3)], 2),
    (CONV + "nn.adaptive_avg_pool2d(%0, output_size=[3, 2])", [(5, 3, 3, 3)], 2),
    (CONV + "nn.softmax(%0, axis=1)", [(5, 3, 3, 3)], 2),
    (CONV + "%1 = nn.relu(%0); (%1, %0, %x)", [(5, 3, 3, 3)], 2),
    ("nn.conv2d(%x, meta[relay.Constant][0], groups=3)", [(6, 1, 3, 3)], 1),
    ("nn.conv2d_transpose(%x, meta[relay.Constant][0], strides=[2, 2])", [(3, 5, 3, 3)], 1),
    ("nn.relu(%x)", [], 0),
])
def test_the_other_layout_computes_the_same(body: str, constants: list[tuple[int, ...]], count: int) -> None:
    assert check(to("last"), parse_image(body, *constants)) == count


@pytest.mark.parametrize(("type_", "body", "kernel"), [
    ("Tensor[(2, 3, 8), float32]", "%0 = nn.conv1d(%x, meta[relay.Constant][0]); nn.avg_pool1d(%0, pool_size=[2])", (5, 3, 3)),
    ("Tensor[(2, 3, 4, 4, 4), float32]", "%0 = nn.conv3d(%x, meta[relay.Constant][0]); nn.avg_pool3d(%0, pool_size=[2, 2, 2])",
     (5, 3, 3, 3, 3)),
])
def test_one_and_three_dimensions(type_: str, body: str, kernel: tuple[int, ...]) -> None:
    graph = parse_image(body, kernel, type_=type_)
    assert check(to("last"), graph) == 2
    assert graph.nodes[-2].attributes["layout"] in ("NWC", "NDHWC")


def test_first_converts_what_is_last() -> None:
    body = ('%0 = nn.conv2d(%x, meta[relay.Constant][0], data_layout="NHWC", kernel_layout="HWIO"); '
            "%1 = nn.bias_add(%0, meta[relay.Constant][1], axis=-1); "
            'nn.max_pool2d(%1, pool_size=[2, 2], layout="NHWC")')
    graph = parse_image(body, (3, 3, 3, 5), (5,), type_="Tensor[(2, 8, 8, 3), float32]")
    assert check(to("first"), graph) == 3
    assert graph.select("nn.conv2d")[0].attributes["data_layout"] == "NCHW"
    assert check(to("first"), parse_image(CONV + "nn.relu(%0)", (5, 3, 3, 3))) == 0


@pytest.mark.parametrize(("weight", "count"), [("meta[relay.Constant][0]", 2), ("%w", 0)])
def test_constant_weights_whose_channels_are_last_get_blocks(weight: str, count: int) -> None:
    graph = parse(f"""def @main(%x: Tensor[(2, 8, 8, 3), float32], %w: Tensor[(3, 3, 3, 5), float32]) {{
      %0 = nn.conv2d(%x, {weight}, data_layout="NHWC", kernel_layout="HWIO"); nn.relu(%0)
    }}""", [weights(3, 3, 3, 5)])
    assert check(convert_layout.run_to_first, graph) == count
    assert graph.select("nn.conv2d")[0].attributes["kernel_layout"] == ("OIHW" if count else "HWIO")


def test_transposed_weights_go_to_their_own_usual_layout() -> None:
    body = 'nn.conv2d_transpose(%x, meta[relay.Constant][0], strides=[2, 2], data_layout="NHWC", kernel_layout="HWOI")'
    graph = parse_image(body, (3, 3, 5, 3), type_="Tensor[(2, 8, 8, 3), float32]")
    assert check(convert_layout.run_to_first, graph) == 1
    assert graph.select("nn.conv2d_transpose")[0].attributes["kernel_layout"] == "IOHW"


def test_input_that_is_an_output_and_regions() -> None:
    graph = parse("""def @main(%c: bool, %x: Tensor[(2, 3, 8, 8), float32]) {
      %0 = if(%c, %x) {
        then_branch = fn (%v: Tensor[(2, 3, 8, 8), float32]) { nn.conv2d(%v, meta[relay.Constant][0], padding=[1, 1]) },
        else_branch = fn (%v: Tensor[(2, 3, 8, 8), float32]) { negative(%v) }
      };
      (%0, %x)
    }""", [weights(3, 3, 3, 3)])
    assert check(to("last"), graph) == 1


def test_without_the_option_nothing_happens() -> None:
    assert check(convert_layout.run, parse_image(CONV + "nn.relu(%0)", (5, 3, 3, 3))) == 0


@pytest.mark.parametrize("scale", ["0.02f", "full(0.02f, shape=[5])"])
def test_channels_come_first_where_a_kernel_is_of_integers(scale: str) -> None:
    """Kernels of floats alone wait for the stage that knows of their layout."""
    options = ', data_layout="NHWC", kernel_layout="OHWI"'
    kernel = np.random.default_rng(0).integers(-127, 128, (5, 3, 3, 3)).astype(np.int8)
    body = f"%0 = qnn.dequantize(meta[relay.Constant][0], {scale}, axis=0); %1 = nn.conv2d(%x, %0{options}); nn.relu(%1)"
    quantized = parse(f"def @main(%x: Tensor[(2, 8, 8, 3), float32]) {{ {body} }}", [kernel])
    assert check(convert_layout.run_integers_to_first, quantized) > 0
    assert [n.attrs.data_layout for n in quantized.nodes if n.op == "nn.conv2d"] == ["NCHW"]
    floats = parse_image(f"nn.conv2d(%x, meta[relay.Constant][0]{options})", (5, 3, 3, 3), type_="Tensor[(2, 8, 8, 3), float32]")
    assert check(convert_layout.run_integers_to_first, floats) == 0


@pytest.mark.parametrize("is_read", [False, True])
def test_images_that_had_channels_first_keep_them(is_read: bool) -> None:
    body = f"""%0 = transpose(%x, axes=[0, 2, 3, 1]); %1 = multiply(%0, 2f);{' %9 = abs(%0);' if is_read else ''}
      %2 = nn.conv2d(%1, meta[relay.Constant][0], padding=[1, 1], data_layout="NHWC", kernel_layout="HWIO");
      %3 = transpose(%2, axes=[0, 3, 1, 2]); {'(%3, %9)' if is_read else '%3'}"""
    graph = parse_image(body, (3, 3, 3, 5))
    check(convert_layout.run_to_first, graph)
    used = [node for node in graph.nodes if node.op == "transpose" and graph.use_count(node.result)]
    assert len(used) == is_read


def test_images_of_one_pixel_are_only_seen_in_another_shape() -> None:
    body = """%0 = nn.conv2d(%x, meta[relay.Constant][0], data_layout="NHWC", kernel_layout="HWIO"); nn.batch_flatten(%0)"""
    graph = parse_image(body, (8, 8, 3, 5), type_="Tensor[(2, 8, 8, 3), float32]")
    assert check(convert_layout.run_to_first, graph) == 1
    assert [node.op for node in graph.nodes if node.op != "constant"] == ["transpose", "nn.conv2d", "reshape", "nn.batch_flatten"]
