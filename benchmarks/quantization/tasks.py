"""The tasks: what is trained on which samples and measured how, and trained models exported to ONNX and kept in a folder.

A task is trained once for each seed. Calibration takes the first inputs of the validation samples; with accuracy control, all
validation samples with their labels are used. Neither is of the originals that test samples are made of.
"""

from __future__ import annotations

import dataclasses
import hashlib
import importlib.metadata
import os
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import numpy as np

from benchmarks import models
from benchmarks.quantization import data, metrics, networks, packaged, rescaling, training
from benchmarks.quantization.data import Array, Samples, Split
from benchmarks.quantization.metrics import Metric

if TYPE_CHECKING:
    from torch import nn

CALIBRATION = 300
"""NNCF's default; for all."""
INPUT, OUTPUT = "input", "output"


@dataclass(frozen=True)
class Counts:
    """Numbers of samples and of steps of training, and its rate."""

    steps: int
    rate: float = 3e-3
    train: int = 16_000
    validation: int = 5_000
    test: int = 10_000

    @classmethod
    def small(cls) -> Counts:
        return cls(steps=3, train=64, validation=40, test=60)


@dataclass(frozen=True)
class Task:
    """A network, its samples and how its outputs are judged.

    Attributes:
        samples: Of a split, a seed and a number.
        rescale: What is done to the trained network, without a change of what it computes.
        base: The task whose trained network is rescaled.
        transformer: NNCF treats these by a scheme of its own, and their weights are quantized alone too.
        package: Of networks that are trained already: where they come from. Without labels, they are what the network itself
            computes in float.
    """

    name: str
    samples: Callable[[Split, int, int], Samples]
    network: Callable[[], nn.Module] | None
    loss: training.Loss | None
    counts: Counts
    metric: Metric = metrics.ACCURACY
    rescale: Callable[[Any, np.random.Generator], None] | None = None
    base: Task | None = None
    transformer: bool = False
    package: packaged.Package | None = None

    def variant(self, name: str, rescale: Callable[[Any, np.random.Generator], None], **changes: Any) -> Task:
        """The same network rescaled."""
        return dataclasses.replace(self, name=name, rescale=rescale, base=self, **changes)


@dataclass(frozen=True)
class Case:
    """A trained network of a task, as a file, and the samples that it is quantized and judged with."""

    task: Task
    seed: int
    folder: Path
    validation: Samples
    test: Samples

    @property
    def path(self) -> Path:
        return self.folder / "model.onnx"

    @property
    def calibration(self) -> Array:
        """Inputs without labels."""
        return self.validation.inputs[:CALIBRATION]

    def network(self) -> nn.Module:
        """The torch network, a new one each time."""
        return _loaded(self.task, self.seed, self.folder)


def _tasks() -> list[Task]:
    pictures = training.class_loss
    digits8 = Task("digits8", partial(data.digits, size=8), networks.plain, pictures, Counts(1500))
    digits32 = Task("digits32", partial(data.digits, size=32), networks.Stack, pictures, Counts(800))
    coloured = partial(data.coloured_digits, size=32)
    mobilenet = Task("mobilenet", coloured, networks.mobilenet, pictures, Counts(1400, 5e-3))
    unlimited = dataclasses.replace(mobilenet, name="mobilenet-relu", network=networks.unlimited_mobilenet)
    resnet = Task("resnet", coloured, networks.resnet, pictures, Counts(700))
    vit = Task("vit", partial(data.digits, size=24), networks.vit, pictures, Counts(1200, 2e-3), transformer=True)
    classifier = Task("classifier", data.passages, networks.classifier, pictures, Counts(700), transformer=True)
    regression = Task("regression", data.features, networks.regression, training.squared_loss, Counts(2500), metrics.VARIANCE)
    detector = Task("detector", data.scenes, networks.Detector, training.detector_loss, Counts(900, test=5000), metrics.PRECISION)
    characters = Task("characters", data.characters, networks.language_model, training.class_loss,
                      Counts(800, validation=1000, test=5000), metrics.PERPLEXITY, transformer=True)
    shifted = partial(data.features, offset=rescaling.OFFSET)
    found = Counts(0, train=0, validation=1000, test=2000)
    return [
        Task("recognizer", packaged.lines, None, None, dataclasses.replace(found, validation=300, test=500),
             Metric("characters, %", packaged.edits), package=packaged.RECOGNIZER),
        Task("voice", packaged.frames, None, None, found, metrics.VARIANCE, package=packaged.VOICE),
        Task("files", packaged.contents, None, None, found, package=packaged.FILES),
        digits8, digits32, mobilenet, resnet, vit, classifier, regression, detector, characters,
        digits32.variant("digits32-outliers", rescaling.outlier_channels),
        digits32.variant("digits32-bias", rescaling.huge_bias),
        unlimited.variant("mobilenet-unbalanced", rescaling.unbalanced_depthwise),
        vit.variant("vit-outliers", rescaling.outlier_features),
        regression.variant("regression-one-sided", rescaling.one_sided_features, samples=shifted),
    ]


