"""What passes ask of the kernels: algorithms of convolutions, and panels of weights."""

from __future__ import annotations

import dataclasses

import pytest

from forge.backend import Convolution3x3
from forge.kernels.cpu.spatial import winograd_key
from forge.kernels.layouts import CpuLayouts
from forge.target import Target
from forge.target.choices import Choices

TARGET = Target.parse("llvm -mcpu=x86-64-v3 -num-cores=1")


@pytest.mark.parametrize(
    ("sizes", "tile"),
    [((1, 64, 64, 56, 56), 4), ((1, 3, 64, 224, 224), 0), ((1, 64, 64, 2, 2), 0), ((1, 512, 512, 14, 14), 4),
     ((1, 512, 256, 4, 8), 2)],
)
def test_winograd_pays_for_many_channels_and_positions(sizes: tuple[int, int, int, int, int], tile: int) -> None:
    assert CpuLayouts(TARGET).winograd_tile(Convolution3x3("float32", *sizes)) == tile


def test_measured_choices_go_before_estimates() -> None:
    convolution = Convolution3x3("float32", 1, 64, 64, 56, 56)
    choices = Choices({winograd_key(convolution, TARGET): "2", "dense panel 1 x 64 x 96 float32": "1"})
    chosen = dataclasses.replace(TARGET, choices=choices)
    assert CpuLayouts(chosen).winograd_tile(convolution) == 2
    assert (CpuLayouts(TARGET).dense_panel("float32", 96, 1, 64), CpuLayouts(chosen).dense_panel("float32", 96, 1, 64)) == (24, 8)
