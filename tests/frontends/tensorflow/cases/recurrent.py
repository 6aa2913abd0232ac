"""Cells of recurrent layers, and layers of these."""

from __future__ import annotations

from tests.frontends.tensorflow.case import ints, num, row

LSTM = (num(2, 4), num(2, 4), num(7, 16), num(4), num(4), num(4), num(16))

ROWS = [
    *(row("LSTMBlockCell", num(2, 3), *LSTM, outputs=7, label=f"{peephole}-{clip}", use_peephole=peephole, cell_clip=clip)
      for peephole, clip in ((False, 3.0), (True, 0.5), (True, -1.0))),
    *(row(op, ints(length, "int64"), num(5, 2, 3), *LSTM, outputs=7, label=f"{length}-{peephole}", use_peephole=peephole)
      for op in ("BlockLSTM", "BlockLSTMV2") for length, peephole in ((5, False), (3, True))),
    row("GRUBlockCell", num(2, 3), num(2, 4), num(7, 8), num(7, 4), num(8), num(4), outputs=4),
]
