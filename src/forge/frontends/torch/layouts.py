"""Layouts of packed weights that depend on the processor: torch itself is asked."""

from __future__ import annotations

from functools import cache


class MissingLayout(Exception):
    """The layout is not known here; the message says why."""


@cache
def rows_of_packed_block() -> int:
    """How many rows `_convert_weight_to_int4pack_for_cpu` packs together on this machine.

    Raises:
        MissingLayout: torch cannot be imported, or packs in a way that is not known.
    """
    try:
        import torch
    except ImportError as error:
        raise MissingLayout("torch packs weights of four bits as the processor wants them; expected torch in this environment: "
                            "it is asked how") from error
    probe = torch.zeros(64, 16, dtype=torch.int32)
    probe[0], probe[1], probe[16], probe[32] = 1, 2, 4, 8
    first = int(torch.ops.aten._convert_weight_to_int4pack_for_cpu(probe, 1).reshape(-1)[0])
    blocks = {0x81: 64, 0x41: 32}
    if first not in blocks:
        raise MissingLayout("torch packs weights of four bits in an unknown layout; supported: those of AVX2 and AVX-512")
    return blocks[first]
