"""TorchScript, traced or scripted: modules that `torch.export` takes. Imported when a model is of this kind."""

from forge.frontends.torch.script.signature import inputs, sizes
from forge.frontends.torch.script.traces import Replayed

__all__ = ["Replayed", "inputs", "sizes"]
