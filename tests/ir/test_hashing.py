"""Structural hash and fingerprint: what counts, and that every process agrees."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Sequence
from itertools import permutations

import numpy as np
import pytest

from forge import dims
from forge.ir import Builder, Graph, Module, TensorType
from forge.ir.parser import parse_module
from forge.ir.saved import hashing
from forge.ir.saved.hashing import fingerprint, structural_hash
from tests.ir.random_modules import special_array

TEXT = """
def @main(%x: Tensor[(n, 4), float32], %w: Tensor[(4), float32]) {
  %0 = add(%x, meta[relay.Constant][0]);
  %1 = nn.leaky_relu(%0, alpha=0.1f);
  %2 = take(%1, meta[relay.Constant][1], axis=1);
  %3 = if(True, %2) { then_branch = fn (%a: Tensor[(n, 2), float32]) { exp(%a) },
                      else_branch = fn (%a: Tensor[(n, 2), float32]) { %a } };
  %4 = @f(%3);
  (add(%4, 2f), argwhere(%x))
}
def @f(%v: Tensor[(k, 2), float32]) { multiply(%v, %v) }
"""


def arrays() -> list[np.ndarray]:
    return [np.arange(4, dtype=np.float32), np.array([0, 2])]


def example(text: str = TEXT, constants: list[np.ndarray] | None = None) -> Module:
    module = parse_module(text, arrays() if constants is None else constants)
    module.params["w"] = np.ones(4, np.float32)
    return module


def rename_inside(module: Module) -> None:
    """All names but those of the model's inputs and outputs."""
    for name, graph in module.graphs.items():
        for value in graph.inputs if name != "main" else ():
            value.name += "_new"
        for node in graph.nodes:
            node.name, node.location = "new", "file.py:3"
            for value in node.results:
                value.name = value.name if value in module.main.outputs else "new"


def rename_input(module: Module) -> None:
    module.main.inputs[0].name = "new"


def rename_weight(module: Module) -> None:
    module.main.inputs[1].name = "new"
    module.params = {"new": module.params["w"]}


def rename_output(module: Module) -> None:
    module.main.outputs[1].name = "new"


def exchange_names(module: Module) -> None:
    """The model is another one for who calls it by name."""
    x, w = module.main.inputs
    x.name, w.name = w.name, x.name
    module.params = {"x": module.params["w"]}


def share_constants(module: Module) -> None:
    """Two nodes with the same contents instead of one, and one that nothing uses."""
    builder = Builder(module.main, before=module.main.nodes[0])
    first = module.main.find("constant")
    module.main.find("add").set_operand(1, builder.constant(first.attrs.value.copy()))
    builder.constant(7)


def rename_symbols(module: Module) -> None:
    from forge.ir.retype import substitute_in_graph

    substitute_in_graph(module.main, {"n": dims.symbol("batch")})


NAMES = [rename_input, rename_weight, rename_output, exchange_names, rename_symbols]


@pytest.mark.parametrize("change", NAMES, ids=lambda f: f.__name__)
def test_names_that_users_see_count_for_the_fingerprint_only(change: Callable[[Module], None]) -> None:
    module = example()
    before = structural_hash(module), fingerprint(module)
    change(module)
    assert structural_hash(module) == before[0] and fingerprint(module) != before[1]


def test_the_order_of_params_does_not_count() -> None:
    prints = []
    for order in (("w", "b"), ("b", "w")):
        module = example()
        module.main.add_input(TensorType((), "bool"), "b")
        values = {"w": np.ones(4, np.float32), "b": np.array(True)}
        module.params = {name: values[name] for name in order}
        prints.append(fingerprint(module))
    assert prints[0] == prints[1]


@pytest.mark.parametrize("change", [rename_inside, share_constants], ids=lambda f: f.__name__)
def test_what_does_not_count(change: Callable[[Module], None]) -> None:
    module = example()
    before = structural_hash(module), fingerprint(module)
    change(module)
    assert (structural_hash(module), fingerprint(module)) == before


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("alpha=0.1f", "alpha=0.2f"), ("exp(%a)", "abs(%a)"), ("(add(%4, 2f), argwhere(%x))", "(add(2f, %4), argwhere(%x))"),
        ("True", "False"), ("%w: Tensor[(4), float32]", "%w: Tensor[(n), float32]"),
        ("@f", "@g"), ("multiply(%v, %v)", "add(%v, %v)"), ("(add(%4, 2f), argwhere(%x))", "(argwhere(%x), add(%4, 2f))"),
        ("%w: Tensor[(4), float32]", "%w: Tensor[(4), float32], level=1"),
        ("%w: Tensor[(4), float32]", "%w: Tensor[(4), float32], %e: bool"),
    ],
)  # fmt: skip
def test_structure_attributes_and_steering_scalars_count(old: str, new: str) -> None:
    changed = example(TEXT.replace(old, new))
    assert structural_hash(changed) != structural_hash(example())
    assert fingerprint(changed) != fingerprint(example())


def test_contents_of_float_tensors_count_for_the_fingerprint_only() -> None:
    changed = example(constants=[arrays()[0] + 1, arrays()[1]])
    assert structural_hash(changed) == structural_hash(example())
    assert fingerprint(changed) != fingerprint(example())


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16", "float64", "complex64"])
def test_trained_scalars_count_for_the_fingerprint_only(dtype: str) -> None:
    modules = []
    for scale in (0.5, 0.7):
        module = Module(Graph())
        builder = Builder(module.main)
        x = builder.input(TensorType((3,), dtype), "x")
        module.main.outputs = [builder.call("multiply", x, builder.constant(scale, dtype))]
        modules.append(module)
    assert structural_hash(modules[0]) == structural_hash(modules[1])
    assert fingerprint(modules[0]) != fingerprint(modules[1])


