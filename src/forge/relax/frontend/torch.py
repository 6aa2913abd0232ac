"""The loaders of PyTorch models in the calling forms of Relax."""

from forge.relax import detach_params, from_exported_program, from_fx

__all__ = ["detach_params", "from_exported_program", "from_fx"]
