"""Trained networks that ship in packages, and samples for them that are made here: printed words, speech and noise, files.

A package is downloaded by ``pip``, its digest compared, and one file of it kept; nothing of it is installed or run.
"""

from __future__ import annotations

import bz2
import csv
import gzip
import hashlib
import inspect
import io
import json
import pydoc
import subprocess
import sys
import tempfile
import wave
import xml.etree.ElementTree as ElementTree
import zipfile
from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from benchmarks import models
from benchmarks.quantization.data import MODULES, Array, Samples, Split, generator

if TYPE_CHECKING:
    import onnx

HEIGHT, WIDTH = 48, 320
"""Of a printed line, in pixels."""
LONGEST = 40
"""Characters of a line."""
RATE, FRAME, CONTEXT = 16_000, 512, 64
"""Samples a second, those of a frame, and those before it that the detector sees as well."""
HALF = 1024
"""Bytes of the beginning and of the end of a file that the classifier sees; `PADDING` stands for those that are not there."""
PADDING = 256
VOWELS = ((730, 1090, 2440), (270, 2290, 3010), (300, 870, 2240), (530, 1840, 2480), (570, 840, 2410), (660, 1720, 2410))
"""Formants in hertz."""


@dataclass(frozen=True)
class Package:
    """A file of a wheel.

    Attributes:
        digest: SHA-256 of the wheel.
        member: the path of the model in it.
        adapted: the model with one input, ``input``, and one output, ``output``, of a batch.
    """

    name: str
    version: str
    digest: str
    member: str
    adapted: Callable[[onnx.ModelProto], onnx.ModelProto]

    def file(self) -> Path:
        """The model as it is in the package, fetched unless it is there.

        Raises:
            RuntimeError: pip finds no such package, or another one.
        """
        kept = models.cache_folder() / "packages" / f"{self.name}-{self.version}-{Path(self.member).name}"
        if not kept.exists():
            kept.parent.mkdir(parents=True, exist_ok=True)
            with tempfile.TemporaryDirectory() as folder:
                download = [sys.executable, "-m", "pip", "download", "-q", "--no-deps", "-d", folder]
                done = subprocess.run([*download, f"{self.name}=={self.version}"], capture_output=True, text=True, check=False)
                (wheel, *_) = [*Path(folder).glob("*.whl"), None]
                if wheel is None:
                    raise RuntimeError(f"{self.name}=={self.version}: pip downloads no wheel: {done.stderr.strip()[-200:]}")
                if hashlib.sha256(wheel.read_bytes()).hexdigest() != self.digest:
                    raise RuntimeError(f"{wheel.name}: has another SHA-256 than {self.digest}; expected the wheel of the index")
                with zipfile.ZipFile(wheel) as archive:
                    unfinished = kept.with_suffix(".part")
                    unfinished.write_bytes(archive.read(self.member))
                    unfinished.replace(kept)
        return kept

    def save(self, path: Path) -> None:
        """Writes the adapted model."""
        import onnx

        onnx.save(self.adapted(onnx.load(self.file())), path)


def _renamed(model: onnx.ModelProto, names: dict[str, str]) -> None:
    """Gives values of the main graph other names."""
    for node in model.graph.node:
        for listed in (node.input, node.output):
            listed[:] = [names.get(name, name) for name in listed]
    for info in [*model.graph.input, *model.graph.output]:
        info.name = names.get(info.name, info.name)


def _sized(info: onnx.ValueInfoProto, sizes: tuple[int | str, ...]) -> None:
    shape = info.type.tensor_type.shape
    del shape.dim[:]
    for size in sizes:
        shape.dim.add(**({"dim_value": size} if isinstance(size, int) else {"dim_param": size}))