TASKS = MappingProxyType({task.name: task for task in _tasks()})


def prepare(name: str, seed: int, *, small: bool = False, folder: Path | None = None) -> Case:
    """Trains and exports a task's network, unless that was done before, and loads its samples.

    Args:
        name: A key of `TASKS`.
        seed: Of the samples, the first weights and the order of training.
        small: Tiny numbers of samples and next to no training.
        folder: Where models are kept; None: in `models.cache_folder`.
    """
    task = TASKS[name]
    if small:
        task = _small(task)
    made = _folder(task, seed, folder, small)
    if not (made / "model.onnx").exists():
        _make(task, seed, made, folder, small)
    with np.load(made / "data.npz") as arrays:
        validation, test = (Samples(arrays[f"{k}_inputs"], arrays[f"{k}_labels"]) for k in ("validation", "test"))
    return Case(task, seed, made, validation, test)


def _small(task: Task) -> Task:
    return dataclasses.replace(task, counts=Counts.small(), base=None if task.base is None else _small(task.base))


def _folder(task: Task, seed: int, folder: Path | None, small: bool) -> Path:
    parent = folder or models.cache_folder() / "quantization"
    return parent / f"{task.name}-{seed}{'-small' if small else ''}-{_digest(task)}"


def _digest(task: Task) -> str:
    """Changes with torch, with the sources that a trained network depends on, and for one that is rescaled with those of that."""
    if task.package is not None:
        sources, origin = [data, packaged], task.package.digest
    else:
        sources = [data, networks, training, *([rescaling] if task.rescale else [])]
        origin = importlib.metadata.version("torch")
    state = hashlib.sha256(f"{origin} {task.counts}".encode())
    for source in sources:
        state.update(Path(str(source.__file__)).read_bytes())
    return state.hexdigest()[:12]


def _make(task: Task, seed: int, made: Path, folder: Path | None, small: bool) -> None:
    made.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=made.parent) as temporary:
        unfinished = Path(temporary) / "made"
        unfinished.mkdir()
        validation = task.samples("validation", seed, task.counts.validation)
        test = task.samples("test", seed, task.counts.test)
        if task.package is None:
            _save_weights(task, seed, unfinished, folder, small)
            _export(_loaded(task, seed, unfinished), validation.inputs[:2], unfinished / "model.onnx")
        else:
            task.package.save(unfinished / "model.onnx")
            validation, test = (_labelled(unfinished / "model.onnx", samples) for samples in (validation, test))
        np.savez_compressed(unfinished / "data.npz", validation_inputs=validation.inputs, validation_labels=validation.labels,
                            test_inputs=test.inputs, test_labels=test.labels)
        os.replace(unfinished, made)


def _labelled(path: Path, samples: Samples) -> Samples:
    """``samples``, with what the model computes in the place of labels that are not there."""
    from benchmarks.quantization.methods import from_file, predicted

    return samples if len(samples.labels) else Samples(samples.inputs, predicted(from_file(path), samples.inputs))


def _save_weights(task: Task, seed: int, made: Path, folder: Path | None, small: bool) -> None:
    """Those of the trained network, before it is rescaled."""
    if task.base is None:
        network = _trained(task, seed)
    else:
        base = _folder(task.base, seed, folder, small)
        if not (base / "model.onnx").exists():
            _make(task.base, seed, base, folder, small)
        network = _loaded(task.base, seed, base)
    np.savez(made / "weights.npz", **{key: value.numpy() for key, value in network.state_dict().items()})


def _trained(task: Task, seed: int) -> nn.Module:
    import torch

    torch.set_num_threads(1)
    torch.manual_seed(seed)
    assert task.network is not None and task.loss is not None
    network = task.network()
    training.train(network, task.samples("train", seed, task.counts.train), task.loss, seed=seed, steps=task.counts.steps,
                   rate=task.counts.rate)
    return network


def _loaded(task: Task, seed: int, folder: Path) -> nn.Module:
    """The network with its weights, rescaled, in evaluation mode."""
    import torch

    assert task.network is not None
    network = task.network()
    with np.load(folder / "weights.npz") as arrays:
        network.load_state_dict({key: torch.from_numpy(arrays[key]) for key in arrays})
    network.eval()
    if task.rescale is not None:
        task.rescale(network, np.random.default_rng(seed))
    return network


def _export(network: nn.Module, example: Array, path: Path) -> None:
    import torch

    with models.quiet_exporter():
        torch.onnx.export(network, (torch.from_numpy(example),), str(path), input_names=[INPUT], output_names=[OUTPUT],
                          dynamo=True, dynamic_shapes=({0: "batch"},), external_data=False, verbose=False)
