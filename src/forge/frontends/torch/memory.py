"""Tensors that share memory: what in-place operators write is seen through all views.

The graph is pure, so a write makes a new value. A view remembers how it is computed from what it is a view of, and how a value
of the view is put back there; both are asked for only where something was written.
"""

from __future__ import annotations

from collections.abc import Callable

from forge.errors import OpAttributeUnimplemented
from forge.ir.nodes import Value

Remake = Callable[[Value], Value]
PutBack = Callable[[Value, Value], Value]


class Cell:
    """The current value of a tensor.

    A cell with a ``base`` is a view of it; without ``remake`` and ``put_back`` it may be one, or a copy, as strides say that are
    not known. What then depends on it is refused. Elements of one that ``overlaps`` may share a place.
    """

    def __init__(
        self, value: Value, base: Cell | None = None, remake: Remake | None = None, put_back: PutBack | None = None,
        *, overlaps: bool = False,
    ) -> None:
        self._value = value
        self._base = base
        self._remake = remake
        self._put_back = put_back
        self._overlaps = overlaps
        self._version = 0
        self._seen = base.version if base is not None else 0
        self._doubt = ""

    @property
    def version(self) -> int:
        """Grows with every write to the memory."""
        return self._version if self._base is None else self._base.version

    @property
    def root(self) -> Cell:
        """The tensor that was made with the memory."""
        return self if self._base is None else self._base.root

    @property
    def may_overlap(self) -> bool:
        """Whether it is part of a view of which elements may share a place."""
        return self._overlaps or self._base is not None and self._base.may_overlap

    def read(self) -> Value:
        """Raises OpAttributeUnimplemented: whether a write is seen here depends on strides."""
        if self._doubt:
            raise OpAttributeUnimplemented(self._doubt)
        if self._base is not None and self._seen != self._base.version:
            if self._remake is None:
                raise OpAttributeUnimplemented(_DOUBT)
            self._value = self._remake(self._base.read())
            self._seen = self._base.version
        return self._value

    def write(self, value: Value) -> None:
        """Replaces the value, and that of all that shares its memory."""
        if self._base is None:
            self._version += 1
        elif self._put_back is None:
            self._base.doubt()
            self._base = None
        else:
            self._base.write(self._put_back(self._base.read(), value))
            self._seen = self._base.version
            if self._overlaps and self._remake is not None:
                value = self._remake(self._base.read())
        self._value = value

    def doubt(self) -> None:
        """From now on, reads are refused."""
        self._version += 1
        self._doubt = _DOUBT
        if self._base is not None:
            self._base.doubt()


_DOUBT = (
    "it reads a tensor after an in-place operator wrote to another that may share its memory, or not, as strides say; "
    "supported: writes through views that always share it; export the model with run_decompositions()"
)
