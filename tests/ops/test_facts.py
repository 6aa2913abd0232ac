"""Facts about operators stand on the operators: nothing else knows them by name, and new operators need no table."""

from __future__ import annotations

import ast
import importlib
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest

from forge import te
from forge.errors import ForgeError
from forge.ir.builder import Builder
from forge.ir.graph import Graph
from forge.ir.nodes import Value
from forge.ir.op import REGISTRY, Category, Kind, OpDef, Precision, all_ops
from forge.ir.types import TensorType
from forge.lowering.groups import form_groups
from forge.ops.core.define import define_operator
from forge.options import CompileOptions
from forge.passes import canonicalize, to_bfloat16, to_float16
from tests.ops.test_cases import CASES
from tests.passes.checks import AVX2

Pass = Callable[[Graph, CompileOptions], int]
SOURCE = Path(__file__).parents[2] / "src" / "forge"
OPERATORS = [op for op in all_ops() if not type(op).__module__.startswith("forge.ir.")]  # not constant and call
NAMES = {op.name for op in OPERATORS}

HOMONYMS = {
    "ir/undetermined.py": {"max", "min"},  # of dimensions
    "lowering/late.py": {"max"},  # of loop expressions
    "lowering/program.py": {"max"},
    "lowering/objects.py": {"optional"},  # a type
    "driver/feeds.py": {"optional"},
    "exporters/onnx/emitter.py": {"max", "min"},
    "numerics/comparison.py": {"argmax", "equal"},  # of the document
    "quantization/chosen/scheme.py": {"any"},  # of the arguments
    "quantization/observed/calibration.py": {"add", "max", "min"},  # that it builds
    "quantization/places/recurrent.py": {"any"},
}
"""Names in these files that are not operators."""

