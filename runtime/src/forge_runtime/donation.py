"""Arrays whose memory a call may take for an output."""

from __future__ import annotations

from typing import Any

import numpy as np

from forge_runtime.errors import InputError


class Donated:
    """What `donate` returns: good for one call."""

    __slots__ = ("_array",)

    def __init__(self, array: Any) -> None:
        self._array = array

    def array(self, model: str, name: str) -> Any:
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
        if self._array is None:
            return "<donated and spent>"
        return f"<donated {self._array.dtype}{list(self._array.shape)}>"


def donate(array: Any) -> Donated:
    """Gives the memory of ``array`` to the call that gets the returned object as its input: ``y = run(donate(x))``.

    The output that takes it is ``array`` itself, with new contents; a call that fails leaves undefined contents. Without
    ``donate`` the call works on a copy and ``array`` stays as it is.

    Args:
        array: writable, aligned and C-contiguous: a NumPy array, or a tensor of torch, which the call checks.

    Raises:
        InputError: no such array.
    """
    if not isinstance(array, np.ndarray):
        if not hasattr(type(array), "__dlpack__"):
            raise InputError(f"donate: got {type(array).__name__}; expected a NumPy array or an object with __dlpack__")
    elif not (array.flags.c_contiguous and array.flags.writeable and array.flags.aligned):
        raise InputError("donate: the array is not C-contiguous, aligned and writable; pass np.array(array)")
    return Donated(array)
