func.func @main(%a: tensor<2x!quant.uniform<i8:f32, 0.5:-3>>) -> tensor<2x!quant.uniform<u8:f32:0, {0.5:1, 0.25:2}>> {
  %0 = stablehlo.uniform_quantize %a : (tensor<2x!quant.uniform<i8:f32, 0.5:-3>>) -> tensor<2x!quant.uniform<u8:f32:0, {0.5:1, 0.25:2}>>
  return %0 : tensor<2x!quant.uniform<u8:f32:0, {0.5:1, 0.25:2}>>
}
