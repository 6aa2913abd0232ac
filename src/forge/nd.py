"""Arrays by the names of seed systems: ``forge.nd.array(x)`` in, ``result.asnumpy()`` out. Otherwise they are NumPy arrays."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from forge import dtypes
from forge.errors import OptionError
from forge_runtime import Tensor
from forge_runtime.arrays import as_array


@dataclass(frozen=True)
class Device:
    """Where a model runs. Forge runs models on the CPU of this machine, which is number 0."""

    kind: str
    index: int = 0

    def __str__(self) -> str:
        return f"{self.kind}({self.index})"


def cpu(index: int = 0) -> Device:
    """The CPU."""
    return Device("cpu", index)


def check_device(where: str, device: Device | None) -> None:
    """Raises OptionError unless ``device`` is None or ``cpu(0)``."""
    if device is not None and device != cpu(0):
        raise OptionError(f"{where}: device: got {device}; expected forge.cpu(0); models run on this machine's CPU")


class NDArray(Tensor):
    """A NumPy array with two more methods, which other libraries can take over by DLPack."""

    def numpy(self) -> np.ndarray:
        """A plain NumPy array of its own."""
        return np.array(self)

    def asnumpy(self) -> np.ndarray:
        """As ``numpy``."""
        return self.numpy()


def array(source: Any, device: Device | None = None) -> NDArray:
    """A copy of ``source``, of the element type that it has, or that NumPy gives it.

    Raises:
        InputError: a tensor of another library that is not in memory of the CPU, or requires gradients.
        OptionError: Forge has no such element type, or the device is another than ``cpu(0)``.
    """
    check_device("nd.array", device)
    copied = np.array(as_array(source, "nd.array") if hasattr(source, "__dlpack__") else source)
    try:
        dtypes.canonical(copied.dtype)
    except TypeError as error:
        raise OptionError(f"nd.array: {error}; convert it with astype") from error
    return copied.view(NDArray)


def viewed(values: Any) -> Any:
    """``values`` with arrays viewed as ``NDArray``, in lists too; anything else is unchanged."""
    if isinstance(values, np.ndarray):
        return values.view(NDArray)
    return [viewed(value) for value in values] if isinstance(values, list) else values


__all__ = ["Device", "NDArray", "array", "check_device", "cpu", "viewed"]
