module @jit__lambda attributes {jax.uses_shape_polymorphism = false, mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 1 : i32} {
  func.func public @main(%arg0: tensor<2xf32>) -> (tensor<2xcomplex<f32>> {jax.result_info = "result"}) {
    %cst = stablehlo.constant dense<[(1.000000e+00,2.000000e+00), (3.000000e+00,-1.000000e+00)]> : tensor<2xcomplex<f32>>
    %0 = stablehlo.convert %arg0 : (tensor<2xf32>) -> tensor<2xcomplex<f32>>
    %1 = stablehlo.add %0, %cst : tensor<2xcomplex<f32>>
    return %1 : tensor<2xcomplex<f32>>
  }
}
