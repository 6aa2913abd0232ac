module @m {
  sdy.mesh @mesh = <["x"=2]>
  func.func @main(%a: tensor<2xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}]>}) -> tensor<2xf32> {
    %0 = sdy.sharding_constraint %a <@mesh, [{}]> : tensor<2xf32>
    %1 = stablehlo.constant dense_resource<big> : tensor<2xf32>
    %2 = stablehlo.add %0, %1 : tensor<2xf32>
    return %2 : tensor<2xf32>
  }
}
{-# dialect_resources: { builtin: { small: "0x0100000007", big: "0x080000000000803F00000040" } } #-}