def _recognizer(model: onnx.ModelProto) -> onnx.ModelProto:
    """Lines of one width in, numbers of characters out: the likelihoods of 6,625 for each are not kept.

    It is raised to opset 13, without which onnxruntime quantizes no channels.
    """
    import onnx
    from onnx import version_converter

    model = version_converter.convert_version(model, 13)
    _renamed(model, {"x": "input"})
    _sized(model.graph.input[0], ("batch", 3, HEIGHT, WIDTH))
    scores = model.graph.output[0].name
    model.graph.node.append(onnx.helper.make_node("ArgMax", [scores], ["output"], axis=2, keepdims=0))
    del model.graph.output[:]
    model.graph.output.append(onnx.helper.make_tensor_value_info("output", onnx.TensorProto.INT64, ["batch", "length"]))
    return model


def _voice(model: onnx.ModelProto) -> onnx.ModelProto:
    """Frames that follow each other in, likelihoods of speech out; the state begins at zero."""
    import onnx

    for name in ("h", "c"):
        model.graph.initializer.append(onnx.numpy_helper.from_array(np.zeros((1, 1, 128), np.float32), name))
    inputs = [info for info in model.graph.input if info.name == "input"]
    outputs = [info for info in model.graph.output if info.name == "speech_probs"]
    del model.graph.input[:], model.graph.output[:]
    model.graph.input.extend(inputs)
    model.graph.output.extend(outputs)
    _renamed(model, {"speech_probs": "output"})
    return model


def _files(model: onnx.ModelProto) -> onnx.ModelProto:
    """Bytes in, scores of kinds of files out."""
    _renamed(model, {"bytes": "input", "target_label": "output"})
    _sized(model.graph.input[0], ("batch", 2 * HALF))
    return model


RECOGNIZER = Package(
    "rapidocr-onnxruntime", "1.4.4", "971d7d5f223a7a808662229df1ef69893809d8457d834e6373d3854bc1782cbf",
    "rapidocr_onnxruntime/models/ch_PP-OCRv4_rec_infer.onnx", _recognizer)
VOICE = Package(
    "silero-vad", "6.2.3", "7b7f5436cfcb02fae583a05b512ea96467fd449fe54cb49a5e4f06c51a1e43b8",
    "silero_vad/data/silero_vad_16k_sequence.onnx", _voice)
FILES = Package(
    "magika", "1.0.3", "3e9b49134e8116ee40b431664dcbed9e199413efddcce1a173c734b4e0521529",
    "magika/models/standard_v3_3/model.onnx", _files)
SPACE = 6624
"""The recognizer's number of the space between words, which does not count."""
KINDS = {"python": 143, "json": 87, "html": 71, "csv": 32, "xml": 206, "zip": 212, "gzip": 64, "bzip": 16, "wav": 195, "npy": 110}
"""What the classifier calls the kinds of files that are made here."""


def lines(split: Split, seed: int, count: int) -> Samples:
    """Printed words ``(count, 3, 48, 320)``, and the numbers of their characters ``(count, 40)``, -1 after the last."""
    import onnx

    rng = generator(seed, split)
    model = onnx.load(RECOGNIZER.file(), load_external_data=False)
    (alphabet,) = [entry.value for entry in model.metadata_props if entry.key == "character"]
    numbers = {text: k + 1 for k, text in enumerate(alphabet.split("\n"))}
    words = sorted({word for name in MODULES for word in inspect.getsource(import_module(name)).split()
                    if word.isascii() and word.isalnum() and 2 < len(word) < 11})
    texts = [" ".join(rng.choice(words, 2)) for _ in range(count)]
    labels = np.full((count, LONGEST), -1, np.int64)
    for row, text in zip(labels, texts):
        found = [numbers[c] for c in text if c in numbers]
        row[: len(found)] = found
    return Samples(np.stack([_printed(rng, text) for text in texts]), labels)


