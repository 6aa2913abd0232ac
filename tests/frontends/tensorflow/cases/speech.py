"""Spectrograms and cepstra of sounds."""

from __future__ import annotations

from tests.frontends.tensorflow.case import ints, num, row

SLACK = 4.0
"""TensorFlow computes in float64."""

ROWS = [
    *(row("AudioSpectrogram", num(200, 2), forms=("float32",), label=f"{size}-{stride}-{squared}", T=None, accuracy=SLACK,
          window_size=size, stride=stride, magnitude_squared=squared)
      for size, stride, squared in ((64, 32, True), (50, 20, False), (33, 70, True))),
    *(row("Mfcc", num(2, 5, bins, low=0, high=9), ints(rate), forms=("float32",), label=f"{bins}-{rate}-{low}", T=None,
          accuracy=SLACK, lower_frequency_limit=low, upper_frequency_limit=high, filterbank_channel_count=bands,
          dct_coefficient_count=count)
      for bins, rate, low, high, bands, count in (
          (257, 16000, 20.0, 4000.0, 40, 13), (129, 8000, 0.0, 4000.0, 20, 20), (65, 22050, 300.0, 3000.0, 12, 5))),
]
