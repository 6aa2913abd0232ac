"""The loader of StableHLO modules in the calling form of Relax."""

from forge.loaders import loader

from_stablehlo = loader("stablehlo")

__all__ = ["from_stablehlo"]
