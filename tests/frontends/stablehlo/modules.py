"""Modules of jaxlib: text of each form, and portable artifacts of each version."""

from __future__ import annotations

import io

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
ATTRIBUTES = """module {
  func.func @main(%a: tensor<2xf32> {one.a = -1 : i8, one.b = 200 : ui8, one.c = 1 : i64, one.d = 18446744073709551615 : ui64})
      -> (tensor<2xf32> {two.a = 1.5 : f32, two.b = -2.0 : bf16, two.c = 0x7FF0000000000000 : f64, two.d = true}) {
    %0 = stablehlo.custom_call @"a b"(%a) {
      backend_config = "\\00\\FFx", three.a = unit, three.b = [1 : i32, "x", [2.5 : f16]],
      three.c = {x = 7 : i4, y = tensor<2x?xi1>},
      three.d = dense<[[true], [false]]> : tensor<2x1xi1>, three.e = dense<(1.0, -2.0)> : tensor<3xcomplex<f32>>,
      three.f = tuple<tensor<f32>, !stablehlo.token>} : (tensor<2xf32>) -> tensor<2xf32>
    %1 = "stablehlo.all_reduce"(%0) <{
      channel_handle = #stablehlo.channel_handle<handle = 1, type = 0>, replica_groups = dense<[[0, 1]]> : tensor<1x2xi64>,
      use_global_device_ids}> ({
    ^bb0(%b: tensor<f32>, %c: tensor<f32>):
      %2 = stablehlo.add %b, %c : tensor<f32>
      stablehlo.return %2 : tensor<f32>
    }) : (tensor<2xf32>) -> tensor<2xf32>
    return %1 : tensor<2xf32>
  }
}
"""
"""A module with attributes of all kinds."""
QUANTIZED = """func.func @main(%a: tensor<2xONE>) -> tensor<2xOTHER> {
  %0 = stablehlo.uniform_quantize %a : (tensor<2xONE>) -> tensor<2xOTHER>
  return %0 : tensor<2xOTHER>
}
""".replace("ONE", "!quant.uniform<i8:f32, 0.5:-3>").replace("OTHER", "!quant.uniform<u8:f32:0, {0.5:1, 0.25:2}>")
QUANTIZED_VHLO = """module {
  "vhlo.func_v1"() <{
    arg_attrs = #vhlo.array_v1<[]>,
    function_type = #vhlo.type_v1<!vhlo.func_v1<(!vhlo.tensor_v1<2xONE>) -> !vhlo.tensor_v1<2xOTHER>>>,
    res_attrs = #vhlo.array_v1<[]>, sym_name = #vhlo.string_v1<"main">, sym_visibility = #vhlo.string_v1<"">}> ({
  ^bb0(%a: !vhlo.tensor_v1<2xONE>):
    %0 = "vhlo.uniform_quantize_v1"(%a) : (!vhlo.tensor_v1<2xONE>) -> !vhlo.tensor_v1<2xOTHER>
    "vhlo.return_v1"(%0) : (!vhlo.tensor_v1<2xOTHER>) -> ()
  }) : () -> ()
}
""".replace("ONE", "!vhlo.quant_v1<!vhlo.i8_v1:!vhlo.f32_v1, 5.000000e-01:-3, -128:127, 1>").replace(
    "OTHER", "!vhlo.quant_per_axis_v1<!vhlo.ui8_v1:!vhlo.f32_v1, 0, [5.000000e-01, 2.500000e-01], [1, 2], 0:255, 0>")
"""A module with quantized types, which jaxlib knows in VHLO alone."""


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


def bytecode(text: str) -> bytes:
    """A module of VHLO as bytecode."""
    with make_ir_context():
        written = io.BytesIO()
        ir.Module.parse(text).operation.write_bytecode(written, 6)
        return written.getvalue()


def text_of(data: bytes) -> str:
    """The text of a portable artifact, in the generic form, with locations."""
    with make_ir_context():
        module = stablehlo.deserialize_portable_artifact(ir.Context.current, data)
        found: str = module.operation.get_asm(print_generic_op_form=True, enable_debug_info=True)
        return found
