"""Models that others trained and saved, beside Keras: ``python -m tests.frontends.keras.real_files FOLDER [WORD ...]``.

FOLDER has the public repositories, as OWNER/NAME; files that are not there are left out. Only those whose names have one of the
words are taken; all if there is none. Needs keras, and tf_keras for files of Keras 2.
"""

from __future__ import annotations

import argparse
import importlib
import shutil
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

import forge
from forge.errors import ForgeError
from tests.frontends.keras.record import flat

SEED, BATCH, OPEN = 0, 2, 12


@dataclass(frozen=True)
class File:
    """A model in a repository.

    Attributes:
        version: of Keras, that saved it.
        below: what integers are below, where the model looks up rows of a table; 0 for floats.
    """

    source: str
    path: str
    version: str
    below: int = 0

    @property
    def name(self) -> str:
        return f"{self.source}/{self.path}"

    @property
    def release(self) -> tuple[int, ...]:
        return tuple(int(part) for part in self.version.partition("-")[0].split("."))


FACES = "trained_models"
FILES = (
    File("oarriaga/face_classification", f"{FACES}/gender_models/gender_mini_XCEPTION.21-0.95.hdf5", "2.0.5"),
    File("oarriaga/face_classification", f"{FACES}/fer2013_big_XCEPTION.54-0.66.hdf5", "2.0.5"),
    File("oarriaga/face_classification", f"{FACES}/emotion_models/tiny_XCEPTION_KDEF.hdf5", "2.0.5"),
    File("nanoporetech/medaka", "medaka/test/data/test_model.hdf5", "2.1.2"),
    File("98mprice/mario-level-generator", "model3.keras", "2.2.0"),
    File("98mprice/mario-level-generator", "model.keras", "2.2.0"),
    File("JieChen2000/TGS_Salt", "model.hdf5", "2.2.0"),
    File("0xArt/CryptoANN", "model.h5", "2.2.2"),
    File("afiliot/Geometrical-Forms-Classification", "unet.h5", "2.2.2"),
    File("afiliot/Geometrical-Forms-Classification", "dncnn.h5", "2.2.2"),
    File("15louafi/EnglishToKatakanaSeq2Seq", "model.h5", "2.2.4", 20),
    File("RunarEckholdt/TicTacToeMachineLearning", "modelP1.hdf5", "2.2.4-tf"),
    File("amirfallah1988/image-denoising-by-deep-learning", "model.hdf5", "2.2.4-tf"),
    File("amirfallah1988/image-denoising-by-deep-learning", "model_seq.hdf5", "2.2.4-tf"),
    File("praxidike97/EmojiDetectionWeb", "generator.h5", "2.2.4-tf"),
    File("27caribou/lstm-melody-generation", "model.h5", "2.3.0-tf"),
    File("102757017/lstm-multi", "model.h5", "2.3.1"),
    File("vee-upatising/Super-Resolution-GAN", "generator.h5", "2.3.1"),
    File("tuanTaAnh/ids-2018-version2", "CNN_model.h5", "2.4.0"),
    File("tuanTaAnh/ids-2018-version2", "MLP_model.h5", "2.4.0"),
    File("ALbaghdadi/Eye_State_detection", "model.keras", "2.10.0"),
    File("41Leahcim/astronomy_pipeline", "model.keras", "2.12.0"),
    File("AliElgamel9/FastNeuralStyleTransfer", "model.keras", "2.13.1"),
    File("57cell/nlf-classifier", "model.keras", "2.15.0"),
    File("2123456/Weathering", "model.hdf5", "2.15.0"),
    File("AmyMendiola/Espresso_Chatbot", "model.keras", "3.1.1"),
    File("SohailGidwani/Predictive-Trading-Models", "transformer.keras", "3.4.1"),
    File("SohailGidwani/Predictive-Trading-Models", "customLSTM.h5", "3.4.1"),
    File("karan5719/ML-BASED-MODEL-FOR-SANDHI-SPLIITING", "bilstm.h5", "3.7.0", 20),
    File("karan5719/ML-BASED-MODEL-FOR-SANDHI-SPLIITING", "bis2s.h5", "3.7.0"),
    File("Adityasenthil/SudokuCVEngine", "model.keras", "3.8.0"),
    File("StylianosIoannou/INM706-Code", "model.h5", "3.9.1"),
    File("Azahramirez/prediccionconTransformers", "transformer.keras", "3.9.2"),
    File("Azahramirez/prediccionconTransformers", "jena_conv.keras", "3.9.2"),
    File("Anaya-Koirala/melody-generating-lstm-cs371", "model.keras", "3.12.1"),
)


