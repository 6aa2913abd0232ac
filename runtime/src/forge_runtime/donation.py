"""Arrays whose memory a call may take for an output."""

from __future__ import annotations

import numpy as np

from forge_runtime.arrays import Array
from forge_runtime.errors import InputError


class Donated:
    """What `donate` returns: good for one call."""

    __slots__ = ("_array",)

    def __init__(self, array: Array) -> None:
        self._array: Array | None = array

    def array(self, model: str, name: str) -> Array:
        """What is donated.

        Raises:
            InputError: an earlier call has taken it.
        """
        if self._array is None:
            raise InputError(
                f"model '{model}': input '{name}': got a donated array that an earlier call has taken; expected one that is not "
                "spent; donate that call's output"
            )
        return self._array

    def spend(self, model: str, name: str) -> None:
        """A call takes the array.

        Raises:
            InputError: an earlier call has taken it.
        """
        self.array(model, name)
        self._array = None

    def __repr__(self) -> str:
        return f"<donated {'and spent' if self._array is None else f'{self._array.dtype}{list(self._array.shape)}'}>"


def donate(array: Array) -> Donated:
    """Gives the memory of ``array`` to the call that gets the returned object as its input: ``y = run(donate(x))``.

    The output that takes it is ``array`` itself, with new contents; a call that fails leaves undefined contents. Without
    ``donate`` the call works on a copy and ``array`` stays as it is.

    Raises:
        InputError: not a writable, aligned and C-contiguous NumPy array.
    """
    if not isinstance(array, np.ndarray):
        raise InputError(f"donate: got {type(array).__name__}; expected a NumPy array")
    if not (array.flags.c_contiguous and array.flags.writeable and array.flags.aligned):
        raise InputError("donate: the array is not C-contiguous, aligned and writable; pass np.array(array)")
    return Donated(array)
