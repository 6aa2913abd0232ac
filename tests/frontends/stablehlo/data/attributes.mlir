module {
  func.func @main(%a: tensor<2xf32> {one.a = -1 : i8, one.b = 200 : ui8, one.c = 1 : i64, one.d = 18446744073709551615 : ui64})
      -> (tensor<2xf32> {two.a = 1.5 : f32, two.b = -2.0 : bf16, two.c = 0x7FF0000000000000 : f64, two.d = true}) {
    %0 = stablehlo.custom_call @"a b"(%a) {
      backend_config = "\00\FFx", three.a = unit, three.b = [1 : i32, "x", [2.5 : f16]],
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
