"""``from_jax``: sizes that stay symbolic, names, and models of flax, equinox and haiku."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import forge
from forge import dims, dims_text, errors
from forge.frontends.stablehlo import register, unregister

jax = pytest.importorskip("jax")

import jax.numpy as jnp  # noqa: E402
from jax import export, lax  # noqa: E402

from tests.frontends.stablehlo.against_jax import assert_close, results  # noqa: E402
from tests.frontends.stablehlo.modules import artifact, texts  # noqa: E402

RNG = np.random.default_rng(0)
FILTER = RNG.standard_normal((3, 3, 2, 4)).astype("float32")


def numbers(*shape: int) -> np.ndarray:
    return RNG.standard_normal(shape).astype("float32")


DYNAMIC = {
    "arithmetic": (lambda x, y: x * y + x.shape[0], "a,4", "a,4"),
    "arange": (lambda x: jnp.arange(x.shape[0]) + x[:, 0], "a,4"),
    "any_body": (lambda x: lax.reduce(x, np.float32(0), lambda a, b: jnp.hypot(a, b), (0,)), "a,4"),
    "argmax": (lambda x: (jnp.argmax(x, 0), jnp.argmax(x)), "a,4"),
    "attention": (lambda q, k: jax.nn.dot_product_attention(q, k, k), "b,s,2,8", "b,t,2,8"),
    "broadcast": (lambda x: jnp.broadcast_to(x[:, None], (x.shape[0], 3, 4)), "a,4"),
    "concatenate": (lambda x, y: jnp.concatenate([x, y], 0), "a,4", "b,4"),
    "convolution": (
        lambda x: lax.conv_general_dilated(x, FILTER, (2, 2), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC")),
        "b,h,w,2",
    ),
    "cumsum": (lambda x: jnp.cumsum(x, 0), "a,4"),
    "diagonal": (lambda x: jnp.tril(jnp.ones((x.shape[0], x.shape[0]))) @ x, "a,4"),
    "dot": (lambda x, y: x @ y.T, "a,4", "b,4"),
    "flatten": (lambda x: x.reshape(x.shape[0], -1), "a,3,4"),
    "flatten_all": (lambda x: x.reshape(-1) * 2, "a,b"),
    "halves": (lambda x: x.reshape(2, -1, 4), "2*a,4"),
    "iota": (lambda x: x + lax.broadcasted_iota("float32", x.shape, 0), "a,4"),
    "loop": (lambda x: lax.fori_loop(0, x.shape[0], lambda i, c: c + x[i], jnp.zeros(4)), "a,4"),
    "mask": (lambda x: jnp.where(jnp.arange(x.shape[0])[:, None] > jnp.arange(x.shape[0])[None], 0.0, x @ x.T), "a,4"),
    "max_pool": (lambda x: lax.reduce_window(x, -np.inf, lax.max, (1, 2, 2, 1), (1, 2, 2, 1), "VALID"), "b,h,w,2"),
    "mean": (lambda x: (x.mean(), x.mean(0), x.var(0)), "a,4"),
    "one_hot": (lambda x: jax.nn.one_hot(jnp.argmax(x, 1), 4), "a,4"),
    "pad": (lambda x: jnp.pad(x, ((1, 2), (0, 0))), "a,4"),
    "repeat": (lambda x: jnp.repeat(x, 2, 0), "a,4"),
    "roll": (lambda x: jnp.roll(x, 1, 0), "a,4"),
    "scan": (lambda x: lax.scan(lambda c, y: (c + y, c * y.sum()), jnp.zeros(4), x), "a,4"),
    "slice": (lambda x: (x[1:], x[:-1], x[::2]), "a,4"),
    "softmax": (jax.nn.softmax, "a,4"),
    "sort": (lambda x: (jnp.sort(x, 0), jnp.argsort(x, 0)), "a,4"),
    "stack": (lambda x: jnp.stack([x, x]), "a,4"),
    "take": (lambda x: x[jnp.array([1, 0])], "a,4"),
    "tile": (lambda x: jnp.tile(x, (2, 1)), "a,4"),
    "top_k": (lambda x: lax.top_k(x, 2), "a,4"),
    "transpose": (lambda x: x.T, "a,4"),
    "update": (lambda x: x.at[0].set(1.0), "a,4"),
    "where": (lambda x: jnp.where(x > x.mean(), x, 0.0), "a,b"),
    "bits": (
        lambda x: (lax.bitcast_convert_type(x, "uint8"), lax.bitcast_convert_type(lax.bitcast_convert_type(x, "int16"), "int32")),
        "a,4"),
    "convolution_gradient": (
        jax.grad(lambda w: (lax.conv_general_dilated(jnp.ones((1, 2, 9)), w, (1,), "SAME") ** 2).sum()), "a,2,3"),
    "cumlogsumexp": (lambda x: (lax.cumlogsumexp(x, 0), lax.cumlogsumexp(x, 0, reverse=True)), "a,4"),
    "no_positions": (lambda x: lax.conv(x, jnp.ones((3, 2, 3)), (1,), "VALID"), "a,2,1"),
    "roll_in_a_loop": (lambda x: lax.fori_loop(0, 3, lambda i, c: jnp.roll(c, 1, 0)[::-1] * 2, x), "a,4"),
    "running_sums_of_windows": (lambda x: lax.cumsum(lax.reduce_window(x, 0.0, lax.add, (2, 1), (3, 1), "SAME"), 0), "a,4"),
    "window_gradient": (
        jax.grad(lambda x: (lax.reduce_window(x, -np.inf, lax.max, (2, 1), (2, 1), "SAME") ** 2).sum()), "a,4"),
    "triangular_solve": (lambda x: lax.linalg.triangular_solve(jnp.eye(4) * 2, x), "a,4"),
    "windows_of_the_same_size": (lambda x: lax.reduce_window(x, -np.inf, lax.max, (2, 1), (2, 1), "SAME"), "a,4"),
    "twice_the_other": (lambda x, y: jnp.concatenate([x, x]) + y, "a,4", "2*a,4"),
}
SIZES = {"a": 6, "b": 3, "h": 9, "w": 8, "s": 5, "t": 7}


@pytest.mark.parametrize(("function", "shapes"), [(f, s) for f, *s in DYNAMIC.values()], ids=list(DYNAMIC))
def test_symbolic_sizes(function: Callable[..., Any], shapes: list[str]) -> None:
    scope = export.SymbolicScope()
    types = [jax.ShapeDtypeStruct(export.symbolic_shape(shape, scope=scope), "float32") for shape in shapes]
    module = forge.from_jax(function, *types)
    for more in (0, 2):
        sizes = {name: size + more for name, size in SIZES.items()}
        inputs = [numbers(*(dims.evaluate(dims_text.parse(d), sizes) for d in shape.split(","))) for shape in shapes]
        expected = [np.asarray(v) for v in jax.tree.leaves(function(*map(jnp.asarray, inputs)))]
        for run in (module.get_inference_function("reference"), module.get_inference_function()):
            for one, other in zip(results(run(*inputs)), expected, strict=True):
                assert_close(one, other, "")


def test_symbols_have_the_names_that_jax_gives() -> None:
    batch, length = export.symbolic_shape("batch, length")
    types = [jax.ShapeDtypeStruct((batch, length, 4), "float32"), jax.ShapeDtypeStruct((batch, length), "float32")]
    module = forge.from_jax(lambda x, y: x * y[..., None], *types)
    text = str(module.typed_mod)
    assert "@main(%x: Tensor[(batch, length, 4), float32], %y: Tensor[(batch, length), float32])" in text
    assert "broadcast_to" not in text


def test_sizes_that_the_model_does_not_allow_are_refused() -> None:
    (size,) = export.symbolic_shape("n", constraints=["n >= 3"])
    run = forge.from_jax(lambda x: x * 2, jax.ShapeDtypeStruct((size,), "float32")).get_inference_function()
    np.testing.assert_array_equal(np.asarray(run(np.ones(3, "float32"))), [2, 2, 2])
    with pytest.raises(Exception, match="n >= 3"):
        run(np.ones(2, "float32"))


def test_names_of_inputs_and_outputs() -> None:
    weights = {"dense": {"kernel": np.ones((4, 2), "float32"), "bias": np.zeros(2, "float32")}}

    def model(params: Any, x: Any, *, scale: Any) -> Any:
        return {"logits": x @ params["dense"]["kernel"] + params["dense"]["bias"], "aux": [x.sum() * scale]}

    module = forge.from_jax(model, weights, np.ones((3, 4), "float32"), scale=np.float32(2))
    assert list(module.input_names) == ["params_dense_bias", "params_dense_kernel", "x", "scale"]
    assert list(module.output_names) == ["aux_0", "logits"]


def test_names_of_what_jax_exported() -> None:
    def model(params: Any, x: Any, *rest: Any, scale: Any) -> Any:
        return (x @ params["w"] * scale).sum() + rest[0]

    scope = export.SymbolicScope()
    for batch in ("3", "batch"):
        x = jax.ShapeDtypeStruct(export.symbolic_shape(f"{batch}, 4", scope=scope), "float32")
        exported = export.export(jax.jit(model))({"w": np.ones((4, 2), "float32")}, x, np.float32(1), scale=np.float32(2))
        text = exported.mlir_module()
        for source in (exported, bytes(exported.serialize()), exported.mlir_module_serialized, text):
            assert list(forge.from_stablehlo(source).input_names) == ["params_w", "x", "rest_0", "scale"]


@pytest.mark.parametrize("location", ['"model.py":3:7', '"jit(f)/add"', "unknown", '"x y"'])
def test_what_is_no_name_of_an_argument(location: str) -> None:
    text = f"func.func @main(%given: tensor<2xf32> loc({location})) -> tensor<2xf32> {{ return %given : tensor<2xf32> }}"
    assert list(forge.from_stablehlo(text).input_names) == ["given"]


def test_names_of_what_jax_exported_by_where_they_are() -> None:
    exported = export.export(jax.jit(lambda params, x: x @ params["w"]))({"w": np.ones((4, 2), "float32")}, np.ones(4, "float32"))
    _, text = texts(exported.mlir_module(), locations=False)
    unnamed = dataclasses.replace(exported, mlir_module_serialized=artifact(text, "1.8.0"))
    for source in (unnamed, bytes(unnamed.serialize())):
        assert list(forge.from_stablehlo(source).input_names) == ["arg0_w", "arg1"]


def test_of_several_platforms_the_cpu_is_taken() -> None:
    function = jax.jit(lambda x: lax.platform_dependent(x, cpu=jnp.sin, default=jnp.cos))
    x = numbers(3)
    exported = export.export(function, platforms=["cuda", "cpu"])(x)
    for source in (exported, bytes(exported.serialize())):
        module = forge.from_stablehlo(source)
        assert list(module.input_names) == ["x"] and "cos(" not in str(module.typed_mod)
        assert_close(results(module.get_inference_function()(x))[0], np.sin(x), "")
    with pytest.raises(errors.ImportModelError, match="it was exported for cuda, rocm; expected cpu"):
        forge.from_stablehlo(export.export(function, platforms=["cuda", "rocm"])(x))


def test_donated_arguments_give_their_memory() -> None:
    function = jax.jit(lambda cache, x: (x.sum(), cache.at[0].set(x)), donate_argnums=0)
    cache, x = numbers(4, 3), numbers(3)
    module = forge.from_stablehlo(function.lower(cache, x))
    assert "donated" in str(module.typed_mod)
    before, expected = cache.copy(), np.concatenate([x[None], cache[1:]])
    run = module.get_inference_function()
    for given in (cache, forge.donate(cache)):
        np.testing.assert_array_equal(cache, before)
        total, changed = results(run(given, x))
        assert_close(total, x.sum(), "")
        assert_close(changed, expected, "")
    np.testing.assert_array_equal(cache, expected)


def test_unused_arguments_stay_inputs() -> None:
    module = forge.from_jax(lambda x, unused: x + 1, np.ones(3, "float32"), np.ones(2, "float32"))
    assert list(module.input_names) == ["x", "unused"]


def test_closed_over_weights_are_constants() -> None:
    weight = numbers(4, 50, 40).reshape(40, 200)
    x = numbers(3, 40)
    module = forge.from_jax(lambda x: x @ weight, x)
    assert list(module.input_names) == ["x"]
    assert_close(results(module.get_inference_function()(x))[0], x @ weight, "")


def test_what_jax_cannot_trace_is_said() -> None:
    with pytest.raises(errors.ImportModelError, match=r"from_jax: <lambda>: jax cannot export it.*TracerBoolConversionError"):
        forge.from_jax(lambda x: x if x > 0 else -x, np.float32(1))
    with pytest.raises(errors.OptionError, match="expected a function"):
        forge.from_jax(3)  # type: ignore[arg-type]


def test_functions_of_python_are_refused_by_name() -> None:
    def prints(x: Any) -> Any:
        jax.debug.print("x = {}", x)
        return x * 2

    with pytest.raises(errors.ImportModelError, match=r"jax cannot export .*it calls Python.*leave out jax\.debug\.print"):
        forge.from_jax(prints, numbers(3))
    with pytest.raises(errors.OpNotImplemented, match=r"python_cpu_callback: 1x.*debug_print.*leave out jax\.debug\.print"):
        forge.from_stablehlo(jax.jit(prints).lower(numbers(3)))


def test_functions_without_examples_are_refused_with_the_way_to_go() -> None:
    with pytest.raises(errors.OptionError, match=r"a function of jax becomes a model by forge\.from_jax\(function, \*examples\)"):
        forge.from_stablehlo(jnp.sin)
    with pytest.raises(errors.OptionError, match=r"a function needs examples of its arguments: forge\.from_jax"):
        forge.load(jnp.sin)


def test_custom_calls_of_ones_own() -> None:
    def scaled(x: Any) -> Any:
        return jax.ffi.ffi_call("acme.scaled", jax.ShapeDtypeStruct(x.shape, x.dtype))(jnp.sin(x), scale=np.float32(3))

    x = numbers(3)
    with pytest.raises(errors.ImportModelError, match=r"(?s)custom calls.*@acme\.scaled.*register a converter: @forge"):
        forge.from_jax(scaled, x)
    register("acme.scaled", lambda g, x, *, scale: g.call("multiply", x, g.scalar(scale, x)), domain="custom_call")
    try:
        for module in (forge.from_jax(scaled, x), forge.from_stablehlo(jax.jit(scaled).lower(x))):
            assert_close(results(module.get_inference_function("reference")(x))[0], 3 * np.sin(x), "")
    finally:
        unregister("acme.scaled", domain="custom_call")


@pytest.mark.parametrize("kind", ["exported", "serialized", "bytecode", "text", "pretty", "lowered", "module", "file"])
def test_forms_of_a_module(kind: str, tmp_path: Any) -> None:
    x = numbers(3, 4)
    function = jax.jit(lambda x: jnp.tanh(x) @ x.T)
    lowered, exported = function.lower(x), export.export(function)(x)
    module = lowered.compiler_ir("stablehlo")
    path = tmp_path / "model.mlirbc"
    path.write_bytes(exported.mlir_module_serialized)
    source = {
        "exported": exported,
        "serialized": bytes(exported.serialize()),
        "bytecode": exported.mlir_module_serialized,
        "text": module.operation.get_asm(print_generic_op_form=True),
        "pretty": lowered.as_text(),
        "lowered": lowered,
        "module": module,
        "file": path,
    }[kind]
    for load in (forge.from_stablehlo, forge.relax.frontend.stablehlo.from_stablehlo):
        assert_close(results(load(source).get_inference_function()(x))[0], np.asarray(function(x)), kind)
    if kind not in ("text", "pretty"):
        assert_close(results(forge.load(source).get_inference_function()(x))[0], np.asarray(function(x)), kind)


def test_input_info_gives_sizes() -> None:
    (size,) = export.symbolic_shape("n")
    exported = export.export(jax.jit(lambda x: x + 1))(jax.ShapeDtypeStruct((size, 4), "float32"))
    for given in ({"x": (3, 4)}, [((3, 4), "float32")]):
        text = str(forge.from_stablehlo(exported, input_info=given).typed_mod)
        assert re.search(r"%\w+: Tensor\[\(3, 4\), float32\]", text)
    with pytest.raises(errors.OptionError, match="the module declares float32"):
        forge.from_stablehlo(exported, input_info=[((3, 4), "int8")])
    with pytest.raises(errors.ImportModelError, match="the model declares 4"):
        forge.from_stablehlo(exported, input_info=[((3, 5), "float32")])


def test_flax() -> None:
    linen = pytest.importorskip("flax.linen")

    class Network(linen.Module):  # type: ignore[name-defined, misc]
        @linen.compact  # type: ignore[untyped-decorator]
        def __call__(self, x: Any) -> Any:
            x = linen.relu(linen.BatchNorm(use_running_average=True)(linen.Conv(8, (3, 3), strides=2)(x)))
            x = linen.max_pool(linen.ConvTranspose(6, (2, 2), strides=(2, 2))(x), (2, 2), (2, 2))
            x = linen.avg_pool(linen.Conv(6, (3, 3), feature_group_count=6)(x), (2, 2))
            x = x.reshape(x.shape[0], -1, 6)
            x = linen.LayerNorm()(x + linen.SelfAttention(2)(x))
            x = linen.RNN(linen.LSTMCell(5))(x)
            return linen.Dense(3)(linen.gelu(linen.GroupNorm(1)(x)).mean(1))

    x = numbers(2, 16, 16, 3)
    network = Network()
    variables = network.init(jax.random.key(0), x)
    module = forge.from_jax(lambda x: network.apply(variables, x), x)
    expected = np.asarray(network.apply(variables, x))
    assert_close(results(module.get_inference_function()(x))[0], expected, "flax")
    (batch,) = export.symbolic_shape("batch")
    dynamic = forge.from_jax(lambda x: network.apply(variables, x), jax.ShapeDtypeStruct((batch, 16, 16, 3), "float32"))
    assert_close(results(dynamic.get_inference_function()(x))[0], expected, "flax")


def test_equinox() -> None:
    equinox = pytest.importorskip("equinox")
    keys = jax.random.split(jax.random.key(0), 4)
    network = equinox.nn.Sequential(
        [
            equinox.nn.Conv2d(3, 4, 3, key=keys[0]),
            equinox.nn.Lambda(jax.nn.silu),
            equinox.nn.AvgPool2d(2, 2),
            equinox.nn.Lambda(jnp.ravel),
            equinox.nn.Linear(100, 7, key=keys[1]),
            equinox.nn.LayerNorm(7),
            equinox.nn.MLP(7, 2, 8, 2, key=keys[2]),
        ]
    )
    x = numbers(3, 12, 12)
    assert_close(results(forge.from_jax(network, x).get_inference_function()(x))[0], np.asarray(network(x)), "equinox")


def test_haiku() -> None:
    haiku = pytest.importorskip("haiku")

    def forward(x: Any) -> Any:
        x = jax.nn.relu(haiku.Conv2D(4, 3)(x))
        x = haiku.Flatten()(haiku.MaxPool(2, 2, "VALID")(x))
        return jax.nn.softmax(haiku.Linear(5)(haiku.LayerNorm(-1, True, True)(haiku.Linear(9)(x))))

    network = haiku.without_apply_rng(haiku.transform(forward))
    x = numbers(2, 8, 8, 3)
    params = network.init(jax.random.key(0), x)
    module = forge.from_jax(network.apply, params, x)
    inputs = [*map(np.asarray, jax.tree.leaves(params)), x]
    assert_close(results(module.get_inference_function()(*inputs))[0], np.asarray(network.apply(params, x)), "haiku")


@pytest.mark.parametrize("reverse", [False, True])
def test_rows_that_a_loop_writes_are_stacked(reverse: bool) -> None:
    def function(x: Any) -> Any:
        x = jnp.asarray(x)
        carry, rows = lax.scan(lambda c, y: (c * 0.5 + y, (c.sum(), y + c)), jnp.zeros(4), x, reverse=reverse)
        return carry, rows, lax.fori_loop(2, 6, lambda i, c: c.at[i].set(x[i] * i), jnp.ones((8, 4)))

    x = numbers(8, 4)
    module = forge.from_jax(function, x)
    assert str(module.typed_mod).count("scan(") == 2 and "loop(" not in str(module.typed_mod)
    for one, other in zip(results(module.get_inference_function()(x)), jax.tree.leaves(function(x)), strict=True):
        assert_close(one, np.asarray(other), "")
