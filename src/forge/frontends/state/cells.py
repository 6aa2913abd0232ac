"""Tensors that share memory: what is written to one is seen through all views.

The graph is pure, so a write makes a new value. A view remembers how it is computed from what it is a view of, and how a value
of the view is put back there; both are asked for only where something was written.
"""

from __future__ import annotations

from collections.abc import Callable

from forge.errors import OpAttributeUnimplemented
from forge.ir.nodes import Value

Remake = Callable[[Value], Value]
PutBack = Callable[[Value, Value], Value]
UNSURE = (
    "it reads a tensor after a write to another that may share its memory, or not; supported: writes through views that always "
    "share it; copy the tensor before")


class Cell:
    """The current value of a tensor: a variable, a buffer, a resource, or what a program computes.

    A cell with a ``base`` is a view of it; without ``remake`` and ``put_back`` it may be one, or a copy. What depends on that is
    refused, with the message ``unsure``. Elements of one that ``overlaps`` may share a place.
    """

    def __init__(
        self, value: Value, base: Cell | None = None, remake: Remake | None = None, put_back: PutBack | None = None,
        *, overlaps: bool = False, unsure: str = UNSURE,
    ) -> None:
        self._value = value
        self._base = base
        self._remake = remake
        self._put_back = put_back
        self._overlaps = overlaps
        self._unsure = unsure
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
        """Raises OpAttributeUnimplemented: it is not known whether a write is seen here."""
        if self._doubt:
            raise OpAttributeUnimplemented(self._doubt)
        if self._base is not None and self._seen != self._base.version:
            if self._remake is None:
                raise OpAttributeUnimplemented(self._unsure)
            self._value = self._remake(self._base.read())
            self._seen = self._base.version
        return self._value

    def write(self, value: Value) -> None:
        """Replaces the value, and that of all that shares its memory."""
        if self._base is None:
            self._version += 1
        elif self._put_back is None:
            self._base.doubt(self._unsure)
            self._base = None
        else:
            self._base.write(self._put_back(self._base.read(), value))
            self._seen = self._base.version
            if self._overlaps and self._remake is not None:
                value = self._remake(self._base.read())
        self._value = value

    def doubt(self, reason: str) -> None:
        """From now on, reads are refused."""
        self._version += 1
        self._doubt = reason
        if self._base is not None:
            self._base.doubt(reason)
