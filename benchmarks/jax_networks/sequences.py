"""Networks of sequences: text, sounds, films; each with its variables and examples of its arguments.

A builder gives a flax module, or a function of the variables and the arguments; the variables; and the arguments.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

import jax
import numpy as np
from flax import linen as nn

from benchmarks.jax_networks import attention, audio, llama, recurrent

Built = tuple[Any, Any, tuple[Any, ...]]
Builder = Callable[[bool, int], Built]


def variables(module: nn.Module, *arguments: Any) -> Any:
    """Random variables of a module: none is 0 or 1, as trained ones are not."""
    shapes = jax.eval_shape(module.init, jax.random.key(0), *arguments)
    rng = np.random.default_rng(0)
    return jax.tree_util.tree_map_with_path(lambda path, leaf: _random(rng, str(path[-1].key), leaf.shape), shapes)


def _random(rng: np.random.Generator, name: str, shape: tuple[int, ...]) -> np.ndarray:
    values = rng.standard_normal(shape, np.float32)
    if name in ("scale", "var"):
        return 1 + 0.1 * np.abs(values)
    return values * np.float32(0.1 if len(shape) < 2 else math.sqrt(1 / max(1, math.prod(shape[:-1]))))


def _of(module: nn.Module, *arguments: Any) -> Built:
    return module, variables(module, *arguments), arguments


def _normal(*shape: int) -> np.ndarray:
    return np.random.default_rng(1).standard_normal(shape, np.float32)


def _tokens(vocabulary: int, *shape: int) -> np.ndarray:
    return np.random.default_rng(1).integers(1, vocabulary, shape, np.int32)


def mlp(small: bool, batch: int) -> Built:
    widths, features = ((32, 32, 10), 20) if small else ((512, 512, 10), 784)
    return _of(attention.Perceptron(widths), _normal(batch, features))


def _bert(small: bool, batch: int, layers: int, width: int) -> Built:
    made = attention.Bert(2, 32, 4, 97, 64) if small else attention.Bert(layers, width, 12, 30522, 512)
    length = 16 if small else 128
    visible = np.broadcast_to(np.arange(length) < 3 * length // 4, (batch, length)).astype(np.int32)
    return _of(made, _tokens(97, batch, length), visible, np.zeros((batch, length), np.int32))


def bert(small: bool, batch: int) -> Built:
    return _bert(small, batch, 12, 768)


def minilm(small: bool, batch: int) -> Built:
    return _bert(small, batch, 6, 384)


def gpt2(small: bool, batch: int) -> Built:
    made = attention.GPT2(2, 32, 4, 97, 64) if small else attention.GPT2(12, 768, 12, 50257, 1024)
    return _of(made, _tokens(97, batch, 16 if small else 64))


def translator(small: bool, batch: int) -> Built:
    made = attention.Translator(2, 32, 4, 97, 64) if small else attention.Translator(6, 512, 8, 32000, 512)
    source = _tokens(97, batch, 12 if small else 64)
    source[:, -3:] = 0
    return _of(made, source, _tokens(97, batch, 9 if small else 48))


def _llama(small: bool, scanned: bool = False) -> llama.Decoder:
    return llama.Decoder(2, 32, 4, 2, 48, 97, scanned) if small else llama.Decoder(4, 768, 12, 4, 2048, 32000, scanned)


def llama_prefill(small: bool, batch: int) -> Built:
    return _of(_llama(small), _tokens(97, batch, 16 if small else 128))


def llama_scan(small: bool, batch: int) -> Built:
    return _of(_llama(small, scanned=True), _tokens(97, batch, 16 if small else 128))


def llama_decode(small: bool, batch: int) -> Built:
    model, length = _llama(small), 16 if small else 128
    cache = tuple(_normal(*c.shape) for c in llama.caches(model, batch, length))
    return _of(model, _tokens(97, batch, 1), np.int32(length - 1), cache)


def llama_greedy(small: bool, batch: int) -> Built:
    model, prompt = _llama(small), _tokens(97, batch, 8 if small else 32)
    return llama.greedy(model, 6 if small else 16), variables(model, prompt), (prompt,)


def _recurrent(cell: Any, small: bool, batch: int) -> Built:
    made = recurrent.Classifier(cell, 16, 2, 10) if small else recurrent.Classifier(cell, 256, 2, 10)
    return _of(made, _normal(batch, *((10, 8) if small else (100, 128))))


def lstm(small: bool, batch: int) -> Built:
    return _recurrent(nn.LSTMCell, small, batch)


def gru(small: bool, batch: int) -> Built:
    return _recurrent(nn.GRUCell, small, batch)


def tagger(small: bool, batch: int) -> Built:
    made = recurrent.Tagger(97, 8, 12, 5) if small else recurrent.Tagger(20000, 128, 256, 17)
    length = 12 if small else 64
    lengths = (length - 3 * np.arange(batch) % length // 2).astype(np.int32)
    return _of(made, _tokens(97, batch, length), lengths)


def gru_by_hand(small: bool, batch: int) -> Built:
    features, hidden, steps = (8, 16, 10) if small else (64, 256, 100)
    shapes = {
        "input_gates": (features, 2 * hidden), "state_gates": (hidden, 2 * hidden), "gates_bias": (2 * hidden,),
        "input_new": (features, hidden), "state_new": (hidden, hidden), "new_bias": (hidden,), "head": (hidden, 10)}
    rng = np.random.default_rng(0)
    made = {name: _random(rng, name, shape) for name, shape in shapes.items()}
    return recurrent.forecast, made, (_normal(batch, steps, features),)


def crnn(small: bool, batch: int) -> Built:
    made = recurrent.Reader((4, 6, 8, 8, 16, 12), 12, 11) if small else recurrent.Reader((64, 128, 256, 256, 512, 256), 256, 97)
    return _of(made, _normal(batch, 32, 52 if small else 320, 1))


def conv_lstm(small: bool, batch: int) -> Built:
    frames, widths, side = (2, (4, 4), 12) if small else (4, (32, 32), 64)
    return _of(recurrent.Film(widths), _normal(batch, frames, side, side, 1))


def mel(small: bool, batch: int) -> Built:
    window, hop, bands, samples = (32, 8, 6, 400) if small else (400, 160, 80, 80_000)
    function = functools.partial(audio.mel, window, hop, bands)
    return lambda _, x: function(x), {}, (_normal(batch, samples),)


def speech(small: bool, batch: int) -> Built:
    made = audio.SpeechEncoder(2, 32, 4) if small else audio.SpeechEncoder(4, 384, 6)
    return _of(made, _normal(batch, *((24, 10) if small else (1000, 80))))


def wav2vec(small: bool, batch: int) -> Built:
    made = audio.FeatureEncoder(8, 12) if small else audio.FeatureEncoder(256, 768)
    return _of(made, _normal(batch, 1600 if small else 32_000))


def conformer(small: bool, batch: int) -> Built:
    made = audio.Conformer(2, 16, 2, 7) if small else audio.Conformer(8, 144, 4, 31)
    return _of(made, _normal(batch, *((37, 10) if small else (800, 80))))


def vocoder(small: bool, batch: int) -> Built:
    if small:
        return _of(audio.Generator(16, (4, 2), (3, 5), (1, 2)), _normal(batch, 9, 10))
    return _of(audio.Generator(128, (8, 8, 2, 2), (3, 7, 11), (1, 3, 5)), _normal(batch, 64, 80))


SEQUENCES: Mapping[str, Builder] = MappingProxyType({
    builder.__name__: builder for builder in (
        mlp, bert, minilm, gpt2, translator, llama_prefill, llama_scan, llama_decode, llama_greedy, lstm, gru, gru_by_hand,
        tagger, crnn, conv_lstm, mel, speech, wav2vec, conformer, vocoder)
})
"""By name: of a small variant or not, and a batch -> what the module's head says."""

__all__ = ["SEQUENCES"]
