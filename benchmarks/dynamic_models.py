"""Networks whose sizes are known at run time only: builders, ONNX files with symbolic axes, and inputs of any size.

``build("detector")`` gives the path of a file that takes any batch and any of the sizes; ``inputs("detector", (480, 640))``
gives matching inputs. Files are exported as most of those in use were: traced, by torch's older exporter.
"""

from __future__ import annotations

import argparse
import importlib
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING

import numpy as np
import onnx
from onnx import helper, numpy_helper

from benchmarks import models
from benchmarks.models import Inputs

if TYPE_CHECKING:
    from torch import nn

Sizes = tuple[int, ...]
OPSET = 17
_CALIBRATION_BATCH = 8
_COARSE = 4


@dataclass(frozen=True)
class Variant:
    """One size of a network: a function of `benchmarks.networks`, and the axes of its input after the batch.

    Attributes:
        shape: extents, and names of symbols.
        sizes: of the symbols in their order: small, odd, typical, large, of an extreme aspect.
    """

    builder: str
    shape: tuple[int | str, ...]
    sizes: tuple[Sizes, ...]

    @property
    def symbols(self) -> tuple[str, ...]:
        return tuple(extent for extent in self.shape if isinstance(extent, str))

    @property
    def typical(self) -> Sizes:
        return self.sizes[len(self.sizes) // 2]

    def extents(self, batch: int, sizes: Sizes) -> tuple[int, ...]:
        """The whole shape of the input."""
        known = dict(zip(self.symbols, sizes, strict=True))
        return (batch, *(known[extent] if isinstance(extent, str) else extent for extent in self.shape))

    def network(self) -> nn.Module:
        """The torch network itself, with its seeded weights, in evaluation mode."""
        import torch

        from benchmarks import weights

        module, function = self.builder.split(":")
        made: nn.Module = getattr(importlib.import_module(f"benchmarks.networks.{module}"), function)()
        calibration = smooth(self.extents(_CALIBRATION_BATCH, self.typical), seed=1000)
        weights.randomize(made, [torch.from_numpy(calibration)])
        return made


def smooth(shape: tuple[int, ...], seed: int) -> np.ndarray:
    """Float32 values of few large steps along the axes after the second, with some noise."""
    rng = np.random.default_rng(seed)
    found = rng.standard_normal((*shape[:2], *(_COARSE for _ in shape[2:])))
    for axis, extent in enumerate(shape[2:], 2):
        found = found.take(np.arange(extent) * _COARSE // max(extent, 1), axis)
    return (found + 0.3 * rng.standard_normal(shape)).astype(np.float32)


def _suppressed(model: onnx.ModelProto) -> onnx.ModelProto:
    """Adds a suppression of boxes that overlap; at most 20 of each class are left."""
    numbers = {"most": np.array([20]), "overlap": np.array([0.5], np.float32), "least": np.array([0.25], np.float32)}
    model.graph.initializer.extend(numpy_helper.from_array(array, name) for name, array in numbers.items())
    model.graph.node.append(helper.make_node("NonMaxSuppression", ["boxes", "scores", *numbers], ["chosen"]))
    model.graph.output.append(helper.make_tensor_value_info("chosen", onnx.TensorProto.INT64, ["count", 3]))
    return model


@dataclass(frozen=True)
class DynamicModel:
    """A network in both sizes; ``finish`` changes the exported model."""

    input: str
    outputs: tuple[str, ...]
    full: Variant
    small: Variant
    finish: Callable[[onnx.ModelProto], onnx.ModelProto] | None = None

    def variant(self, small: bool) -> Variant:
        return self.small if small else self.full


_IMAGE = (3, "height", "width")
_GREY = (1, "height", "width")
_BY_32 = ((256, 256), (352, 416), (640, 640), (736, 736), (128, 1280))
_SMALL_BY_32 = ((64, 64), (96, 32), (32, 160))
_ANY = ((64, 64), (113, 211), (256, 256), (360, 360), (31, 997))
_SMALL_ANY = ((16, 16), (13, 7), (5, 61))

DYNAMIC: Mapping[str, DynamicModel] = MappingProxyType(
    {
        "detector": DynamicModel(
            "image", ("boxes", "scores"), Variant("detection:yolo", _IMAGE, _BY_32),
            Variant("detection:small_yolo", _IMAGE, _SMALL_BY_32), _suppressed,
        ),
        "efficientdet": DynamicModel(
            "image", ("found",),
            Variant("detection:efficientdet", _IMAGE, ((256, 256), (384, 640), (512, 512), (640, 640), (128, 1280))),
            Variant("detection:small_efficientdet", _IMAGE, ((128, 128), (256, 128), (128, 384))),
        ),
        "text_detector": DynamicModel(
            "image", ("probability",), Variant("text:detector", _IMAGE, _BY_32),
            Variant("text:small_detector", _IMAGE, _SMALL_BY_32),
        ),
        "crnn": DynamicModel(
            "line", ("logits",), Variant("text:crnn", (1, 32, "width"), ((32,), (148,), (320,), (640,), (1600,))),
            Variant("text:small_crnn", (1, 32, "width"), ((32,), (52,), (4,))),
        ),
        "svtr": DynamicModel(
            "line", ("probabilities",), Variant("text:svtr", (3, 48, "width"), ((48,), (148,), (320,), (640,), (1600,))),
            Variant("text:small_svtr", (3, 48, "width"), ((32,), (52,), (4,))),
        ),
        "unet": DynamicModel(
            "image", ("probability",),
            Variant("unet:full", _IMAGE, ((64, 64), (112, 208), (256, 256), (320, 320), (32, 1024))),
            Variant("unet:small", _IMAGE, ((16, 16), (20, 12), (4, 52))),
        ),
        "deeplab": DynamicModel(
            "image", ("logits",),
            Variant("segmentation:deeplab", _IMAGE, ((97, 97), (227, 331), (385, 385), (513, 513), (97, 1283))),
            Variant("segmentation:small_deeplab", _IMAGE, _SMALL_ANY),
        ),
        "conformer": DynamicModel(
            "spectrum", ("states",), Variant("conformer:full", (80, "frames"), ((50,), (331,), (800,), (1600,), (4,))),
            Variant("conformer:small", (10, "frames"), ((20,), (37,), (1,))),
        ),
        "whisper": DynamicModel(
            "spectrum", ("states",), Variant("speech:whisper", (80, "frames"), ((50,), (331,), (1000,), (2000,), (4,))),
            Variant("speech:small_whisper", (10, "frames"), ((20,), (13,), (1,))),
        ),
        "hifigan": DynamicModel(
            "spectrum", ("samples",), Variant("vocoder:hifigan", (80, "frames"), ((16,), (47,), (100,), (200,), (1,))),
            Variant("vocoder:small_hifigan", (10, "frames"), ((8,), (13,), (1,))),
        ),
        "vits": DynamicModel(
            "latent", ("samples",), Variant("vocoder:vits", (192, "frames"), ((8,), (23,), (50,), (100,), (1,))),
            Variant("vocoder:small_vits", (8, "frames"), ((8,), (13,), (1,))),
        ),
        "wav2vec": DynamicModel(
            "samples", ("features",), Variant("wav2vec:full", ("samples",), ((4000,), (12347,), (32000,), (64000,), (400,))),
            Variant("wav2vec:small", ("samples",), ((800,), (1031,), (500,))),
        ),
        "mel": DynamicModel(
            "samples", ("spectrum",), Variant("mel:full", ("samples",), ((8000,), (49_999,), (160_000,), (480_000,), (400,))),
            Variant("mel:small", ("samples",), ((800,), (1031,), (50,))),
        ),
        "edsr": DynamicModel(
            "image", ("wide",), Variant("super_resolution:edsr", _IMAGE, _ANY),
            Variant("super_resolution:small_edsr", _IMAGE, _SMALL_ANY),
        ),
        "fsrcnn": DynamicModel(
            "luminance", ("wide",), Variant("super_resolution:fsrcnn", _GREY, _ANY),
            Variant("super_resolution:small_fsrcnn", _GREY, _SMALL_ANY),
        ),
        "conv_lstm": DynamicModel(
            "film", ("next",),
            Variant("conv_lstm:full", (4, "height", "width"), ((32, 32), (61, 83), (128, 128), (192, 192), (7, 997))),
            Variant("conv_lstm:small", (2, "height", "width"), _SMALL_ANY),
        ),
        "unet3d": DynamicModel(
            "volume", ("probability",),
            Variant("segmentation:volume", (1, "depth", "height", "width"),
                    ((16, 16, 16), (24, 40, 56), (32, 64, 64), (48, 80, 80), (8, 8, 512))),
            Variant("segmentation:small_volume", (1, "depth", "height", "width"), ((4, 6, 8), (2, 10, 14), (2, 2, 62))),
        ),
    }
)


def inputs(name: str, sizes: Sizes, batch: int = 1, *, seed: int = 0, small: bool = False) -> Inputs:
    """Random inputs of a network by name, of some sizes; equal arguments give equal arrays."""
    model = DYNAMIC[name]
    return {model.input: smooth(model.variant(small).extents(batch, sizes), seed)}


def build(name: str, *, small: bool = False) -> Path:
    """Exports a network with symbolic batch and sizes, unless that was done before, and returns the path of the file."""
    path = models.cache_folder() / f"{name}-{'small' if small else 'full'}-any-{models.digest()}.onnx"
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        _export(DYNAMIC[name], small, path)
    return path


def _export(model: DynamicModel, small: bool, path: Path) -> None:
    variant = model.variant(small)
    axes = {0: "batch"} | {axis: extent for axis, extent in enumerate(variant.shape, 1) if isinstance(extent, str)}
    example = {model.input: smooth(variant.extents(2, variant.sizes[0]), seed=0)}
    options = {"dynamo": False, "dynamic_axes": {model.input: axes, **{output: {0: "batch"} for output in model.outputs}}}
    exported = path.with_suffix(".part")
    models.write(variant.network(), example, model.outputs, exported, opset_version=OPSET, **options)
    if model.finish is not None:
        onnx.save(model.finish(onnx.load(exported)), exported)
    os.replace(exported, path)


def main() -> None:
    """Exports the named networks (default: all) and prints their paths."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"of: {', '.join(DYNAMIC)}")
    parser.add_argument("--small", action="store_true")
    options = parser.parse_args()
    for name in options.names or DYNAMIC:
        print(f"{name}: {build(name, small=options.small)}")


if __name__ == "__main__":
    main()