@pytest.mark.parametrize("dtype", ["int64", "int32", "uint8", "bool"])
def test_scalars_that_steer_count(dtype: str) -> None:
    hashes = set()
    for value in (0, 1):
        module = Module(Graph())
        module.main.outputs = [Builder(module.main).constant(value, dtype)]
        hashes.add(structural_hash(module))
    assert len(hashes) == 2


def test_contents_of_params_count_for_the_fingerprint_only() -> None:
    changed = example()
    changed.params["w"] = np.zeros(4, np.float32)
    assert structural_hash(changed) == structural_hash(example())
    assert fingerprint(changed) != fingerprint(example())


@pytest.mark.parametrize("dtype", ["int64", "int4", "uint8", "bool", "string"])
def test_contents_of_other_tensors_count(dtype: str) -> None:
    def with_constant(seed: int) -> Module:
        module = Module(Graph())
        module.main.outputs = [Builder(module.main).constant(special_array(dtype, (9,), seed))]
        return module

    assert structural_hash(with_constant(1)) != structural_hash(with_constant(2))
    assert structural_hash(with_constant(1)) == structural_hash(with_constant(1))


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float8_e4m3fn", "complex64"])
def test_shape_and_dtype_of_weights_count(dtype: str) -> None:
    def with_constant(shape: tuple[int, ...], kind: str) -> Module:
        module = Module(Graph())
        module.main.outputs = [Builder(module.main).constant(np.zeros(shape), kind)]
        return module

    hashes = {structural_hash(with_constant(s, d)) for s in ((4,), (2, 2), (1,)) for d in (dtype, "float64")}
    assert len(hashes) == 6


def test_both_zeros_differ_in_the_fingerprint() -> None:
    fingerprints = set()
    for zero in (0.0, -0.0):
        module = Module(Graph())
        module.main.outputs = [Builder(module.main).constant(np.array([zero]))]
        fingerprints.add(fingerprint(module))
    assert len(fingerprints) == 2


def test_memory_layout_does_not_count() -> None:
    fingerprints = set()
    for array in (
        np.arange(6.0).reshape(2, 3),
        np.asfortranarray(np.arange(6.0).reshape(2, 3)),
        np.arange(6.0).astype(">f8").reshape(2, 3),
    ):
        module = Module(Graph())
        module.main.outputs = [Builder(module.main).constant(array)]
        fingerprints.add(fingerprint(module))
    assert len(fingerprints) == 1


def test_memory_layout_of_large_arrays_does_not_count(monkeypatch: pytest.MonkeyPatch) -> None:
    """Larger than what is copied at once, in rows and in columns."""
    monkeypatch.setattr(hashing, "_MAX_COPIED", 1 << 14)
    array = np.random.default_rng(0).standard_normal((5, 3, 1300))
    stored = np.zeros((5, 3, 2600))
    stored[..., ::2] = array
    same = [stored[..., ::2], np.ascontiguousarray(array[::-1])[::-1], *(_in_order(array, p) for p in permutations(range(3)))]
    assert {hashing._array_digest(a) for a in same} == {hashing._array_digest(array)}
    assert hashing._array_digest(np.asfortranarray(array)) != hashing._array_digest(np.asfortranarray(array[:, ::-1]))


def _in_order(array: np.ndarray, order: Sequence[int]) -> np.ndarray:
    """Equal to ``array``, with its axes in another order in memory."""
    return np.ascontiguousarray(array.transpose(order)).transpose(np.argsort(order))


def test_fresh_symbols_do_not_count() -> None:
    """A module that was built twice in a process has other names for the sizes of data-dependent results."""
    modules = []
    for _ in range(2):
        module = Module(Graph())
        builder = Builder(module.main)
        x = builder.input(TensorType((3,), "float32"), "x")
        module.main.outputs = [
            builder.call(
                "argwhere", builder.call("take", x, builder.call("reshape", builder.call("argwhere", x), newshape=(-1,)))
            )
        ]
        modules.append(module)
    assert str(modules[0]) != str(modules[1])
    assert structural_hash(modules[0]) == structural_hash(modules[1])
    assert fingerprint(modules[0]) == fingerprint(modules[1])


def test_every_process_agrees() -> None:
    code = (
        "from tests.ir.test_hashing import example, structural_hash, fingerprint\n"
        "import forge\nfrom forge import dims\ndims.fresh()\n"
        "m = example()\nprint(structural_hash(m), fingerprint(m), hash(forge.IRModule(m)))"
    )
    printed = set()
    for seed in ("0", "1", "31337"):
        environment = {**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": os.pathsep.join(["src", "runtime/src", "."])}
        printed.add(
            subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, env=environment).stdout
        )
    (line,) = printed
    assert line.split()[:2] == [str(structural_hash(example())), fingerprint(example())]


def test_form() -> None:
    assert 0 < structural_hash(example()) < 1 << 56
    assert len(fingerprint(example())) == 32
    assert int(fingerprint(example()), 16) > 0


def test_the_order_of_independent_nodes_does_not_count() -> None:
    first, second = "%0 = tanh(%x)", "%1 = exp(%x)"
    both = [f"def @main(%x: float32) {{ {a}; {b}; add(%0, %1) }}" for a, b in ((first, second), (second, first))]
    modules = [parse_module(text) for text in both]
    assert fingerprint(modules[0]) == fingerprint(modules[1]) and structural_hash(modules[0]) == structural_hash(modules[1])
    other = parse_module(f"def @main(%x: float32) {{ {first}; {second}; add(%1, %0) }}")
    assert fingerprint(other) != fingerprint(modules[0])