HEADS = {
    "append_states": "concatenate transpose",
    "canonicalize": "add broadcast_to cast concatenate copy divide layout_transform maximum minimum multiply nn.dropout nn.pad "
                    "power repeat reshape strided_slice subtract take tile",
    "exporters/onnx/export": "qnn.dequantize qnn.quantize",
    "quantization/chosen/compressible": "nn.conv1d nn.conv1d_transpose nn.conv2d nn.conv2d_transpose nn.conv3d "
                                       "nn.conv3d_transpose nn.gru nn.lstm nn.rnn qnn.unpack take",
    "quantization/chosen/sensitivity": "qnn.dequantize qnn.quantize",
    "quantization/observed/gram": "nn.conv1d nn.conv2d nn.conv3d nn.dense nn.matmul",
    "quantization/places/insertion": "concatenate nn.dense nn.matmul",
    "quantization/places/layers": "add concatenate nn.bias_add nn.conv1d nn.conv1d_transpose nn.conv2d nn.conv2d_transpose "
                                  "nn.conv3d nn.conv3d_transpose nn.dense",
    "quantization/places/pairing": "qnn.dequantize qnn.quantize reshape",
    "quantization/places/products": "nn.gru nn.lstm nn.rnn",
    "quantization/places/symmetric": "qnn.dequantize qnn.quantize",
    "quantization/weights/activation_scales": "add multiply nn.bias_add nn.relu",
    "quantization/weights/channels": "nn.layer_norm nn.rms_norm",
    "quantization/weights/equalization": "add mean nn.bias_add reshape",
    "quantization/weights/splitting": "nn.bias_add",
    "choose_layouts": "nn.conv1d nn.conv1d_transpose nn.conv2d nn.conv2d_transpose nn.conv3d nn.conv3d_transpose transpose",
    "convert_layout": "nn.conv1d nn.conv1d_transpose nn.conv2d nn.conv2d_transpose nn.conv3d nn.conv3d_transpose qnn.dequantize",
    "fold_batch_norm": "add nn.batch_norm nn.bias_add",
    "fold_scale": "add divide multiply subtract",
    "fold_sequences": "concat_from_sequence concatenate copy optional optional_get_element optional_has_element sequence_at "
                      "sequence_construct sequence_empty sequence_erase sequence_insert sequence_length split_to_sequence stack",
    "fuse_attention": "add any broadcast_to cast divide greater multiply nn.matmul nn.softmax reshape tanh transpose where",
    "fuse_patterns": "add clip divide erf erfc exp extremes max maximum mean min multiply negative nn.gelu nn.global_avg_pool2d "
                     "nn.global_max_pool2d nn.hard_sigmoid nn.hardswish nn.layer_norm nn.matmul nn.mish nn.rms_norm nn.silu "
                     "nn.softplus power reciprocal rsqrt sigmoid sqrt subtract sum tanh",
    "integers": "nn.conv1d nn.conv2d",
    "integers/convolutions": "nn.conv1d nn.conv2d nn.conv2d_transpose nn.conv3d",
    "integers/moves": "concatenate qnn.dequantize transpose",
    "integers/numbers": "add cast clip qnn.dequantize round",
    "integers/operands": "cast qnn.dequantize subtract",
    "integers/products": "nn.batch_matmul nn.dense nn.matmul",
    "integers/steps": "clip concatenate multiply nn.relu qnn.quantize",
    "integers/sums": "add cast multiply nn.bias_add nn.conv1d nn.conv2d subtract",
    "integers/tables": "qnn.dequantize qnn.lookup qnn.quantize",
    "matching": "divide mean multiply negative power sum",
    "pack_blocks": "cast multiply nn.dense nn.indexed_matmul nn.matmul qnn.dequantize qnn.unpack reshape take transpose",
    "pack_weights": "nn.contrib_conv2d_NCHWc nn.dense",
    "product_rules": "nn.batch_matmul nn.conv1d nn.conv2d nn.conv3d nn.dense nn.matmul nn.pad",
    "split_groups": "nn.conv1d nn.conv1d_transpose nn.conv2d nn.conv2d_transpose nn.conv3d nn.conv3d_transpose",
    "recurrent_codes": "qnn.dequantize",
    "recurrent_rules": "add multiply nn.dense nn.gru nn.lstm reshape scan sigmoid strided_slice subtract tanh",
    "split_recurrent": "nn.gru nn.lstm nn.rnn",
    "to_float16": "cast divide multiply nn.conv1d nn.conv2d nn.conv3d",  # constants are factors
    "to_unsigned": "qnn.dequantize qnn.quantize",
    "subpixels": "nn.conv1d_transpose nn.conv2d_transpose nn.conv3d_transpose",
    "unroll_scans": "dynamic_slice nn.conv1d nn.conv1d_transpose nn.conv2d nn.conv2d_transpose nn.conv3d nn.conv3d_transpose "
                    "scan",
    "untranspose": "nn.conv1d nn.conv1d_transpose nn.conv2d nn.conv2d_transpose nn.conv3d nn.conv3d_transpose",
    "use_winograd": "nn.conv1d nn.conv2d nn.contrib_conv2d_NCHWc nn.contrib_conv2d_winograd_NCHWc nn.contrib_conv3d_NCDHWc "
                    "nn.contrib_conv3d_winograd_NCDHWc nn.conv3d",
    "view_rules": "add all any concatenate count_nonzero expand_dims logsumexp max mean min nn.batch_flatten nn.dense nn.matmul "
                  "prod reshape split squeeze strided_slice sum take transpose",
    "weighted": "add nn.bias_add nn.conv1d nn.conv1d_transpose nn.conv2d nn.conv2d_transpose nn.conv3d nn.conv3d_transpose "
                "nn.dense subtract",
    "widen_conv1d": "nn.conv1d nn.conv1d_transpose",
}
"""Operators whose equations modules know, the passes by their names: those that their patterns consist of. What is true of
operators in general is declared by them (``OpDef``). ``partition_for_tensorrt`` is not here: it lists what another compiler
has."""

FORMATS = ("exporters/onnx/operators/", "exporters/onnx/coverage.py")
"""Tables of how a format has operators: rows, each of some operators, and those that it lacks."""


def parsed(*folders: str) -> Iterator[tuple[str, ast.Module]]:
    for folder in folders:
        for path in sorted((SOURCE / folder).rglob("*.py")):
            yield str(path.relative_to(SOURCE)), ast.parse(path.read_text())


