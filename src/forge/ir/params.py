"""Values of a module's inputs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from forge.ir.arrays import checked, taken_over

Check = Callable[[str, np.ndarray], None]


class Params(dict[str, np.ndarray]):
    """Read-only arrays by name of input; ``params[name] = array`` changes a weight.

    An assigned array is checked, and copied if its memory is writable, so that later writes to it change nothing here.

    Args:
        values: the initial arrays; not checked against the inputs, not copied.
        check: raises InvalidGraphError where an array does not fit the input of that name.
    """

    def __init__(self, values: Mapping[str, np.ndarray], check: Check) -> None:
        super().__init__({name: checked(array, f"params: {name!r}") for name, array in values.items()})
        self._check = check

    def __setitem__(self, name: str, value: Any) -> None:
        array = taken_over(value, f"params: {name!r}")
        self._check(name, array)
        super().__setitem__(name, array)

    def update(self, *values: Any, **named: Any) -> None:
        for name, value in dict(*values, **named).items():
            self[name] = value

    def setdefault(self, name: str, default: Any = None) -> np.ndarray:
        if name not in self:
            self[name] = default
        return self[name]

    def __ior__(self, values: Any) -> Params:  # type: ignore[override,misc]
        self.update(values)
        return self

    def __reduce__(self) -> tuple[Any, ...]:
        """Copies and pickles are plain dictionaries."""
        return dict, (dict(self),)
