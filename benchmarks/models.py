"""The benchmark models: builders, ONNX export and inputs.

``build("resnet18")`` gives the path of an ONNX file, exported by torch once and kept in a cache folder;
``inputs("resnet18")`` gives matching inputs. Every model also comes small, for tests.
"""

from __future__ import annotations

import argparse
import contextlib
import hashlib
import importlib
import importlib.metadata
import logging
import os
import tempfile
import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from torch import nn

Exporter = Literal["dynamo", "torchscript"]
Inputs = dict[str, NDArray[Any]]

CACHE_VARIABLE = "FORGE_BENCH_CACHE"
_CALIBRATION_BATCH = 8


@dataclass(frozen=True)
class Images:
    """One float32 input ``(batch, 3, size, size)`` of smooth random pictures with some noise."""

    size: int

    def make(self, rng: np.random.Generator, batch: int, length: int | None) -> Inputs:
        coarse = rng.standard_normal((batch, 3, 4, 4)) * rng.uniform(0.5, 1.5, (batch, 3, 1, 1))
        repeats = -(-self.size // 4)
        smooth = coarse.repeat(repeats, axis=2).repeat(repeats, axis=3)[:, :, : self.size, : self.size]
        noise = rng.standard_normal((batch, 3, self.size, self.size))
        return {"image": (smooth + 0.3 * noise).astype(np.float32)}


@dataclass(frozen=True)
class Vectors:
    """One float32 input ``(batch, *shape)`` of normal values; ``length`` replaces the first of two extents."""

    name: str
    shape: tuple[int, ...]

    def make(self, rng: np.random.Generator, batch: int, length: int | None) -> Inputs:
        shape = self.shape if length is None or len(self.shape) < 2 else (length, *self.shape[1:])
        return {self.name: rng.standard_normal((batch, *shape)).astype(np.float32)}


@dataclass(frozen=True)
class Tokens:
    """Token ids ``(batch, length)`` int64; with ``masked`` also segment ids and a mask over the tail of each row."""

    vocabulary: int
    length: int
    masked: bool

    def make(self, rng: np.random.Generator, batch: int, length: int | None) -> Inputs:
        length = length or self.length
        made: Inputs = {"input_ids": rng.integers(0, self.vocabulary, (batch, length), dtype=np.int64)}
        if self.masked:
            visible = rng.integers(max(1, length // 2), max(2, 3 * length // 4), (batch, 1))
            second = rng.integers(1, max(2, length // 2), (batch, 1))
            positions = np.arange(length)[None, :]
            made["attention_mask"] = (positions < visible).astype(np.int64)
            made["token_type_ids"] = (positions >= second).astype(np.int64)
        return made


@dataclass(frozen=True)
class Decoding:
    """One new token ``(batch, 1)`` int64, and cached keys and values ``(batch, *cache)`` float32."""

    vocabulary: int
    cache: tuple[int, int, int, int]

    def make(self, rng: np.random.Generator, batch: int, length: int | None) -> Inputs:
        caches = rng.standard_normal((2, batch, *self.cache)).astype(np.float32)
        token = rng.integers(0, self.vocabulary, (batch, 1), dtype=np.int64)
        return {"input_ids": token, "keys": caches[0], "values": caches[1]}


InputKind = Images | Vectors | Tokens | Decoding


@dataclass(frozen=True)
class Variant:
    """How to make one size of a model: a function of `benchmarks.networks` and what it is fed."""

    builder: str
    kind: InputKind

    def network(self) -> nn.Module:
        module, function = self.builder.split(":")
        made: nn.Module = getattr(importlib.import_module(f"benchmarks.networks.{module}"), function)()
        return made


@dataclass(frozen=True)
class BenchmarkModel:
    """A model of the benchmark in both sizes.

    Attributes:
        symbolic: Names of the leading dimensions of all inputs in a dynamic export.
        outputs: Names of the outputs, each with the number of those dimensions that it shares.
    """

    full: Variant
    small: Variant
    symbolic: tuple[str, ...] = ("batch",)
    outputs: tuple[tuple[str, int], ...] = (("logits", 1),)

    def variant(self, small: bool) -> Variant:
        return self.small if small else self.full


MODELS: Mapping[str, BenchmarkModel] = MappingProxyType(
    {
        "resnet18": BenchmarkModel(Variant("resnet:full_18", Images(224)), Variant("resnet:small_18", Images(32))),
        "resnet50": BenchmarkModel(Variant("resnet:full_50", Images(224)), Variant("resnet:small_50", Images(32))),
        "mobilenetv2": BenchmarkModel(Variant("mobilenet:full", Images(224)), Variant("mobilenet:small", Images(32))),
        "vgg16": BenchmarkModel(Variant("vgg:full", Images(224)), Variant("vgg:small", Images(32))),
        "unet": BenchmarkModel(
            Variant("unet:full", Images(256)), Variant("unet:small", Images(16)), outputs=(("probability", 1),)
        ),
        "bert": BenchmarkModel(
            Variant("bert:full", Tokens(30522, 128, masked=True)),
            Variant("bert:small", Tokens(97, 16, masked=True)),
            symbolic=("batch", "length"),
            outputs=(("last_hidden_state", 2), ("pooler_output", 1)),
        ),
        "vit": BenchmarkModel(Variant("vit:full", Images(224)), Variant("vit:small", Images(32))),
        "gpt2": BenchmarkModel(
            Variant("gpt2:full", Tokens(50257, 64, masked=False)),
            Variant("gpt2:small", Tokens(97, 16, masked=False)),
            symbolic=("batch", "length"),
            outputs=(("logits", 2),),
        ),
        "mobilenetv3": BenchmarkModel(Variant("mobilenetv3:full", Images(224)), Variant("mobilenetv3:small", Images(32))),
        "efficientnet": BenchmarkModel(Variant("efficientnet:full", Images(224)), Variant("efficientnet:small", Images(32))),
        "convnext": BenchmarkModel(Variant("convnext:full", Images(224)), Variant("convnext:small", Images(32))),
        "densenet": BenchmarkModel(Variant("densenet:full", Images(224)), Variant("densenet:small", Images(32))),
        "yolo": BenchmarkModel(
            Variant("yolo:full", Images(640)), Variant("yolo:small", Images(32)), outputs=(("detections", 1),)
        ),
        "minilm": BenchmarkModel(
            Variant("bert:minilm", Tokens(30522, 128, masked=True)),
            Variant("bert:small", Tokens(97, 16, masked=True)),
            symbolic=("batch", "length"),
            outputs=(("last_hidden_state", 2), ("pooler_output", 1)),
        ),
        "llama_prefill": BenchmarkModel(
            Variant("llama:full", Tokens(32000, 128, masked=False)),
            Variant("llama:small", Tokens(97, 16, masked=False)),
            symbolic=("batch", "length"),
            outputs=(("logits", 1),),
        ),
        "llama_decode": BenchmarkModel(
            Variant("llama:full", Decoding(32000, (4, 4, 127, 64))),
            Variant("llama:small", Decoding(97, (2, 2, 15, 8))),
            outputs=(("logits", 1), ("new_keys", 1), ("new_values", 1)),
        ),
        "speech": BenchmarkModel(
            Variant("speech:full", Vectors("spectrogram", (80, 1000))),
            Variant("speech:small", Vectors("spectrogram", (10, 24))),
            outputs=(("states", 1),),
        ),
        "lstm": BenchmarkModel(
            Variant("recurrent:full", Vectors("sequence", (100, 128))),
            Variant("recurrent:small", Vectors("sequence", (10, 8))),
            outputs=(("logits", 1), ("states", 1)),
        ),
        "mlp": BenchmarkModel(
            Variant("mlp:full", Vectors("features", (784,))), Variant("mlp:small", Vectors("features", (20,)))
        ),
        "mlp_sequence": BenchmarkModel(
            Variant("mlp:full", Vectors("features", (16, 784))),
            Variant("mlp:small", Vectors("features", (6, 20))),
            symbolic=("batch", "length"),
            outputs=(("logits", 2),),
        ),
    }
)


def inputs(name: str, batch: int = 1, seed: int = 0, *, length: int | None = None, small: bool = False) -> Inputs:
    """Random inputs of a model by name; equal arguments give equal arrays.

    Args:
        name: A key of `MODELS`.
        batch: Extent of the first dimension.
        seed: Of the random generator.
        length: Extent of the second dimension of models over sequences; None: the length the model is exported with.
        small: Inputs of the small variant.
    """
    return MODELS[name].variant(small).kind.make(np.random.default_rng(seed), batch, length)


def network(name: str, *, small: bool = False, seed: int = 0) -> nn.Module:
    """The torch network itself, with its seeded weights, in evaluation mode."""
    import torch

    from benchmarks import weights

    made = MODELS[name].variant(small).network()
    calibration = inputs(name, _CALIBRATION_BATCH, seed=1000 + seed, small=small)
    weights.randomize(made, [torch.from_numpy(array) for array in calibration.values()], seed)
    return made


def build(
    name: str, batch: int = 1, *, dynamic: bool = False, small: bool = False, exporter: Exporter | None = None
) -> Path:
    """Exports a model to ONNX, unless that was done before, and returns the path of the file.

    Args:
        name: A key of `MODELS`.
        batch: Batch size of a static export.
        dynamic: Leave the leading dimensions symbolic (`BenchmarkModel.symbolic`).
        small: The small variant.
        exporter: Torch's exporter; None: the current one ("dynamo").
    """
    exporter = exporter or "dynamo"
    shape = "dynamic" if dynamic else f"b{batch}"
    size = "small" if small else "full"
    path = cache_folder() / f"{name}-{size}-{shape}-{exporter}-{digest()}.onnx"
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        _export(name, path, batch=batch, dynamic=dynamic, small=small, exporter=exporter)
    return path


def cache_folder() -> Path:
    """Where exported models are kept: ``$FORGE_BENCH_CACHE`` or ``forge-bench`` in the user's cache folder."""
    if CACHE_VARIABLE in os.environ:
        return Path(os.environ[CACHE_VARIABLE])
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "forge-bench"


def digest() -> str:
    """Changes with torch and with every source file that an exported model depends on."""
    folder = Path(__file__).parent
    state = hashlib.sha256(importlib.metadata.version("torch").encode())
    shared = [folder / name for name in ("models.py", "dynamic_models.py", "weights.py")]
    for source in sorted([*shared, *(folder / "networks").glob("*.py")]):
        state.update(source.read_bytes())
    return state.hexdigest()[:12]


def _export(name: str, path: Path, *, batch: int, dynamic: bool, small: bool, exporter: Exporter) -> None:
    # An exporter takes extents of 1 for constants: a dynamic export needs larger examples.
    example = inputs(name, 2 if dynamic else batch, small=small)
    options = _symbolic_options(name, list(example), exporter) if dynamic else {}
    outputs = [output for output, _ in MODELS[name].outputs]
    write(network(name, small=small), example, outputs, path, dynamo=exporter == "dynamo", **options)


def write(network: nn.Module, example: Inputs, outputs: Sequence[str], path: Path, **options: Any) -> None:
    """Exports a network with the names of its inputs and outputs; ``options`` are those of ``torch.onnx.export``."""
    import torch

    arguments = tuple(torch.from_numpy(array) for array in example.values())
    with tempfile.TemporaryDirectory(dir=path.parent) as folder, quiet_exporter():
        unfinished = Path(folder) / path.name
        torch.onnx.export(
            network,
            arguments,
            str(unfinished),
            input_names=list(example),
            output_names=list(outputs),
            external_data=False,
            verbose=False,
            **options,
        )
        os.replace(unfinished, path)


def _symbolic_options(name: str, input_names: list[str], exporter: Exporter) -> dict[str, Any]:
    model = MODELS[name]
    axes = dict(enumerate(model.symbolic))
    if exporter == "dynamo":
        return {"dynamic_shapes": tuple(axes for _ in input_names)}
    shared = {output: dict(enumerate(model.symbolic[:count])) for output, count in model.outputs}
    return {"dynamic_axes": dict.fromkeys(input_names, axes) | shared}


@contextlib.contextmanager
def quiet_exporter() -> Iterator[None]:
    """Torch warns about packages that these models don't use and about its own older exporter."""
    logger = logging.getLogger("torch.onnx")
    level = logger.level
    logger.setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logger.setLevel(level)


def main() -> None:
    """Exports the named models (default: all) and prints their paths."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"of: {', '.join(MODELS)}")
    parser.add_argument("--batch", type=int, default=1)
    parser.add_argument("--dynamic", action="store_true")
    parser.add_argument("--small", action="store_true")
    parser.add_argument("--exporter", choices=("dynamo", "torchscript"))
    options = parser.parse_args()
    for name in options.names or MODELS:
        path = build(name, options.batch, dynamic=options.dynamic, small=options.small, exporter=options.exporter)
        print(f"{name}: {path}")


if __name__ == "__main__":
    main()
