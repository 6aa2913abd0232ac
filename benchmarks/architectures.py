"""Architectures of transformers in their real widths, with seeded weights, loaded from torch by an export and by a trace.

    python -m benchmarks.architectures [NAME ...] [--way export] [--small] [--no-compile]

Each model is exported (traced) once with all its sizes dynamic, loaded, compiled, and called with several sizes: the results are
compared with eager torch's, relative to the largest element. Each runs in a process of its own, one after the other; the largest
needs some 8 GB. The columns: seconds of torch's own export, of loading what it made (of a trace: with the export of it) and of
compilation; the most memory that loading took, relative to the bytes of weights, which torch holds already; the largest error.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from forge.ir.graph import Module

Sizes = Mapping[str, int]
Inputs = dict[str, Any]
WAYS = ("export", "trace", "file")
TOLERANCE = 1e-4
"""Largest error relative to the largest element of a result."""


@dataclass(frozen=True)
class Architecture:
    """How to make a network, small or in its real size, and what it is fed.

    Attributes:
        make: The network; it takes tensors by name, and gives tensors or an output of transformers.
        inputs: Of the network and sizes.
        axes: Of each input, the names of the dimensions that are dynamic.
        sizes: Of calls; the first are those of the example.
    """

    make: Callable[[bool], Any]
    inputs: Callable[[Any, Sizes], Inputs]
    axes: Mapping[str, Mapping[int, str]]
    sizes: tuple[Sizes, ...]


def _tokens(network: Any, *shape: int) -> Any:
    import torch

    config = network.config
    return torch.randint(0, getattr(config, "text_config", config).vocab_size - 2, shape)


def _bert(small: bool) -> Any:
    from transformers import BertConfig, BertModel

    if not small:
        return BertModel(BertConfig())
    return BertModel(BertConfig(vocab_size=99, hidden_size=32, num_hidden_layers=2, num_attention_heads=4, intermediate_size=37))


def _masked(network: Any, sizes: Sizes) -> Inputs:
    """Tokens, and a mask that leaves out the ends of the rows but the first."""
    import torch

    ids = _tokens(network, sizes["batch"], sizes["length"])
    mask = torch.ones_like(ids)
    mask[1:, max(1, sizes["length"] - 2) :] = 0
    return {"input_ids": ids, "attention_mask": mask}


def _only_tokens(network: Any, sizes: Sizes) -> Inputs:
    return {"input_ids": _tokens(network, sizes["batch"], sizes["length"])}


def _gpt2(small: bool, cached: bool = False) -> Any:
    from transformers import GPT2Config, GPT2LMHeadModel

    options = {"vocab_size": 99, "n_embd": 32, "n_layer": 2, "n_head": 4} if small else {}
    return GPT2LMHeadModel(GPT2Config(use_cache=cached, **options))


def _llama(small: bool, cached: bool = False) -> Any:
    """The widths of Llama 3.2 1B, in 5 of 16 layers."""
    from transformers import LlamaConfig, LlamaForCausalLM

    options: dict[str, Any] = {
        "vocab_size": 128_256, "hidden_size": 2048, "intermediate_size": 8192, "num_hidden_layers": 5, "num_attention_heads": 32,
        "num_key_value_heads": 8, "tie_word_embeddings": True}
    if small:
        options |= {"vocab_size": 99, "hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2,
                    "num_attention_heads": 4, "num_key_value_heads": 2}
    return LlamaForCausalLM(LlamaConfig(use_cache=cached, **options))


def _t5(small: bool) -> Any:
    from transformers import T5Config, T5ForConditionalGeneration

    options: dict[str, Any] = {"d_model": 768, "d_ff": 3072, "num_layers": 12, "num_heads": 12}
    if small:
        options = {"vocab_size": 99, "d_model": 32, "d_kv": 8, "d_ff": 37, "num_layers": 2, "num_heads": 4}
    return T5ForConditionalGeneration(T5Config(use_cache=False, **options))


def _two_texts(network: Any, sizes: Sizes) -> Inputs:
    return _masked(network, sizes) | {"decoder_input_ids": _tokens(network, sizes["batch"], sizes["target"])}


def _whisper(small: bool) -> Any:
    """Whisper base."""
    from transformers import WhisperConfig, WhisperForConditionalGeneration

    options: dict[str, Any] = {
        "d_model": 512, "encoder_layers": 6, "decoder_layers": 6, "encoder_attention_heads": 8, "decoder_attention_heads": 8,
        "encoder_ffn_dim": 2048, "decoder_ffn_dim": 2048}
    if small:
        options = {
            "vocab_size": 99, "d_model": 32, "encoder_layers": 2, "decoder_layers": 2, "encoder_attention_heads": 4,
            "decoder_attention_heads": 4, "encoder_ffn_dim": 37, "decoder_ffn_dim": 37, "num_mel_bins": 8,
            "max_source_positions": 20, "pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2, "decoder_start_token_id": 1}
    return WhisperForConditionalGeneration(WhisperConfig(use_cache=False, **options))


def _sound(network: Any, sizes: Sizes) -> Inputs:
    import torch

    config = network.config
    return {"input_features": torch.randn(sizes["batch"], config.num_mel_bins, 2 * config.max_source_positions),
            "decoder_input_ids": _tokens(network, sizes["batch"], sizes["target"])}


def _vit(small: bool) -> Any:
    from transformers import ViTConfig, ViTModel

    options = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 37, "image_size": 16,
               "patch_size": 4}
    return ViTModel(ViTConfig(**(options if small else {})))


def _swin(small: bool) -> Any:
    """Swin tiny."""
    from transformers import SwinConfig, SwinModel

    options = {"image_size": 32, "patch_size": 2, "embed_dim": 8, "depths": [1, 2], "num_heads": [2, 2], "window_size": 4}
    return SwinModel(SwinConfig(**(options if small else {})))


def _picture(network: Any, sizes: Sizes) -> Inputs:
    import torch

    config = getattr(network.config, "vision_config", network.config)
    return {"pixel_values": torch.randn(sizes["batch"], 3, config.image_size, config.image_size)}


def _clip(small: bool) -> Any:
    """CLIP ViT-B/32."""
    from transformers import CLIPConfig, CLIPModel

    options: dict[str, Any] = {}
    if small:
        text = {"vocab_size": 99, "hidden_size": 32, "intermediate_size": 37, "num_hidden_layers": 2, "num_attention_heads": 4,
                "eos_token_id": 98, "bos_token_id": 97, "pad_token_id": 1}
        vision = {"hidden_size": 32, "intermediate_size": 37, "num_hidden_layers": 2, "num_attention_heads": 4,
                  "image_size": 16, "patch_size": 4}
        options = {"text_config": text, "vision_config": vision, "projection_dim": 16}
    return CLIPModel(CLIPConfig(**options))


def _text_and_picture(network: Any, sizes: Sizes) -> Inputs:
    """Each text ends with the token that says so; there are as many as pictures, or not."""
    text = _masked(network, {"batch": sizes["texts"], "length": sizes["length"]})
    text["input_ids"][:, -1] = network.config.text_config.eos_token_id
    return text | _picture(network, sizes)


def _mamba(small: bool) -> Any:
    """The widths of Mamba 130m, in 6 of 24 layers: with random weights, errors grow with the depth, those of torch as well.

    Its scan is a loop of Python, so torch fixes the length.
    """
    from transformers import MambaConfig, MambaForCausalLM

    options = {"vocab_size": 99, "hidden_size": 32, "num_hidden_layers": 2, "state_size": 4} if small else {
        "hidden_size": 768, "num_hidden_layers": 6}
    return MambaForCausalLM(MambaConfig(use_cache=False, **options))


def _with_cache(network: Any) -> Any:
    """The network as one that takes keys and values of earlier tokens, layer by layer, and gives the logits and the new ones."""
    import torch
    from transformers import DynamicCache

    class WithCache(torch.nn.Module):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.network = network
            self.config = network.config

        def forward(self, input_ids: Any, attention_mask: Any, past: tuple[Any, ...]) -> tuple[Any, ...]:
            cache = DynamicCache([*zip(past[::2], past[1::2])])
            out = self.network(input_ids, attention_mask=attention_mask, past_key_values=cache, use_cache=True)
            return (out.logits, *(tensor for layer in cache.layers for tensor in (layer.keys, layer.values)))

    return WithCache()


def _past(network: Any, sizes: Sizes) -> Inputs:
    """Tokens after a cache; the mask leaves out the first token of the rows but the first."""
    import torch

    config = network.config
    heads = getattr(config, "num_key_value_heads", config.num_attention_heads)
    shape = (sizes["batch"], heads, sizes["past"], config.hidden_size // config.num_attention_heads)
    mask = torch.ones(sizes["batch"], sizes["past"] + sizes["length"], dtype=torch.int64)
    mask[1:, :1] = 0
    past = tuple(torch.randn(shape) for _ in range(2 * config.num_hidden_layers))
    return {"input_ids": _tokens(network, sizes["batch"], sizes["length"]), "attention_mask": mask, "past": past}


_BATCH, _TEXT = {0: "batch"}, {0: "batch", 1: "length"}
_TEXTS = ({"batch": 2, "length": 9}, {"batch": 3, "length": 17}, {"batch": 1, "length": 5})
_PAIRS = tuple({**sizes, "target": target} for sizes, target in zip(_TEXTS, (5, 3, 8)))
_BATCHES = ({"batch": 2}, {"batch": 3}, {"batch": 1})
_PASTS = tuple({**sizes, "past": past} for sizes, past in zip(_TEXTS, (7, 4, 12)))
_MASKED = {"input_ids": _TEXT, "attention_mask": _TEXT}
_CACHED = {"input_ids": _TEXT, "attention_mask": {0: "batch", 1: "total"}, "past": {0: "batch", 2: "past"}}

ARCHITECTURES: Mapping[str, Architecture] = MappingProxyType({
    "bert": Architecture(_bert, _masked, _MASKED, _TEXTS),
    "gpt2": Architecture(_gpt2, _only_tokens, {"input_ids": _TEXT}, _TEXTS),
    "gpt2_cached": Architecture(lambda small: _with_cache(_gpt2(small, cached=True)), _past, _CACHED, _PASTS),
    "llama": Architecture(_llama, _masked, _MASKED, _TEXTS),
    "llama_cached": Architecture(lambda small: _with_cache(_llama(small, cached=True)), _past, _CACHED, _PASTS),
    "t5": Architecture(_t5, _two_texts, {**_MASKED, "decoder_input_ids": {0: "batch", 1: "target"}}, _PAIRS),
    "whisper": Architecture(_whisper, _sound, {"input_features": _BATCH, "decoder_input_ids": {0: "batch", 1: "target"}},
                            tuple({"batch": sizes["batch"], "target": sizes["target"]} for sizes in _PAIRS)),
    "vit": Architecture(_vit, _picture, {"pixel_values": _BATCH}, _BATCHES),
    "swin": Architecture(_swin, _picture, {"pixel_values": _BATCH}, _BATCHES),
    "clip": Architecture(_clip, _text_and_picture, {
        "input_ids": {0: "texts", 1: "length"}, "attention_mask": {0: "texts", 1: "length"}, "pixel_values": _BATCH},
        ({"batch": 2, "texts": 3, "length": 9}, {"batch": 3, "texts": 2, "length": 7}, {"batch": 1, "texts": 1, "length": 12})),
    "mamba": Architecture(_mamba, _only_tokens, {"input_ids": _BATCH}, tuple({**sizes, "length": 9} for sizes in _BATCHES)),
})


def network(name: str, *, small: bool = False) -> Any:
    """The torch network with its seeded weights, in evaluation mode."""
    import torch

    torch.manual_seed(0)
    return ARCHITECTURES[name].make(small).eval()


def leaves(value: Any) -> list[Any]:
    """The tensors in arguments or results, in order."""
    from torch.utils import _pytree

    return [leaf for leaf in _pytree.tree_leaves(value) if leaf is not None]


@dataclass(frozen=True)
class Loaded:
    """A module, and what loading it took. ``own``: seconds of torch's export or trace; ``memory``: bytes."""

    module: Module
    own: float
    seconds: float
    memory: int


