"""Many threads call one model, with and without sessions, for a given time; every result is compared.

    python -m benchmarks.soak [--minutes 1] [--threads 16] [--sessions 8] [--seed 0]

A thread takes a free session and lets it do what sessions do: it begins with a prompt, decodes, is copied, reset, saved, loaded,
or meets a limit. Threads without a session call functions that have no states, one of which asks Python. Results have to be those
of the same steps done by one thread alone, to the bit. The command ends with status 1 at the first difference.
"""

from __future__ import annotations

import argparse
import queue
import random
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.progress import Progress

import forge
from forge_runtime import Runtime, Session
from forge_runtime.errors import ForgeRuntimeError

WIDTH = 64
PROMPTS = 16
STEPS = 24
NEGATE = "soak.negate"

TEXT = f"""
def @main(%x: Tensor[(n, {WIDTH}), float32], %w: Tensor[({WIDTH}, {WIDTH}), float32]) {{
  nn.gelu(nn.dense(%x, %w))
}}

def @asked(%x: Tensor[(n, {WIDTH}), float32], %w: Tensor[({WIDTH}, {WIDTH}), float32], public=True) {{
  %0 = call_registered(%x, function="{NEGATE}", shapes=[[n, {WIDTH}]], dtypes=["float32"]);
  nn.dense(%0, %w)
}}

def @prefill(%x: Tensor[(n, {WIDTH}), float32], %w: Tensor[({WIDTH}, {WIDTH}), float32], public=True) {{
  %0 = nn.dense(%x, %w);
  (%0, %keys = %0, %values = %x)
}}

def @decode(%x: Tensor[(1, {WIDTH}), float32], state %keys: Tensor[(past, {WIDTH}), float32],
            state %values: Tensor[(past, {WIDTH}), float32], state %calls: int64 = 0i64,
            %w: Tensor[({WIDTH}, {WIDTH}), float32], public=True) {{
  %0 = nn.dense(%x, %w);
  %1 = concatenate(%keys, %0);
  %2 = concatenate(%values, %x);
  %3 = nn.softmax(nn.matmul(%0, transpose(%1)));
  %4 = add(%calls, 1i64);
  (nn.matmul(%3, %2), %4, %keys = %1, %values = %2, %calls = %4)
}}
"""


class Work:
    """Prompts with the tokens that follow them, and what the model answers."""

    def __init__(self, run: Runtime, seed: int) -> None:
        rng = np.random.default_rng(seed)
        self.run = run
        self.prompts = [rng.standard_normal((int(n), WIDTH)).astype(np.float32) for n in rng.integers(1, 40, PROMPTS)]
        self.tokens = rng.standard_normal((PROMPTS, STEPS, 1, WIDTH)).astype(np.float32)
        self.plain = {name: [run[name](prompt) for prompt in self.prompts] for name in ("main", "asked")}
        self.answers = [self._answers(k) for k in range(PROMPTS)]

    def _answers(self, prompt: int) -> list[np.ndarray]:
        session = self.run.session()
        first = session["prefill"](self.prompts[prompt])
        return [first, *(session["decode"](token)[0] for token in self.tokens[prompt])]

    def call(self, rng: random.Random) -> None:
        k, name = rng.randrange(PROMPTS), "main" if rng.random() < 0.9 else "asked"
        _expect(self.run[name](self.prompts[k]), self.plain[name][k], name)

    def converse(self, session: Session, rng: random.Random, scratch: Path) -> None:
        """A conversation, with accidents."""
        k, stop = rng.randrange(PROMPTS), rng.randrange(1, STEPS)
        session.reset()
        _expect(session["prefill"](self.prompts[k]), self.answers[k][0], "prefill")
        self._decode(session, k, 0, stop)
        chance = rng.random()
        if chance < 0.2:
            self._decode(session.copy(), k, stop, STEPS)
        elif chance < 0.4:
            session.save(scratch)
            session.reset()
            session.load_state(scratch)
        elif chance < 0.6:
            self._meet_a_limit(session, k)
        self._decode(session, k, stop, STEPS)
        _expect(session.state()["calls"], np.asarray(STEPS), "the number of calls")

    def _decode(self, session: Session, prompt: int, first: int, last: int) -> None:
        decode = session["decode"]
        for step in range(first, last):
            _expect(decode(self.tokens[prompt, step])[0], self.answers[prompt][step + 1], f"step {step}")

    def _meet_a_limit(self, session: Session, prompt: int) -> None:
        before = session.copy()
        try:
            session.limited(memory_limit=1)["prefill"](self.prompts[prompt])
        except ForgeRuntimeError:
            session.load_state(before.state())
        else:
            raise AssertionError("a call went beyond its limit")