def _printed(rng: np.random.Generator, text: str) -> Array:
    """A line, a little turned and blurred, with noise; -1 is black, 1 is white, and 0 stands behind its end."""
    from PIL import Image, ImageDraw, ImageFilter, ImageFont

    size = int(rng.integers(22, 34))
    font = ImageFont.load_default(size)
    width = int(font.getlength(text)) + 24
    ink, paper = int(rng.integers(0, 90)), int(rng.integers(170, 256))
    if rng.random() < 0.3:
        ink, paper = paper, ink
    picture = Image.new("L", (width, HEIGHT), paper)
    ImageDraw.Draw(picture).text((12, int(rng.integers(2, HEIGHT - size - 6))), text, fill=ink, font=font)
    picture = picture.rotate(float(rng.uniform(-2, 2)), fillcolor=paper, resample=Image.Resampling.BILINEAR)
    picture = picture.filter(ImageFilter.GaussianBlur(float(rng.uniform(0, 1.8))))
    if width > WIDTH:
        picture, width = picture.resize((WIDTH, HEIGHT)), WIDTH
    grey = np.asarray(picture, np.float32) + rng.normal(0, rng.uniform(0, 30), (HEIGHT, width))
    line = np.zeros((3, HEIGHT, WIDTH), np.float32)
    line[:, :, :width] = np.rint(grey.clip(0, 255)) / 127.5 - 1
    return line


def frames(split: Split, seed: int, count: int) -> Samples:
    """Frames ``(count, 576)`` of vowels that glide, hisses, tones and noise, one after the other; there are no labels."""
    rng = generator(seed, split)
    sound: list[Array] = []
    while sum(map(len, sound)) < count * FRAME:
        kind = rng.choice(["voice", "voice", "voice", "noise", "tone", "silence"])
        length = int(RATE * rng.uniform(0.4, 1.5))
        part = rng.normal(0, rng.uniform(0, 0.02), length)
        if kind == "voice":
            part += _voiced(rng, length) * rng.uniform(0.05, 0.7)
        elif kind == "noise":
            part += rng.normal(0, rng.uniform(0.01, 0.2), length)
        elif kind == "tone":
            part += rng.uniform(0.05, 0.5) * np.sin(2 * np.pi * rng.uniform(80, 3000) / RATE * np.arange(length))
        sound.append(part)
    whole = np.concatenate([np.zeros(CONTEXT), *sound]).astype(np.float32)
    starts = FRAME * np.arange(count)[:, None]
    return Samples(whole[starts + np.arange(FRAME + CONTEXT)], np.zeros((0,), np.float32))