def literals(tree: ast.Module) -> set[str]:
    """Names of operators in it, but for those that it only builds (``builder.call(name, ...)``)."""
    calls = [n for n in ast.walk(tree) if isinstance(n, ast.Call) and isinstance(n.func, ast.Attribute) and n.args]
    built = {id(n.args[0]) for n in calls if getattr(n.func, "attr", "") == "call"}
    constants = [n for n in ast.walk(tree) if isinstance(n, ast.Constant) and isinstance(n.value, str) and id(n) not in built]
    return {str(n.value) for n in constants if n.value in NAMES}


def is_operator_in_disguise(value: object) -> bool:
    """A class of an operator or of its attributes, its name, or a collection of such names."""
    if isinstance(value, type):
        own = issubclass(value, OpDef) and getattr(value, "name", None) in NAMES
        return own or (value.__module__.startswith("forge.ops.") and any(op.Attrs is value for op in OPERATORS))
    if isinstance(value, str):
        return value in NAMES
    return isinstance(value, set | frozenset | tuple | list | dict) and any(isinstance(v, str) and v in NAMES for v in value)


def imported(tree: ast.Module) -> dict[str, object]:
    """What it imports of Forge, but for the families of kernels, of which some are called as their operators are."""
    found: dict[str, object] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("forge") and "kernels" not in (node.module or ""):
            module = importlib.import_module(node.module or "")
            found |= {alias.name: getattr(module, alias.name, None) for alias in node.names}
    return found


def bound(tree: ast.Module) -> set[str]:
    """Names of operators whose classes it imports: ``X.of(node)``, ``@rule(X)``."""
    classes = [v for v in imported(tree).values() if isinstance(v, type) and issubclass(v, OpDef)]
    own = tuple(c for c in classes if c.__module__.startswith("forge.ops.") and not c.__module__.startswith("forge.ops.core."))
    return {op.name for op in OPERATORS if isinstance(op, own)}


def test_nothing_but_patterns_knows_operators_by_name() -> None:
    for path, tree in parsed("ir", "lowering", "view", "driver"):
        assert literals(tree) <= HOMONYMS.get(path, set()), path
        built = [n.args[0] for n in ast.walk(tree) if isinstance(n, ast.Call) and n.args]
        assert not [n.value for n in built if isinstance(n, ast.Constant) and n.value in NAMES - {"max", "min"}], path
        assert not [name for name, value in imported(tree).items() if is_operator_in_disguise(value)], path


def stem_of(path: str) -> str:
    """A module's name below the folder of the passes."""
    return path.removeprefix("passes/").removesuffix(".py").removesuffix("/__init__")


def test_modules_know_the_operators_of_their_patterns_only() -> None:
    trees = {}
    for path, tree in parsed("passes", "quantization", "numerics", "exporters"):
        stem = stem_of(path)
        if stem != "partition_for_tensorrt" and not path.startswith(FORMATS):
            trees[stem] = tree
            named = literals(tree) - HOMONYMS.get(path, set()) | bound(tree)
            assert named <= set(HEADS.get(stem, "").split()), f"{path}: declare on the operator what holds in general"
    texts = {stem: (ast.unparse(tree), bound(tree)) for stem, tree in trees.items()}
    stale = [(s, n) for s, names in HEADS.items() for n in names.split() if repr(n) not in texts[s][0] and n not in texts[s][1]]
    assert not stale


def test_rows_of_a_format_have_no_sets_of_operators() -> None:
    for path, tree in parsed("exporters"):
        if path.startswith(FORMATS):
            sets = [n for n in ast.walk(tree) if isinstance(n, ast.Set) or ast.unparse(n).startswith(("set(", "frozenset("))]
            assert not [n for n in sets if literals(ast.Module([ast.Expr(n)], []))], path  # type: ignore[arg-type]


def test_every_operator_answers_every_question() -> None:
    for op in OPERATORS:
        assert isinstance(op.precision, Precision) and isinstance(op.category, Category), op.name
        assert not op.is_map or op.kind is Kind.ELEMENTWISE, op.name
        assert set(op.read_once) <= {o.name for o in op.operands}, op.name
        assert not op.picks or op.picks in {o.name for o in op.operands}, op.name
        assert all(isinstance(op.reads_once(k), bool) for k in range(len(op.operands))), op.name
        assert not op.target_shape or op.target_shape in {f.name for f in op.attribute_fields()}, op.name
        assert not (op.is_permutation or op.is_view) or op.kind is Kind.INJECTIVE, op.name


