"""The networks of the benchmarks as users of jax write them, in flax."""