def filled(module: Any, file: File) -> list[np.ndarray]:
    """Random inputs, in the order of the model's; sizes that are open are `BATCH`, or `OPEN`."""
    random = np.random.default_rng(SEED)
    shapes = [[size if isinstance(size, int) else OPEN if axis else BATCH for axis, size in enumerate(shape)]
              for shape in module.input_shapes]
    if file.below:
        return [random.integers(0, file.below, shape).astype(np.float32) for shape in shapes]
    return [random.uniform(-1, 1, shape).astype(np.float32) for shape in shapes]


def keras_of(file: File, path: Path, inputs: Sequence[np.ndarray]) -> list[np.ndarray]:
    """What Keras gives."""
    keras = importlib.import_module("keras" if file.release >= (3,) else "tf_keras")
    with tempfile.TemporaryDirectory() as folder:
        if path.read_bytes()[:4] == b"\x89HDF":  # whatever its name ends in
            path = Path(shutil.copy(path, f"{folder}/model.h5"))
        custom = {"GRU": keras.src.layers.rnn.gru_v1.GRU} if file.release < (2, 2) else None  # it has no reset_after there
        model = keras.models.load_model(path, compile=False, custom_objects=custom)
    found = model(list(inputs) if len(inputs) > 1 else inputs[0], training=False)
    return [np.asarray(one) for one in flat(found)]


def difference(found: Sequence[np.ndarray], wanted: Sequence[np.ndarray]) -> str:
    """The largest of all results, relative to the largest element of each."""
    largest = 0.0
    for one, other in zip(found, wanted, strict=True):
        if one.shape != other.shape:
            return f"{one.shape}, not {other.shape}"
        gap = np.abs(one.astype(np.float64) - other).max(initial=0)
        largest = max(largest, float(gap / np.abs(other.astype(np.float64)).max(initial=1e-30)))
    return f"{largest:.1e}"


def compared(file: File, path: Path) -> tuple[str, bool]:
    """The largest difference, or why there is none, and whether there is one."""
    try:
        module = forge.from_keras(path, layout="NHWC")
    except ForgeError as error:
        return f"refused: {' '.join(str(error).split())[:400]}", False
    inputs = filled(module, file)
    found = [np.asarray(one) for one in flat(module.get_inference_function()(*inputs))]
    try:
        wanted = keras_of(file, path, inputs)
    except Exception as error:  # noqa: BLE001 - Keras may raise anything
        return f"Keras fails: {type(error).__name__}: {' '.join(str(error).split())[:300]}", False
    return difference(found, wanted), True


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.frontends.keras.real_files", description=__doc__)
    parser.add_argument("folder", type=Path, metavar="FOLDER", help="where repositories lie, as OWNER/NAME")
    parser.add_argument("words", nargs="*", metavar="WORD")
    given = parser.parse_args(arguments)
    table = Table("file", "Keras", "largest difference, or why it failed")
    failed = 0
    for file in FILES:
        path = given.folder / file.source / file.path
        if path.exists() and (not given.words or any(word in file.name for word in given.words)):
            told, is_good = compared(file, path)
            failed += not is_good
            sys.stdout.write(f"{file.name}: {told}\n")
            sys.stdout.flush()
            table.add_row(file.name, file.version, told)
    Console().print(table)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
