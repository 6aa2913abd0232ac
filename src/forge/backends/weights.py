"""The weights of a compiled model: one block of bytes, to which code refers by offsets.

Until something needs the bytes they are arrays, most of them views of the arrays that the model was loaded with: strided ones,
where weights are packed. Then they are made a chunk at a time, in several threads, straight where they go.
"""

from __future__ import annotations

import bisect
import math
import mmap
import os
from collections.abc import Iterator, Sequence

import numpy as np

from forge_runtime import artifact as format_


class Weights:
    """``size`` bytes that are 0 but for ``entries``: arrays by increasing offset, at multiples of their elements' size.

    Attributes:
        known_digest: what `digest` returns, where that was computed before.
    """

    def __init__(self, size: int, entries: Sequence[tuple[int, np.ndarray]], known_digest: str | None = None) -> None:
        self.size = size
        self.known_digest = known_digest
        self.entries = tuple(entries)
        self._offsets = [offset for offset, _ in entries]

    def fill(self, chunk: memoryview, begin: int) -> None:
        """Puts the bytes from ``begin`` on into ``chunk``; both ends are multiples of all elements' sizes, or the last byte's."""
        out = np.frombuffer(chunk, np.uint8)
        end = begin + out.size
        done = begin
        for offset, array in self.entries[max(0, bisect.bisect_right(self._offsets, begin) - 1) :]:
            if offset >= end:
                break
            low, high = max(offset, begin), min(offset + array.nbytes, end)
            if low < high:
                out[done - begin : low - begin] = 0
                elements = out[low - begin : high - begin].view(array.dtype)
                _copy_elements(array, (low - offset) // array.itemsize, elements)
                done = high
        out[done - begin :] = 0

    def digest(self) -> str:
        """As `forge_runtime.artifact.weights_digest` says."""
        if self.known_digest is None:
            self.known_digest = format_.weights_digest(self.size, self.fill)
        return self.known_digest

    def write(self, descriptor: int, offset: int) -> str:
        """Writes all bytes to a file, from ``offset`` on, and returns their digest.

        Raises:
            OSError: they cannot be written.
        """

        def fill_and_write(chunk: memoryview, begin: int) -> None:
            self.fill(chunk, begin)
            done = 0
            while done < len(chunk):
                done += os.pwrite(descriptor, chunk[done:], offset + begin + done)

        if self.known_digest is None:
            self.known_digest = format_.weights_digest(self.size, fill_and_write)
        else:
            format_.for_chunks(self.size, fill_and_write)
        return self.known_digest

    def pieces(self) -> Iterator[bytes]:
        """All bytes, in chunks."""
        for begin in range(0, self.size, format_.WEIGHTS_CHUNK):
            chunk = bytearray(min(format_.WEIGHTS_CHUNK, self.size - begin))
            self.fill(memoryview(chunk), begin)
            yield bytes(chunk)

    def tobytes(self) -> bytes:
        return b"".join(self.pieces())

    def in_memory(self) -> mmap.mmap | None:
        """The bytes in pages of their own, huge ones where the system has them; None where there are none."""
        if not self.size:
            return None
        pages = mmap.mmap(-1, self.size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
        pages.madvise(mmap.MADV_HUGEPAGE)
        view = memoryview(pages)
        for begin in range(0, self.size, format_.WEIGHTS_CHUNK):
            self.fill(view[begin : begin + format_.WEIGHTS_CHUNK], begin)
        return pages


def _copy_elements(array: np.ndarray, begin: int, out: np.ndarray) -> None:
    """Fills ``out`` with elements of ``array`` in row-major order, from number ``begin`` on."""
    if array.ndim < 2 or array.flags.c_contiguous:
        out[:] = array.reshape(-1)[begin : begin + out.size]
        return
    row = math.prod(array.shape[1:])
    while out.size:
        number, skipped = divmod(begin, row)
        if skipped or out.size < row:
            count = min(row - skipped, out.size)
            _copy_elements(array[number], skipped, out[:count])
        else:
            rows = array[number : number + out.size // row]
            count = rows.size
            out[:count].reshape(rows.shape)[...] = rows
        begin, out = begin + count, out[count:]