def load(name: str, made: Any, way: str) -> Loaded:
    """Loads a network by a way with all its sizes dynamic."""
    import torch

    from forge.frontends.torch import import_model

    of = ARCHITECTURES[name]
    torch.manual_seed(1)
    example = of.inputs(made, of.sizes[0])
    dynamic = {key: _dynamic(value, of.axes[key]) for key, value in example.items()}
    start = time.perf_counter()
    with warnings.catch_warnings(), torch.no_grad(), tempfile.TemporaryDirectory() as folder:
        warnings.simplefilter("ignore")
        if way == "trace":
            trace = torch.jit.trace(_positional(made, tuple(example)), tuple(example.values()), check_trace=False)
            import_ = partial(import_model, trace, [*example.items()], dynamic_shapes=tuple(dynamic.values()))
        else:
            exported: Any = torch.export.export(made, (), example, dynamic_shapes=dynamic)
            if way == "file":
                torch.export.save(exported, Path(folder) / f"{name}.pt2")
                exported = Path(folder) / f"{name}.pt2"
            import_ = partial(import_model, exported)
        before, middle = _resident(reset=True), time.perf_counter()
        module = import_()
        return Loaded(module, middle - start, time.perf_counter() - middle, _resident("VmHWM") - before)


def _resident(what: str = "VmRSS", *, reset: bool = False) -> int:
    """Bytes of this process in memory, now or at most; with ``reset``, the most is counted from now on."""
    if reset:
        Path("/proc/self/clear_refs").write_text("5")
    line = next(line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith(what))
    return int(line.split()[1]) << 10


