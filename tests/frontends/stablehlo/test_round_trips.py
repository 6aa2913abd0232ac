"""Text in both forms, and bytecode, of the same functions of jax give the same module."""

from __future__ import annotations

import pytest

pytest.importorskip("jax")

import jax

from forge.errors import ImportModelError
from forge.frontends.stablehlo.bytecode import read_bytecode
from forge.frontends.stablehlo.exported import read_exported
from forge.frontends.stablehlo.text import read_text
from tests.frontends.stablehlo.comparison import difference
from tests.frontends.stablehlo.functions import CASES, NAMES, arguments, exported
from tests.frontends.stablehlo.modules import RESOURCES, artifact, text_of, texts

VERSIONS = (
    "0.9.0 0.10.0 0.11.0 0.12.0 0.13.0 0.14.0 0.15.0 0.16.0 0.17.0 0.18.0 0.19.0 0.20.0 1.0.0 1.1.0 1.2.0 1.3.0 1.4.0 "
    "1.5.0 1.6.0 1.7.0 1.8.0 1.9.0 1.10.0 1.11.0 1.12.0 1.13.0 1.14.0 1.15.0 1.16.0 1.17.0").split()
OF_OLD_VERSIONS = (
    "nested conv_dilated scatter_add reduce_two sort_keys symbolic_pad special_floats bool_constant bool_short complex_constant "
    "cholesky dot_general fft switch gather select_and_scatter rng_bit_generator symbolic_conv triangular_solve").split()


@pytest.mark.sampled(4)
@pytest.mark.parametrize("name", NAMES)
def test_forms_of_an_exported_function_are_the_same_module(name: str) -> None:
    function = exported(name)
    generic, pretty = texts(function.mlir_module())
    expected = read_text(generic, name)
    assert difference(expected, read_text(pretty, name), locations=True) == ""
    assert difference(expected, read_bytecode(function.mlir_module_serialized, name)) == ""
    assert difference(expected, read_exported(bytes(function.serialize()), name).module) == ""


@pytest.mark.sampled(4)
@pytest.mark.parametrize("name", sorted(CASES))
def test_forms_of_a_lowered_function_are_the_same_module(name: str) -> None:
    """Before it is exported, with operations of CHLO, and with locations."""
    function, _ = CASES[name]
    operation = jax.jit(function).lower(*arguments(name)).compiler_ir().operation
    generic = read_text(operation.get_asm(print_generic_op_form=True, enable_debug_info=True), name)
    assert difference(generic, read_text(operation.get_asm(enable_debug_info=True), name), locations=True) == ""
    assert any(inner.location for inner in generic.operations()) or name == "no_arguments"


@pytest.mark.sampled(6)
@pytest.mark.parametrize("version", VERSIONS)
def test_artifacts_of_each_version_are_the_same_module(version: str) -> None:
    for name in OF_OLD_VERSIONS:
        data = artifact(exported(name).mlir_module(), version)
        found = read_bytecode(data, name)
        assert found.version == tuple(int(part) for part in version.split("."))
        assert difference(read_text(text_of(data), name), found, locations=True) == "", name


def test_artifacts_with_resources_and_other_dialects_are_the_same_module() -> None:
    found = read_bytecode(artifact(RESOURCES, "1.17.0"), "test")
    assert difference(read_text(RESOURCES, "test"), found) == ""
    (constant,) = (operation for operation in found.operations() if operation.name == "stablehlo.constant")
    assert constant.attributes["value"].tolist() == [1, 2]


def test_attributes_that_refer_to_one_another_do_not_explode() -> None:
    aliases = "\n".join(f"#a{i} = [#a{i - 1}, #a{i - 1}]" for i in range(1, 19))
    function = "func.func @f() { stablehlo.custom_call @g() {x = #a18} : () -> ()\n return }"
    data = artifact(f"#a0 = [1]\n{aliases}\n{function}", "1.17.0")
    assert len(data) < 1000
    with pytest.raises(ImportModelError, match="test: an attribute or type has more than 262144 parts"):
        read_bytecode(data, "test")


def test_artifacts_say_which_arguments_a_function_takes() -> None:
    def network(params: dict[str, jax.Array], x: jax.Array, *, scale: jax.Array) -> dict[str, jax.Array]:
        return {"y": x @ params["w"] * scale}

    lowered = jax.export.export(jax.jit(network), platforms=["cpu"])
    size = jax.export.symbolic_shape("b, 2")
    found = read_exported(bytes(lowered(
        {"unused": jax.ShapeDtypeStruct((), "int8"), "w": jax.ShapeDtypeStruct((2, 3), "float32")},
        jax.ShapeDtypeStruct(size, "float32"), scale=jax.ShapeDtypeStruct((), "float32")).serialize()), "network")
    assert [(entry.name, entry.shape, entry.dtype) for entry in found.inputs] == [
        ("args[0]['unused']", (), "int8"), ("args[0]['w']", (2, 3), "float32"), ("args[1]", ("b", 2), "float32"),
        ("scale", (), "float32")]
    assert [(entry.name, entry.shape) for entry in found.results] == [("result['y']", ("b", 3))]
    assert found.kept == (0, 1, 2, 3) and found.platforms == ("cpu",) and found.devices == 1
