"""fuse_patterns: each operator in the forms that exporters write, and near misses that must stay."""

from __future__ import annotations

import pytest

from forge.driver import check_options
from forge.ir.edits.journal import recorded
from forge.passes import decompose, eliminate_common_subexpr, fuse_patterns
from tests.passes.checks import check, parse, text_of, weights

X = "%x: Tensor[(n, 3, 8), float32]"
CENTRED = "%0 = mean(%x, axis=[-1], keepdims=True); %1 = subtract(%x, %0);"
DIVIDED = "%4 = add(%3, 1e-05f); %5 = sqrt(%4); divide(%1, %5)"
ROOT_SQUARES = "%0 = multiply(%x, %x); %1 = mean(%0, axis=[2], keepdims=True); %2 = add(%1, 1e-06f);"
MOMENTS = ("%0 = multiply(%x, %x); %1 = sum(%x, axis=[2], keepdims=True); %2 = divide(%1, 8f); "
           "%3 = mean(%0, axis=[2], keepdims=True); %4 = multiply(%2, %2); %5 = subtract(%3, %4);")
SHIFTED = "%0 = max(%x, axis=[1], keepdims=True); %1 = subtract(%x, %0); %2 = exp(%1);"
CUBIC = "%0 = power(%x, 3f); %1 = multiply(%0, 0.044715f); %2 = add(%x, %1); %3 = multiply(%2, 0.7978846f); %4 = tanh(%3);"


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (f"{CENTRED} %2 = power(%1, 2f); %3 = mean(%2, axis=[-1], keepdims=True); {DIVIDED}",
         "nn.layer_norm(%x)"),
        (f"{CENTRED} %2 = multiply(%1, %1); %3 = mean(%2, axis=[2], keepdims=True); %4 = add(0.001f, %3); %5 = rsqrt(%4); "
         "multiply(%5, %1)", "nn.layer_norm(%x, epsilon=0.001f)"),
        (f"{CENTRED} %2 = subtract(%x, %0); %3 = multiply(%2, %2); %4 = mean(%3, axis=[2], keepdims=True); %5 = add(%4, 1e-05f); "
         "%6 = sqrt(%5); %7 = divide(1f, %6); multiply(%1, %7)", "nn.layer_norm(%x)"),
        ("%0 = nn.layer_norm(%x); %1 = multiply(meta[relay.Constant][0], %0); add(%1, meta[relay.Constant][1])",
         "nn.layer_norm(%x, meta[relay.Constant][0], meta[relay.Constant][1])"),
        (f"{ROOT_SQUARES} %3 = sqrt(%2); divide(%x, %3)", "nn.rms_norm(%x, epsilon=1e-06f)"),
        (f"{ROOT_SQUARES} %3 = rsqrt(%2); %4 = multiply(%x, %3); multiply(meta[relay.Constant][0], %4)",
         "nn.rms_norm(%x, meta[relay.Constant][0], epsilon=1e-06f)"),
        (f"{SHIFTED} %3 = sum(%2, axis=[1], keepdims=True); divide(%2, %3)", "nn.softmax(%x, axis=1)"),
        ("%0 = divide(%x, 1.4142135f); %1 = erf(%0); %2 = add(%1, 1f); %3 = multiply(%x, %2); multiply(%3, 0.5f)", "nn.gelu(%x)"),
        ("%0 = multiply(%x, 0.70710677f); %1 = erf(%0); %2 = add(1f, %1); %3 = multiply(0.5f, %x); multiply(%3, %2)",
         "nn.gelu(%x)"),
        ("%0 = divide(%x, 1.4142135f); %1 = erf(%0); %2 = add(%1, 1f); %3 = multiply(%2, %x); divide(%3, 2f)", "nn.gelu(%x)"),
        (f'{CUBIC} %5 = add(%4, 1f); %6 = multiply(%x, 0.5f); multiply(%6, %5)', 'nn.gelu(%x, approximate="tanh")'),
        ("%0 = multiply(%x, %x); %1 = multiply(%0, %x); %2 = multiply(0.044715f, %1); %3 = add(%2, %x); "
         "%4 = multiply(0.7978846f, %3); %5 = tanh(%4); %6 = add(1f, %5); %7 = multiply(%x, %6); multiply(%7, 0.5f)",
         'nn.gelu(%x, approximate="tanh")'),
        ("%0 = multiply(%x, 0.044715f); %1 = multiply(%0, %x); %2 = add(%1, 1f); %3 = multiply(%x, 0.7978846f); "
         "%4 = multiply(%3, %2); %5 = tanh(%4); %6 = add(%5, 1f); %7 = multiply(%x, 0.5f); multiply(%7, %6)",
         'nn.gelu(%x, approximate="tanh")'),
        ("%0 = multiply(%x, 0.5f); %1 = negative(%x); %2 = multiply(%1, 0.70710677f); %3 = erfc(%2); multiply(%0, %3)",
         "nn.gelu(%x)"),
        ("%0 = sigmoid(%x); multiply(%0, %x)", "nn.silu(%x)"),
        ("%0 = negative(%x); %1 = exp(%0); %2 = add(1f, %1); divide(1f, %2)", "sigmoid(%x)"),
        (f"{MOMENTS} %6 = maximum(0f, %5); %7 = subtract(%x, %2); %8 = add(%6, 1e-05f); %9 = rsqrt(%8); multiply(%7, %9)",
         "nn.layer_norm(%x)"),
        (f"{MOMENTS} %6 = subtract(%x, %2); %7 = add(%5, 1e-05f); %8 = rsqrt(%7); "
         "%9 = multiply(%8, meta[relay.Constant][0]); multiply(%6, %9)", "nn.layer_norm(%x, meta[relay.Constant][0])"),
        *((f"{CENTRED} %2 = multiply(%1, %1); %3 = mean(%2, axis=[2], keepdims=True); %4 = add(%3, 1e-05f); %5 = rsqrt(%4); "
           f"%6 = multiply(%5, meta[relay.Constant][0]); %7 = multiply(%x, %6); {shift}; add(%7, %10)",
           f"nn.layer_norm(%x, meta[relay.Constant][0]{beta})") for shift, beta in (
               ("%8 = negative(%0); %9 = multiply(%8, %6); %10 = add(%9, meta[relay.Constant][1])", ", meta[relay.Constant][1]"),
               ("%9 = multiply(%6, %0); %10 = subtract(meta[relay.Constant][1], %9)", ", meta[relay.Constant][1]"),
               ("%9 = negative(%0); %10 = multiply(%9, %6)", ""))),
        (f"{ROOT_SQUARES} %3 = rsqrt(%2); %4 = multiply(%3, meta[relay.Constant][0]); multiply(%x, %4)",
         "nn.rms_norm(%x, meta[relay.Constant][0], epsilon=1e-06f)"),
        ("%0 = nn.hard_sigmoid(%x, alpha=0.16666667, beta=0.5); multiply(%x, %0)", "nn.hardswish(%x)"),
        ("%0 = add(%x, 3f); %1 = clip(%0, a_min=0f, a_max=6f); %2 = multiply(%x, %1); divide(%2, 6f)", "nn.hardswish(%x)"),
        ("%0 = add(%x, 3f); %1 = clip(%0, a_min=0f, a_max=6f); %2 = divide(%1, 6f); multiply(%x, %2)", "nn.hardswish(%x)"),
        ("%0 = nn.softplus(%x); %1 = tanh(%0); multiply(%x, %1)", "nn.mish(%x)"),
        ("nn.matmul(%x, meta[relay.Constant][2])", "nn.dense(%x, meta[relay.Constant][0], units=5)"),
    ],
)
def test_recognized(before: str, after: str) -> None:
    before = before.replace("a_min=0f", "a_min=0").replace("a_max=6f", "a_max=6")
    graph = parse(f"def @main({X}) {{ {before} }}", [weights(8), weights(8, seed=1), weights(8, 5)])
    assert check(fuse_patterns.run, graph, symbols={"n": 2}) >= 1
    assert text_of(graph) == after


