"""Tokens per second of a language model that decodes, next to onnxruntime and openvino: ``python -m benchmarks.decode``.

Needs transformers, which exports the model (``benchmarks.decoders``). Forge runs a session; onnxruntime binds old and new cache
to each other's memory (IOBinding), with the plain export and with its own fused operators; openvino keeps the cache as its
state. Every runtime is a process of its own; they take turns, each at all lengths of the cache. A sample is the mean time of a
few tokens after a cache of that length was set; logits are compared with those of the plain export in onnxruntime.
"""

from __future__ import annotations

import argparse
import contextlib
import ctypes
import itertools
import json
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from rich.console import Console
from rich.table import Table

from benchmarks import decoders
from benchmarks.isolation import Worker

STEPS = 4
"""Tokens of a sample."""
REFERENCE = "onnxruntime"
PATIENCE = 600.0
"""Seconds after which a process counts as hung."""


class Decoder(Protocol):
    def start(self, cache: Mapping[str, np.ndarray]) -> None:
        """Sets the cache."""

    def step(self, token: int) -> np.ndarray:
        """The logits after one more token."""


class Forge:
    """A session of a library with both functions."""

    def __init__(self, folder: Path, threads: int, small: bool) -> None:
        import forge_runtime

        run = forge_runtime.Runtime(folder / "forge", num_threads=threads)
        self._session = run.session(capacity=decoders.size(small).positions)
        self._decode = self._session["decode"]

    def start(self, cache: Mapping[str, np.ndarray]) -> None:
        self._session.load_state(cache)

    def step(self, token: int) -> np.ndarray:
        logits: np.ndarray = self._decode(np.array([[token]]))
        return logits


class Onnxruntime:
    """What a call leaves as new cache is bound as the old one of the next, without a copy."""

    export = "decode"

    def __init__(self, folder: Path, threads: int, small: bool) -> None:
        import onnxruntime

        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = threads
        path = str(decoders.build(self.export, small))
        self._session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
        self._value = onnxruntime.OrtValue.ortvalue_from_numpy
        self._outputs = [output.name for output in self._session.get_outputs()]
        self._cache: dict[str, Any] = {}

    def start(self, cache: Mapping[str, np.ndarray]) -> None:
        self._cache = {name: self._value(array) for name, array in cache.items()}
        self._length = next(iter(cache.values())).shape[2]

    def step(self, token: int) -> np.ndarray:
        self._length += 1
        binding = self._session.io_binding()
        binding.bind_cpu_input("input_ids", np.array([[token]]))
        binding.bind_cpu_input("attention_mask", np.ones((1, self._length), np.int64))
        for name, value in self._cache.items():
            binding.bind_ortvalue_input(name, value)
        for name in self._outputs:
            binding.bind_output(name, "cpu")
        self._session.run_with_iobinding(binding)
        logits, *new = binding.get_outputs()
        self._cache = dict(zip(self._cache, new, strict=True))
        found: np.ndarray = logits.numpy()
        return found


class Fused(Onnxruntime):
    export = "fused"


class Openvino:
    """The cache is a state of the compiled model."""

    def __init__(self, folder: Path, threads: int, small: bool) -> None:
        import openvino

        settings = {"INFERENCE_NUM_THREADS": threads, "PERFORMANCE_HINT": "LATENCY", "INFERENCE_PRECISION_HINT": "f32",
                    "KV_CACHE_PRECISION": "f32"}
        self._tensor = openvino.Tensor
        model = openvino.Core().compile_model(str(decoders.build("openvino", small)), "CPU", settings)
        self._request = model.create_infer_request()

    def start(self, cache: Mapping[str, np.ndarray]) -> None:
        self._length = next(iter(cache.values())).shape[2]
        for state in self._request.query_state():
            state.state = self._tensor(next(array for name, array in cache.items() if state.name.startswith(name)))

    def step(self, token: int) -> np.ndarray:
        self._length += 1
        mask, beam = np.ones((1, self._length), np.int64), np.zeros(1, np.int32)
        results = self._request.infer({"input_ids": np.array([[token]]), "attention_mask": mask, "beam_idx": beam})
        found: np.ndarray = results[0]
        return found


RUNTIMES: Mapping[str, Callable[[Path, int, bool], Decoder]] = {
    "forge": Forge, "onnxruntime": Onnxruntime, "onnxruntime fused": Fused, "openvino": Openvino}


def compile_forge(folder: Path, small: bool) -> None:
    """Both functions in one library over one set of weights, the cache as their states."""
    import forge

    ir = forge.join({name: forge.from_onnx(decoders.build(name, small)) for name in ("prefill", "decode")})
    ir.as_session()
    ir.compile(output_path=folder / "forge", force_overwrite=True)


def serve(folder: Path, runtime: str, threads: int, lengths: list[int], small: bool) -> Iterator[dict[str, Any]]:
    """First the resident memory with the longest cache, then a sample for each line of the standard input, lengths in turn."""
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:threads])
    size = decoders.size(small)
    decoder = RUNTIMES[runtime](folder, threads, small)
    decoder.start(size.cache(lengths[-1]))
    for token in range(2):
        decoder.step(token)
    yield {"resident": _resident_bytes()}
    caches = {length: size.cache(length) for length in lengths}
    for _, length in zip(sys.stdin, itertools.cycle(lengths)):
        decoder.start(caches[length])
        logits = decoder.step(1)
        begin = time.perf_counter()
        for token in range(2, 2 + STEPS):
            logits = decoder.step(token)
        seconds = (time.perf_counter() - begin) / STEPS
        np.save(folder / f"{runtime}-{length}.npy", logits)
        yield {"seconds": seconds}


