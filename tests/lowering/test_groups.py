"""Which nodes share a kernel."""

from __future__ import annotations

from forge.ir.parser import parse_module
from forge.lowering.groups import form_groups


def groups_of(text: str, fuse: bool = True) -> list[list[str]]:
    graph = parse_module(text).main
    return [[node.op for node in group.nodes] for group in form_groups(graph, fuse)]


def test_an_anchor_takes_the_elementwise_chain_behind_it() -> None:
    text = """def @main(%x: Tensor[(4, 8), float32], %w: Tensor[(3, 8), float32], %b: Tensor[(3), float32]) {
      %0 = nn.dense(%x, %w);
      %1 = add(%0, %b);
      nn.relu(%1)
    }"""
    assert groups_of(text) == [["nn.dense", "add", "nn.relu"]]
    assert groups_of(text, fuse=False) == [["nn.dense"], ["add"], ["nn.relu"]]


def test_a_value_that_others_need_is_written() -> None:
    assert groups_of("""def @main(%x: Tensor[(4, 8), float32], %w: Tensor[(3, 8), float32]) {
      %0 = nn.dense(%x, %w);
      %1 = nn.relu(%0);
      (%0, %1)
    }""") == [["nn.dense"], ["nn.relu"]]


def test_a_residual_joins_the_later_anchor_once() -> None:
    assert groups_of("""def @main(%x: Tensor[(4, 8), float32], %w: Tensor[(8, 8), float32]) {
      %0 = nn.dense(%x, %w);
      %1 = nn.dense(%0, %w);
      %2 = add(%1, %0);
      nn.relu(%2)
    }""") == [["nn.dense"], ["nn.dense", "add", "nn.relu"]]


def test_elementwise_chains_are_one_loop() -> None:
    assert groups_of("""def @main(%x: Tensor[(4, 8), float32]) {
      %0 = exp(%x);
      %1 = add(%0, 1f);
      divide(1f, %1)
    }""") == [["exp", "add", "divide"]]


def test_costly_work_is_not_repeated_for_a_larger_reader() -> None:
    assert groups_of("""def @main(%x: Tensor[(4, 1), float32], %y: Tensor[(4, 100), float32]) {
      %0 = exp(%x);
      add(%0, %y)
    }""") == [["exp"], ["add"]]


def test_what_says_which_elements_are_read_is_stored_before() -> None:
    text = """def @main(%x: Tensor[(4, 100), float32], %i: Tensor[(9), int64]) {
      %0 = maximum(%i, 0i64);
      take(%x, %0, axis=1)
    }"""
    assert groups_of(text) == [["maximum"], ["take"]]
    assert groups_of(text.replace("(4, 100)", "(1, 100)")) == [["maximum", "take"]]


def test_what_is_computed_of_several_elements_and_picked_several_times_is_stored_before() -> None:
    text = """def @main(%x: Tensor[(4, 8), float32], %y: Tensor[(4, 8), float32], %i: Tensor[(9), int64],
                         %j: Tensor[(9), int64]) {
      %0 = add(%x, %y);
      %1 = take(%0, %i, axis=1);
      %2 = take(%0, %j, axis=1);
      add(%1, %2)
    }"""
    assert groups_of(text) == [["add"], ["take", "take", "add"]]
    assert groups_of(text.replace("add(%x, %y)", "nn.relu(%x)")) == [["nn.relu", "take", "take", "add"]]


def test_what_interpolates_is_stored_before_it_is_transposed() -> None:
    """Its vectors are neighbours in memory; element-wise work alone is done on the way."""
    resized = """def @main(%x: Tensor[(1, 2, 4, 4, 16), float32]) {
      %0 = image.resize2d(%x, size=[9, 9], layout="NCHW16c");
      %1 = nn.relu(%0);
      layout_transform(%1, src_layout="NCHW16c", dst_layout="NCHW")
    }"""
    assert groups_of(resized) == [["image.resize2d", "nn.relu"], ["layout_transform"]]
    assert groups_of("""def @main(%x: Tensor[(1, 2, 4, 4, 16), float32], %i: Tensor[(9), int64], %j: Tensor[(9), int64]) {
      %0 = take(%x, %i, axis=2); %1 = take(%x, %j, axis=2); %2 = add(%0, %1);
      layout_transform(%2, src_layout="NCHW16c", dst_layout="NCHW")
    }""") == [["take", "take", "add"], ["layout_transform"]]
    assert groups_of(resized.replace('%0 = image.resize2d(%x, size=[9, 9], layout="NCHW16c");', "%0 = exp(%x);")) == [
        ["exp", "nn.relu", "layout_transform"]]


def test_a_softmax_reads_its_scaled_operand_through() -> None:
    assert groups_of("""def @main(%x: Tensor[(4, 100), float32]) {
      %0 = multiply(%x, 0.125f);
      nn.softmax(%0)
    }""") == [["multiply", "nn.softmax"]]


def test_rows_are_transposed_before_they_are_read() -> None:
    text = """def @main(%x: Tensor[(2, 5, 3, 4), float32]) {
      %0 = transpose(%x, axes=[0, 2, 3, 1]);
      nn.softmax(%0)
    }"""
    assert groups_of(text) == [["transpose"], ["nn.softmax"]]
    assert groups_of(text.replace("[0, 2, 3, 1]", "[0, 2, 1, 3]")) == [["transpose", "nn.softmax"]]
    assert groups_of(text.replace(", axes=[0, 2, 3, 1]", "")) == [["transpose"], ["nn.softmax"]]
    assert groups_of(text.replace("nn.softmax(%0)", "nn.layer_norm(%0, None, None)")) == [["transpose"], ["nn.layer_norm"]]


def test_a_product_reads_through_transpositions_but_not_through_arithmetic() -> None:
    assert groups_of("""def @main(%x: Tensor[(2, 5, 3, 4), float32], %y: Tensor[(2, 3, 4, 5), float32]) {
      %0 = exp(%x);
      %1 = transpose(%0, axes=[0, 2, 1, 3]);
      nn.matmul(%1, %y)
    }""") == [["exp"], ["transpose", "nn.matmul"]]


def test_views_cost_nothing() -> None:
    assert groups_of("""def @main(%x: Tensor[(4, 8), float32]) {
      %0 = exp(%x);
      %1 = reshape(%0, newshape=[32]);
      nn.relu(%1)
    }""") == [["exp"], ["nn.relu"]]