def _dynamic(value: Any, axes: Mapping[int, str]) -> Any:
    from torch.export import Dim

    return tuple(_dynamic(item, axes) for item in value) if isinstance(value, tuple) else dict.fromkeys(axes, Dim.DYNAMIC)


def _positional(network: Any, names: Sequence[str]) -> Any:
    """The network with inputs in order and tensors as results, as traces have them."""
    import torch

    class Positional(torch.nn.Module):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.network = network

        def forward(self, *arguments: Any) -> tuple[Any, ...]:
            return tuple(leaves(self.network(**dict(zip(names, arguments)))))

    return Positional()


def errors(name: str, made: Any, run: Callable[..., Any]) -> list[float]:
    """Of calls with all sizes: the largest error of a result, relative to its largest element."""
    import torch

    found = []
    for sizes in ARCHITECTURES[name].sizes:
        example = ARCHITECTURES[name].inputs(made, sizes)
        with torch.no_grad():
            expected = [tensor.numpy() for tensor in leaves(made(**example))]
        got = run(*(tensor.numpy() for tensor in leaves(example)))
        got = got if isinstance(got, list | tuple) else [got]
        assert [g.shape for g in got] == [e.shape for e in expected], ([g.shape for g in got], [e.shape for e in expected])
        found.append(max(float(np.abs(g - e).max() / np.abs(e).max()) for g, e in zip(got, expected, strict=True)))
    return found