def _voiced(rng: np.random.Generator, length: int) -> Array:
    """A voice whose pitch and formants move from vowel to vowel; some begin with a hiss."""
    time = np.arange(length) / RATE
    pitch = rng.uniform(90, 230) * (1 + 0.12 * np.sin(2 * np.pi * rng.uniform(1, 4) * time + rng.uniform(0, 6)))
    phase = 2 * np.pi * np.cumsum(pitch) / RATE
    marks = np.arange(0, length + RATE // 8, RATE // 8)
    tract = np.array(VOWELS, float)[rng.integers(0, len(VOWELS), len(marks))] * rng.uniform(0.9, 1.15)
    formants = [np.interp(np.arange(length), marks, tract[:, k]) for k in range(3)]
    loudness = np.interp(np.arange(length), marks, rng.uniform(0.3, 1, len(marks)))
    voice = np.zeros(length)
    for harmonic in range(1, 36):
        gain = sum(1 / (1 + ((pitch * harmonic - f) / (70 + 0.06 * f)) ** 2) for f in formants) / np.sqrt(harmonic)
        voice += gain * np.sin(harmonic * phase)
    hiss = rng.normal(0, 1, length) * (rng.random(len(marks)) < 0.25)[np.arange(length) // (RATE // 8)]
    mixed = loudness * voice / np.abs(voice).max() + 0.15 * np.diff(hiss, prepend=0.0)
    return np.asarray(mixed / np.abs(mixed).max())


def contents(split: Split, seed: int, count: int) -> Samples:
    """Numbers of bytes ``(count, 2048)`` of files of ten kinds, and the numbers of these kinds."""
    rng = generator(seed, split)
    kinds = list(KINDS)
    chosen = rng.integers(0, len(kinds), count)
    return Samples(np.stack([_seen(_content(rng, kinds[k])) for k in chosen]), np.array([KINDS[kinds[k]] for k in chosen]))


def _seen(content: bytes) -> Array:
    """The beginning and the end of a file, without blanks around, as the classifier takes them."""
    data = np.frombuffer(content.strip(), np.uint8).astype(np.int32)
    found = np.full((2, HALF), PADDING, np.int32)
    found[0, : min(HALF, len(data))] = data[:HALF]
    tail = data[-HALF:]
    found[1, HALF - len(tail) :] = tail
    return found.ravel()


def _content(rng: np.random.Generator, kind: str) -> bytes:
    module = import_module(str(rng.choice(MODULES)))
    rows = inspect.getsource(module).splitlines()
    start = int(rng.integers(0, max(1, len(rows) - 80)))
    passage = "\n".join(rows[start : start + int(rng.integers(20, 80))])
    words = passage.split()
    table = [[str(rng.choice(words)), *map(str, rng.integers(0, 1000, 4))] for _ in range(int(rng.integers(5, 60)))]
    stream = io.BytesIO()
    if kind == "python":
        return passage.encode()
    if kind == "json":
        records = [{"name": name, "values": numbers} for name, *numbers in table]
        return json.dumps(records, indent=int(rng.integers(0, 5))).encode()
    if kind == "html":
        return pydoc.html.page(str(words[0]), pydoc.html.preformat(passage)).encode()
    if kind == "csv":
        text = io.StringIO()
        csv.writer(text).writerows([["name", "a", "b", "c", "d"], *table])
        return text.getvalue().encode()
    if kind == "xml":
        root = ElementTree.Element("table")
        for name, *numbers in table:
            ElementTree.SubElement(root, "row", name=name).text = " ".join(numbers)
        return bytes(ElementTree.tostring(root, "utf-8", xml_declaration=True))
    if kind == "zip":
        with zipfile.ZipFile(stream, "w", zipfile.ZIP_DEFLATED) as archive:
            archive.writestr(zipfile.ZipInfo(f"{words[-1]!r}.txt"), passage, zipfile.ZIP_DEFLATED)  # without the time of day
    elif kind == "wav":
        with wave.open(stream, "wb") as sound:
            sound.setparams((1, 2, RATE, 0, "NONE", ""))
            sound.writeframes((_voiced(rng, RATE // 4) * 20_000).astype(np.int16).tobytes())
    elif kind == "npy":
        np.save(stream, rng.normal(0, 1, (int(rng.integers(4, 40)), 16)).astype(np.float32))
    else:
        stream.write(gzip.compress(passage.encode(), mtime=0) if kind == "gzip" else bz2.compress(passage.encode()))
    return stream.getvalue()


def edits(outputs: Array, labels: Array) -> float:
    """Per cent of characters that are read right: 100, less the edits that are needed for each hundred."""
    wrong = sum(_distance(_read(row), [int(k) for k in label if k >= 0]) for row, label in zip(outputs, labels))
    return 100.0 * (1.0 - wrong / max(1, int((labels >= 0).sum())))


def _read(row: Array) -> list[int]:
    """Numbers of characters, without blanks, repeats and spaces."""
    kept = row[np.concatenate([[True], row[1:] != row[:-1]])]
    return [int(k) for k in kept if 0 < k < SPACE]


def _distance(one: list[int], other: list[int]) -> int:
    """Levenshtein's."""
    row = list(range(len(other) + 1))
    for k, a in enumerate(one, 1):
        last, row[0] = row[0], k
        for j, b in enumerate(other, 1):
            last, row[j] = row[j], min(row[j] + 1, row[j - 1] + 1, last + (a != b))
    return row[-1]


__all__ = ["FILES", "RECOGNIZER", "VOICE", "Package", "contents", "edits", "frames", "lines"]