@pytest.mark.parametrize(
    ("text", "reasons"),
    [
        (f"{CENTRED} %2 = power(%1, 2f); %3 = mean(%2, axis=[1], keepdims=True); {DIVIDED}",
         {"mean and variance are over different axes", "the mean is not over the last axes"}),
        (f"{CENTRED} %2 = power(%x, 2f); %3 = mean(%2, axis=[2], keepdims=True); {DIVIDED}",
         {"the variance is not that of the difference", "the mean is of the squares of another value"}),
        (f"{ROOT_SQUARES} %3 = sqrt(%2); divide(%0, %3)", {"the mean is of the squares of another value"}),
        (f"{SHIFTED} %3 = sum(%2, axis=[2], keepdims=True); divide(%2, %3)",
         {"what is subtracted is not the maximum over the axis of the sum"}),
        ("%0 = divide(%x, 1.5f); %1 = erf(%0); %2 = add(%1, 1f); %3 = multiply(%x, %2); multiply(%3, 0.5f)",
         {"the argument of erf is not that of gelu", "the factor is 1; expected 0.5"}),
        ("%0 = divide(%x, 1.4142135f); %1 = erf(%0); %2 = add(%1, 1f); %3 = multiply(%x, %2); multiply(%3, 0.25f)",
         {"the factor is 0.25; expected 0.5", "the factor is 1; expected 0.5"}),
        (f"{MOMENTS} %6 = subtract(%x, %2); %7 = add(%0, 1e-05f); %8 = rsqrt(%7); multiply(%6, %8)", set()),
        ("%0 = negative(%x); %1 = exp(%0); %2 = add(2f, %1); divide(1f, %2)", set()),
        ("%0 = exp(%x); %1 = sigmoid(%0); multiply(%1, %x)", {"sigmoid is of another value"}),
        ("%0 = nn.hard_sigmoid(%x, alpha=0.2, beta=0.5); multiply(%x, %0)",
         {"alpha and beta of nn.hard_sigmoid are not 1/6 and 1/2"}),
        ("%0 = nn.layer_norm(%x); multiply(%0, meta[relay.Constant][0])",
         {"the parameter has more axes than are normalized"}),
        ("nn.matmul(%x, meta[relay.Constant][1], transpose_a=True)", {"the first operand is transposed"}),
    ],
)
def test_near_misses_stay_and_say_why(text: str, reasons: set[str]) -> None:
    graph = parse(f"def @main({X}) {{ {text} }}", [weights(3, 8), weights(3, 5)])
    with recorded() as kept:
        assert check(fuse_patterns.run, graph, symbols={"n": 2}) == 0
    assert {attempt.reason for attempt in kept.declined()} == reasons