def test_facts_hold_of_the_references() -> None:
    checked = set()
    for case in CASES:
        op, arrays = REGISTRY[case.op], case.arrays()
        data = arrays[0] if arrays else None
        if not (op.keeps_ratios or op.is_clamp) or data is None or data.dtype != np.float32 or not np.isfinite(data).all():
            continue
        checked.add(op.name)
        attrs = op.make_attrs(case.attrs)
        (before,), (after,) = (op.reference(attrs, *op.arguments([factor * data, *arrays[1:]])) for factor in (1, 4))
        if op.keeps_ratios:
            np.testing.assert_array_equal(after, 4 * before)
        if op.is_clamp:
            np.testing.assert_array_equal(before, np.clip(data, before.min(initial=np.inf), before.max(initial=-np.inf)))
    assert checked == {op.name for op in OPERATORS if op.keeps_ratios or op.is_clamp}


def test_what_follows_a_narrow_type_accepts_it() -> None:
    followers = {op.name for op in OPERATORS if op.precision in (Precision.FOLLOWS, Precision.FOLLOWS_IN_RANGE)}
    refused = []
    for case in CASES:
        arrays = case.arrays()
        if case.op not in followers or not any(a is not None and a.dtype == np.float32 for a in arrays):
            continue
        builder = Builder()
        narrow = [None if a is None else builder.constant(a.astype(np.float16) if a.dtype == np.float32 else a) for a in arrays]
        try:
            builder.node(REGISTRY[case.op], narrow, case.attrs)
        except ForgeError as error:
            refused.append(f"{case.id}: {error}")
    assert not refused


@pytest.fixture
def new_operators() -> Iterator[None]:
    """``test.long``, of many steps, and ``test.short``, of one, which in addition follows narrow types."""
    define_operator("test.long", lambda x: np.log1p(np.exp(x)), element=lambda x: te.call("log1p", te.call("exp", x)))
    define_operator("test.short", lambda x: x + x, element=lambda x: x + x, precision=Precision.FOLLOWS)
    yield
    for name in ("test.long", "test.short"):
        REGISTRY.pop(name)


def graph_of(op: str) -> tuple[Graph, Value]:
    """``op`` of a vector, which is added to each row of a matrix."""
    b = Builder()
    x, y = b.input(TensorType((8,), "float32"), "x"), b.input(TensorType((64, 8), "float32"), "y")
    value = b.call(op, x)
    return b.output(b.call("add", y, value)), value


@pytest.mark.usefixtures("new_operators")
@pytest.mark.parametrize(("op", "kernels"), [("test.long", 2), ("test.short", 1), ("erfinv", 2), ("abs", 1)])
def test_what_is_costly_is_not_repeated(op: str, kernels: int) -> None:
    graph, _ = graph_of(op)
    assert len(form_groups(graph)) == kernels


@pytest.mark.usefixtures("new_operators", "narrow_layers")
@pytest.mark.parametrize(("run", "dtype"), [(to_float16.run, "float16"), (to_bfloat16.run, "bfloat16")])
def test_what_declares_it_follows_a_narrow_type(run: Pass, dtype: str) -> None:
    b = Builder()
    x = b.input(TensorType((4, 8), "float32"), "x")
    product = b.call("nn.dense", x, b.constant(np.full((3, 8), 0.3, np.float32)))
    graph = b.output(b.call("test.long", b.call("test.short", product)))
    run(graph, CompileOptions(target=AVX2))
    types = {n.op: n.result.dtype for n in graph.nodes}
    assert (types["test.short"], types["test.long"]) == (dtype, "float32")


@pytest.mark.usefixtures("new_operators")
@pytest.mark.parametrize("op", ["test.long", "test.short", "ceil", "greater"])
def test_views_move_below_element_wise_operators(op: str) -> None:
    b = Builder()
    x = b.input(TensorType((4, 8), "float32"), "x")
    view = b.call("reshape", b.call("transpose", x, axes=(1, 0)), newshape=(32,))
    others = [b.constant(np.float32(0.5))] if op == "greater" else []
    graph = b.output(b.call(op, view, *others))
    canonicalize.run(graph, CompileOptions(target=AVX2))
    assert [n.op for n in graph.nodes if n.op != "constant"] == ["transpose", op, "reshape"]
