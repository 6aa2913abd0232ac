"""The list that a graph keeps its nodes in."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, overload

from forge.errors import InvalidGraphError

if TYPE_CHECKING:
    from forge.ir.nodes import Node


class Link:
    """A place in a list of nodes. That of a node which was removed keeps its neighbours of then, and holds no node."""

    __slots__ = ("next", "node", "previous")

    def __init__(self, node: Node | None) -> None:
        self.node = node
        self.previous = self.next = self


class Nodes(Sequence["Node"]):
    """The nodes of a graph in order, as a linked list: insertion and removal take constant time; access by index does not.

    The list may change during a loop over it, in either direction. The loop sees nodes that are inserted ahead of where it is,
    and none that are inserted in its back or removed before their turn. Where its own node is removed or moved, it goes on
    with the one that came next.
    """

    __slots__ = ("_end", "_size")

    def __init__(self) -> None:
        self._end = Link(None)  # between the last node and the first
        self._size = 0

    def insert(self, node: Node, before: Node | None = None) -> None:
        """Puts ``node`` before another, or at the end. Its uses are not recorded: see ``Graph.insert``."""
        link, following = Link(node), self._end if before is None else _link(before)
        link.previous, link.next = following.previous, following
        link.previous.next = following.previous = node.link = link
        self._size += 1

    def remove(self, node: Node) -> None:
        """Takes ``node`` out. Its uses are kept: see ``Graph.remove``."""
        link = _link(node)
        link.previous.next, link.next.previous = link.next, link.previous
        link.node = node.link = None
        self._size -= 1

    def before(self, node: Node | None, count: int) -> list[Node]:
        """The ``count`` nodes before ``node``, or at the end, in order."""
        return list(itertools.islice(self._backwards(self._end if node is None else _link(node)), count))[::-1]

    def __iter__(self) -> Iterator[Node]:
        link, end = self._end.next, self._end
        while link is not end:
            if link.node is not None:
                yield link.node
            link = link.next

    def __reversed__(self) -> Iterator[Node]:
        return self._backwards(self._end)

    def _backwards(self, link: Link) -> Iterator[Node]:
        while (link := link.previous) is not self._end:
            if link.node is not None:
                yield link.node

    def __len__(self) -> int:
        return self._size

    @overload
    def __getitem__(self, index: int) -> Node: ...
    @overload
    def __getitem__(self, index: slice) -> list[Node]: ...

    def __getitem__(self, index: int | slice) -> Node | list[Node]:
        if isinstance(index, slice):
            return list(self)[index]
        walk, steps = (iter(self), index) if index >= 0 else (reversed(self), -1 - index)
        for node in itertools.islice(walk, steps, None):
            return node
        raise IndexError(f"node {index} of {self._size}")


def _link(node: Node) -> Link:
    if node.link is None:
        raise InvalidGraphError(f"node {node.label}: is in no graph")
    return node.link