def _expect(found: np.ndarray, expected: np.ndarray, what: str) -> None:
    if not np.array_equal(found, expected):
        raise AssertionError(f"{what}: got another result than alone; the largest difference is {np.abs(found - expected).max()}")


class Soak:
    """Threads that share a runtime and a pool of sessions until the time is over or something fails."""

    def __init__(self, run: Runtime, sessions: int, seed: int) -> None:
        self.work = Work(run, seed)
        self.free: queue.SimpleQueue[Session] = queue.SimpleQueue()
        for _ in range(sessions):
            self.free.put(run.session())
        self.done: Counter[str] = Counter()
        self.failure: BaseException | None = None
        self.stop = threading.Event()
        self.lock = threading.Lock()

    def thread(self, number: int, folder: Path) -> None:
        rng = random.Random(number)
        while not self.stop.is_set():
            try:
                what = self.turn(rng, folder / f"{number}.safetensors")
            except BaseException as error:  # noqa: BLE001 (main raises it)
                self.failure = error
                self.stop.set()
                return
            with self.lock:
                self.done[what] += 1

    def turn(self, rng: random.Random, scratch: Path) -> str:
        try:
            session = self.free.get_nowait()
        except queue.Empty:
            self.work.call(rng)
            return "calls"
        self.work.converse(session, rng, scratch)
        self.free.put(session)
        return "conversations"

    def run(self, threads: int, seconds: float) -> None:
        """Raises what a thread raised."""
        with tempfile.TemporaryDirectory() as folder, Progress(transient=True) as bar:
            workers = [threading.Thread(target=self.thread, args=(number, Path(folder))) for number in range(threads)]
            for worker in workers:
                worker.start()
            task, end = bar.add_task("soak", total=seconds), time.monotonic() + seconds
            while not self.stop.wait(min(1.0, seconds)) and time.monotonic() < end:
                bar.update(task, completed=seconds - (end - time.monotonic()))
            self.stop.set()
            for worker in workers:
                worker.join()
        if self.failure is not None:
            raise self.failure


def model(seed: int) -> Runtime:
    """The compiled model."""
    forge.register_func(NEGATE, lambda x, y: np.negative(x, out=y), override=True)
    weight = np.random.default_rng(seed).standard_normal((WIDTH, WIDTH)).astype(np.float32) / WIDTH**0.5
    module = forge.IRModule(TEXT).mod
    for graph in module.public.values():
        graph.params["w"] = weight
    with tempfile.TemporaryDirectory() as folder:
        forge.IRModule(module).compile(output_path=f"{folder}/model")
        return Runtime(f"{folder}/model")


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=1.0)
    parser.add_argument("--threads", type=int, default=16)
    parser.add_argument("--sessions", type=int, default=8)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args(arguments)
    soak = Soak(model(options.seed), options.sessions, options.seed)
    console = Console()
    try:
        soak.run(options.threads, 60 * options.minutes)
    except AssertionError as error:
        console.print(f"failed: {error}", highlight=False)
        return 1
    counts = ", ".join(f"{count} {what}" for what, count in sorted(soak.done.items()))
    console.print(f"{options.minutes:g} minutes, {options.threads} threads, {options.sessions} sessions: {counts}; all equal")
    return 0


if __name__ == "__main__":
    sys.exit(main())