def _resident_bytes() -> int:
    """Without what the allocator keeps of memory that was freed, such as the arrays that the cache was set from."""
    ctypes.CDLL(None).malloc_trim(0)
    line = next(line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("VmRSS"))
    return int(line.split()[1]) * 1024


Samples = dict[str, dict[int, list[float]]]


def measure(
    folder: Path, threads: int, lengths: Sequence[int], rounds: int, small: bool
) -> tuple[Samples, dict[str, int], dict[str, float]]:
    """Seconds per token by runtime and length; resident bytes by runtime; largest differences to the reference's logits."""
    with contextlib.ExitStack() as stack:
        workers = {}
        for name in RUNTIMES:
            arguments = ("--serve", folder, name, threads, ",".join(map(str, lengths)), *(["--small"] if small else []))
            worker = Worker(*arguments, log=folder / f"{name}.log", module="benchmarks.decode")
            workers[name] = stack.enter_context(worker)
        resident = {name: int(worker.answer(PATIENCE)["resident"]) for name, worker in workers.items()}
        for worker in workers.values():
            worker.hold()
        samples: Samples = {name: {length: [] for length in lengths} for name in workers}
        for number in range(rounds):
            names = [*workers][number % len(workers):] + [*workers][:number % len(workers)]
            for name in names:
                workers[name].go_on()
                for length in lengths:
                    samples[name][length].append(workers[name].request(PATIENCE)["seconds"])
                workers[name].hold()
    return samples, resident, {name: _difference(folder, name, lengths) for name in RUNTIMES}


def _difference(folder: Path, runtime: str, lengths: Sequence[int]) -> float:
    pairs = [[np.load(folder / f"{name}-{length}.npy") for name in (runtime, REFERENCE)] for length in lengths]
    return max(float(np.abs(got - expected).max()) for got, expected in pairs)


def tables(samples: Samples, resident: Mapping[str, int], errors: Mapping[str, float], needed: int) -> list[Table]:
    """Of the times and of the memory."""
    times = Table("cache", *(f"{name} tokens/s" for name in samples), "best peer's time / forge's: least", "median")
    for length in samples["forge"]:
        least = {name: min(found[length]) for name, found in samples.items()}
        median = {name: statistics.median(found[length]) for name, found in samples.items()}
        ratios = [min(s for name, s in of.items() if name != "forge") / of["forge"] for of in (least, median)]
        cells = [f"{1 / least[name]:.1f} ({1 / median[name]:.1f})" for name in samples]
        times.add_row(str(length), *cells, *(f"{ratio:.2f}" for ratio in ratios))
    memory = Table("runtime", "resident MiB", f"of weights and cache ({needed / 2**20:.0f} MiB)", "largest difference of logits")
    for name, bytes_ in resident.items():
        memory.add_row(name, f"{bytes_ / 2**20:.0f}", f"{bytes_ / needed:.2f}", f"{errors[name]:.1e}")
    return [times, memory]


def _serve_command(arguments: Sequence[str]) -> int:
    """The other side of `isolation.Worker`."""
    answers = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)
    folder, runtime, threads, lengths, *small = arguments
    try:
        for answer in serve(Path(folder), runtime, int(threads), [int(n) for n in lengths.split(",")], bool(small)):
            answers.write(json.dumps(answer) + "\n")
    except Exception as error:  # noqa: BLE001
        answers.write(json.dumps({"failure": f"{type(error).__name__}: {error}"}) + "\n")
    return 0


def main(arguments: Sequence[str] | None = None) -> int:
    given = list(sys.argv[1:] if arguments is None else arguments)
    if given[:1] == ["--serve"]:
        return _serve_command(given[1:])
    parser = argparse.ArgumentParser(prog="python -m benchmarks.decode", description=__doc__)
    parser.add_argument("--lengths", help="of the cache; default: 16,512,2000")
    parser.add_argument("--threads", default="1")
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--small", action="store_true", help="a tiny model: does it work here?")
    options = parser.parse_args(given)
    lengths = sorted(int(n) for n in (options.lengths or ("4,40" if options.small else "16,512,2000")).split(","))
    for name in ("prefill", "decode", "fused", "openvino"):
        decoders.build(name, options.small)
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made)
        compile_forge(folder, options.small)
        weights = sum(file.stat().st_size for file in (folder / "forge").iterdir())
        needed = weights + decoders.size(options.small).cache_bytes(lengths[-1])
        for threads in map(int, options.threads.split(",")):
            Console().print(f"{threads} threads: tokens per second of the fastest sample (of the median one)")
            for table in tables(*measure(folder, threads, lengths, options.rounds, options.small), needed):
                Console(width=160).print(table)
    return 0


if __name__ == "__main__":
    sys.exit(main())
