"""Modules of jaxlib: text of each form, and portable artifacts of each version."""

from __future__ import annotations

from jax._src.interpreters.mlir import make_ir_context
from jaxlib.mlir import ir
from jaxlib.mlir.dialects import stablehlo

RESOURCES = """module @m {
  sdy.mesh @mesh = <["x"=2]>
  func.func @main(%a: tensor<2xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}]>}) -> tensor<2xf32> {
    %0 = sdy.sharding_constraint %a <@mesh, [{}]> : tensor<2xf32>
    %1 = stablehlo.constant dense_resource<big> : tensor<2xf32>
    %2 = stablehlo.add %0, %1 : tensor<2xf32>
    return %2 : tensor<2xf32>
  }
}
{-# dialect_resources: { builtin: { small: "0x0100000007", big: "0x080000000000803F00000040" } } #-}
"""
"""A module with resources, and with operations of Shardy."""


def texts(text: str, locations: bool = True) -> tuple[str, str]:
    """A module as text, in the generic form and in that of the dialects."""
    with make_ir_context():
        operation = ir.Module.parse(text).operation
        return (operation.get_asm(print_generic_op_form=True, enable_debug_info=locations),
                operation.get_asm(enable_debug_info=locations))


def artifact(text: str, version: str) -> bytes:
    """A module as a portable artifact. Raises ValueError if it has what the version did not know."""
    with make_ir_context():
        found: bytes = stablehlo.serialize_portable_artifact(ir.Module.parse(text), version, allow_other_dialects=True)
        return found


def text_of(data: bytes) -> str:
    """The text of a portable artifact, in the generic form, with locations."""
    with make_ir_context():
        module = stablehlo.deserialize_portable_artifact(ir.Context.current, data)
        found: str = module.operation.get_asm(print_generic_op_form=True, enable_debug_info=True)
        return found