def test_layer_norm_over_two_axes() -> None:
    graph = parse("""def @main(%x: Tensor[(n, 3, 8), float32]) {
      %0 = mean(%x, axis=[1, 2], keepdims=True); %1 = subtract(%x, %0); %2 = multiply(%1, %1);
      %3 = mean(%2, axis=[1, 2], keepdims=True); %4 = add(%3, 1e-05f); %5 = sqrt(%4); %6 = divide(%1, %5);
      multiply(%6, meta[relay.Constant][0])
    }""", [weights(3, 8)])
    check(fuse_patterns.run, graph, symbols={"n": 2})
    assert text_of(graph) == "nn.layer_norm(%x, meta[relay.Constant][0], axis=-2)"


@pytest.mark.parametrize(("op", "pool"), [("mean", "avg"), ("max", "max")])
def test_spatial_reduction(op: str, pool: str) -> None:
    graph = parse(f"def @main(%x: Tensor[(n, 3, 4, 5), float32]) {{ {op}(%x, axis=[2, 3]) }}")
    check(fuse_patterns.run, graph, symbols={"n": 2})
    assert text_of(graph) == f"%0 = nn.global_{pool}_pool2d(%x);\nreshape(%0, newshape=[n, 3])"


def test_extremes_of_all_elements_take_one_pass() -> None:
    graph = parse(f"def @main({X}) {{ %0 = min(%x); %1 = max(%x); subtract(%1, %0) }}")
    check(fuse_patterns.run, graph, symbols={"n": 2})
    eliminate_common_subexpr.run(graph, check_options())
    assert [node.op for node in graph.nodes] == ["extremes", "subtract"]
    graph = parse(f"def @main({X}) {{ %0 = min(%x, axis=[1], keepdims=True); %1 = max(%x); %2 = multiply(%x, %1); add(%2, %0) }}")
    assert check(fuse_patterns.run, graph, symbols={"n": 2}) == 0


def test_values_used_elsewhere_stay() -> None:
    graph = parse(f"def @main({X}) {{ %0 = sigmoid(%x); %1 = multiply(%0, %x); add(%1, %0) }}")
    check(fuse_patterns.run, graph, symbols={"n": 2})
    assert text_of(graph) == "%0 = sigmoid(%x);\n%1 = nn.silu(%x);\nadd(%1, %0)"


def test_instance_norm_runs_row_by_row() -> None:
    graph = parse("def @main(%x: Tensor[(n, 3, 4, 8), float32]) { nn.instance_norm(%x, meta[relay.Constant][0], "
                  "meta[relay.Constant][1]) }", [weights(3), weights(3)])
    check(decompose.run, graph, symbols={"n": 2})
    check(fuse_patterns.run_norms, graph, symbols={"n": 2})
    assert "nn.layer_norm(%x, axis=-2)" in text_of(graph)


def test_instance_norm_of_symbolic_sizes_runs_row_by_row() -> None:
    graph = parse("def @main(%x: Tensor[(n, 3, h, w), float32]) { nn.instance_norm(%x, meta[relay.Constant][0], "
                  "meta[relay.Constant][1]) }", [weights(3), weights(3)])
    check(decompose.run, graph, symbols={"n": 2, "h": 4, "w": 5})
    check(fuse_patterns.run_norms, graph, symbols={"n": 2, "h": 4, "w": 5})
    assert "nn.layer_norm(%x, axis=-2)" in text_of(graph)
