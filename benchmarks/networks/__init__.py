"""Network architectures of the benchmark, written with plain torch.

Each module has ``full()`` and ``small()``, which return the network in its published size and in a tiny one with the
same operator structure. Weights are left at torch's defaults; `benchmarks.weights` replaces them.
"""