def measure(name: str, way: str, *, small: bool, compiled: bool) -> list[str]:
    """The row of a table."""
    from forge.driver import compile_module

    made = network(name, small=small)
    weights = sum(p.nbytes for p in made.parameters())
    loaded = load(name, made, way)
    row = [name, way, f"{weights >> 20}", f"{loaded.own:.2f}", f"{loaded.seconds:.2f}", f"{loaded.memory / weights:.2f}"]
    if not compiled:
        return [*row, "", ""]
    start = time.perf_counter()
    run = compile_module(loaded.module).runtime()
    seconds = time.perf_counter() - start
    worst = max(errors(name, made, run))
    return [*row, f"{seconds:.1f}", f"{worst:.1e}" + ("" if worst < TOLERANCE else " wrong")]


COLUMNS = ("network", "way", "weights, MiB", "torch, s", "load, s", "memory / weights", "compile, s", "error")


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.architectures", description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", choices=[*ARCHITECTURES, []], help="all if none is given")
    parser.add_argument("--way", choices=WAYS, action="append", help=f"{' and '.join(WAYS[:2])} if none is given")
    parser.add_argument("--small", action="store_true", help="the small variants")
    parser.add_argument("--no-compile", action="store_true", help="only load")
    parser.add_argument("--row", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    flags = [flag for flag, given in (("--small", options.small), ("--no-compile", options.no_compile)) if given]
    ways = options.way or WAYS[:2]
    if options.row:
        print(*measure(options.names[0], ways[0], small=options.small, compiled=not options.no_compile), sep="\t")
        return 0
    failed = 0
    print(*COLUMNS, sep="\t")
    for name in options.names or ARCHITECTURES:
        for way in ways:
            command = [sys.executable, "-W", "ignore", "-m", "benchmarks.architectures", name, "--way", way, "--row", *flags]
            done = subprocess.run(command, capture_output=True, text=True, check=False)
            row = (done.stdout.strip() or done.stderr.strip() or "?").splitlines()[-1]
            failed += done.returncode != 0 or row.endswith("wrong")
            print(row if done.returncode == 0 else f"{name}\t{way}\tfailed ({done.returncode}): {row[:1000]}", flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
