"""The networks of the benchmarks as users of flax write them."""

from benchmarks.jax_networks.images import IMAGES
from benchmarks.jax_networks.sequences import SEQUENCES

NETWORKS = {**IMAGES, **SEQUENCES}
"""By name: of a small variant or not, and a batch -> what the head of `sequences` says."""

__all__ = ["NETWORKS"]
