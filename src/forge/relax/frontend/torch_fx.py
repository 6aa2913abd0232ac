"""The loader of ``torch.fx`` graphs, where older programs for Relax import it from."""

from forge.relax import from_fx

__all__ = ["from_fx"]
