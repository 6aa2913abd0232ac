"""What a core's work costs: the rates that the cost models of kernels count with."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True)
class MachineModel:
    """Measured rates of one core, in its cycles and in bytes.

    The outer caches have three rates, as three access patterns were measured, and cost models were fitted to each.

    Attributes:
        multiply_adds: vector multiply-adds that start in a cycle.
        bfloat16_dots: dot products of pairs of bfloat16 that start in a cycle, where there are any.
        byte_dots: dot products of four bytes that start in a cycle, where there are any.
        tile_rows: rows of a tile register of a left operand that are multiplied in a cycle, each by a whole register, where there
            are any.
        tile_share: the part of that which loops reach, with their loads and stores.
        conversions: vectors of float32 that a cycle makes of bfloat16 or float16, or the other way, beside multiply-adds.
        narrows_all: networks were measured to be faster with all contractions in bfloat16 than without those that gain nothing.
        loads: vectors that are loaded in a cycle.
        exposed_loads: the part of the loads' time that the arithmetic does not hide (AVX2: tiles of 14 x 1 reach 80 % of the
            peak, of 6 x 2 94 %).
        least_step: cycles of a reduction step with few accumulators: the latency of a multiply-add, and some slack (8
            accumulators reach 88 % of what 10 do).
        tile_overhead: cycles of a register tile outside its reduction, except for one cycle per accumulator.
        task_overhead: cycles to start a task.
        copy: cycles to copy one vector between places in the cache.
        memory_bytes: bytes per cycle of weights that are read from memory, for the first time.
        streamed_bytes: bytes per cycle of weights that one register tile after the other streams from the outer caches.
        reread_bytes: bytes per cycle of weights that a core reads again, after other data have passed its second-level cache.
        shared_bytes: bytes per cycle of weights that other cores have brought into the outer caches.
    """

    multiply_adds: float = 2.0
    bfloat16_dots: float = 2.0
    byte_dots: float = 2.0
    tile_rows: float = 1.0
    tile_share: float = 0.55
    conversions: float = 1.0
    narrows_all: bool = False
    loads: float = 2.0
    exposed_loads: float = 0.15
    least_step: float = 5.0
    tile_overhead: float = 24.0
    task_overhead: float = 3000.0
    copy: float = 2.5
    memory_bytes: float = 7.0
    streamed_bytes: float = 16.0
    reread_bytes: float = 12.0
    shared_bytes: float = 10.0


# Two multiply-add units of latency 4 and two load ports: every AVX2 and AVX-512 server core of the last ten years.
SERVER_CORE: Final = MachineModel()
