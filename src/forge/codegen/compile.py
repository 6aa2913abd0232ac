"""Object code from LLVM IR text, in a persistent pool of worker processes."""

from __future__ import annotations

import atexit
import hashlib
import importlib.metadata
import importlib.util
import os
import selectors
import signal
import subprocess
import sys
import tempfile
import threading
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from functools import cache
from pathlib import Path
from typing import IO, BinaryIO, cast

from forge import knobs
from forge.codegen import object_store
from forge.codegen import worker as worker_script
from forge.codegen.module import kernel_symbol, llvm_features
from forge.codegen.objects import renamed
from forge.codegen.processes import remedy
from forge.codegen.worker import QUICK, read_frame, write_frame
from forge.errors import CompileError, ToolchainError
from forge.target import Target

__all__ = ["QUICK", "compile_modules", "shared_pool"]

_ANY_KERNEL = "forge_kernel"
"""The symbol of a kernel while LLVM compiles it."""

_GROUP_DIGITS = 2
"""Of a key, for the group of the object store."""

Progress = Callable[[int, int], None]
"""Called with the number of finished modules and of all modules."""


@contextmanager
def _starting() -> Iterator[None]:
    """Raises ToolchainError where the system refuses what a worker needs."""
    try:
        yield
    except OSError as error:
        hint = remedy(error, f"sys.executable is {sys.executable!r}; expected the path of a Python interpreter")
        raise ToolchainError(f"codegen: cannot start a compile worker: {error}; {hint}") from error


class Worker:
    """One worker process, busy with at most one module."""

    def __init__(self) -> None:
        """Raises ToolchainError where no process can be started."""
        with _starting(), ExitStack() as opened:
            self._log: IO[bytes] = opened.enter_context(tempfile.TemporaryFile())
            self._process = subprocess.Popen([_python(), worker_script.__file__], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                             stderr=self._log, env=_environment())
            opened.pop_all()
        self.job: int | None = None

    @property
    def replies(self) -> BinaryIO:
        return cast(BinaryIO, self._process.stdout)

    def start(self, job: int, frames: Sequence[bytes]) -> bool:
        """Sends a job; False where the process is dead."""
        self.job = job
        requests = cast(BinaryIO, self._process.stdin)
        try:
            for frame in frames:
                write_frame(requests, frame)
            requests.flush()
        except BrokenPipeError:
            return False
        return True

    def result(self) -> tuple[bytes, bytes] | None:
        """The reply to the current job; None where the process died over it."""
        self.job = None
        kind, body = read_frame(self.replies), read_frame(self.replies)
        return None if kind is None or body is None else (kind, body)

    def last_words(self) -> str:
        """How the process ended and what it wrote on its error stream."""
        code = self._process.wait()
        self._log.seek(0)
        said = self._log.read()[-2000:].decode(errors="replace").strip() or "no message"
        return f"exit status {code}{_explanation(code)}; {said}"

    def close(self) -> None:
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                with suppress(BrokenPipeError):
                    pipe.close()
        self._process.terminate()
        self._process.wait()
        self._log.close()


def _explanation(code: int) -> str:
    """What may be the reason for an exit status."""
    if code == -signal.SIGKILL:
        return " (killed; is there enough memory?)"
    return "" if code < 0 else f" (is sys.executable, {sys.executable!r}, a Python interpreter?)"


def _python() -> str:
    if not sys.executable:
        raise ToolchainError("codegen: no Python interpreter to run compile workers with; sys.executable is empty; "
                             "expected its path; set it")
    return sys.executable


def _environment() -> dict[str, str]:
    """The parent's environment, with llvmlite findable and nothing else next to the script importable."""
    spec = importlib.util.find_spec("llvmlite")
    if spec is None or spec.origin is None:
        raise CompileError("codegen: the package llvmlite is not installed; install it with 'pip install llvmlite'")
    paths = [os.environ.get("PYTHONPATH", ""), str(Path(spec.origin).parent.parent)]
    return {**os.environ, "PYTHONPATH": os.pathsep.join(p for p in paths if p), "PYTHONSAFEPATH": "1"}


class WorkerPool:
    """Compiles modules in as many processes as there are CPUs; safe to call from many threads, one batch at a time."""

    def __init__(self, size: int) -> None:
        self._size = size
        self._workers: list[Worker] = []
        self._lock = threading.Lock()

    def compile(self, jobs: Sequence[tuple[str, list[bytes]]], progress: Progress | None = None) -> list[bytes | str]:
        """For each (name, frames): object code, or the message of what went wrong.

        Interrupted in the middle, it ends the workers, whose replies nothing would read.
        """
        with self._lock:
            try:
                return _Batch(self, jobs, progress).run()
            except BaseException:
                self.close()
                raise

    def grow(self, wanted: int) -> list[Worker]:
        """The workers, at least one and at most ``wanted``."""
        while len(self._workers) < min(self._size, wanted):
            self._workers.append(Worker())
        return self._workers[:wanted]

    def replace(self, dead: Worker) -> Worker:
        dead.close()
        fresh = Worker()
        self._workers[self._workers.index(dead)] = fresh
        return fresh

    def close(self) -> None:
        for worker in self._workers:
            worker.close()
        self._workers.clear()


class _Batch:
    def __init__(self, pool: WorkerPool, jobs: Sequence[tuple[str, list[bytes]]], progress: Progress | None) -> None:
        self.pool = pool
        self.jobs = jobs
        self.progress = progress
        self.waiting = deque(sorted(range(len(jobs)), key=lambda i: -len(jobs[i][1][-1])))
        self.results: dict[int, bytes | str] = {}
        self.retried: set[int] = set()
        with _starting():
            self.selector = selectors.DefaultSelector()

    def run(self) -> list[bytes | str]:
        with self.selector:
            for worker in self.pool.grow(len(self.jobs)):
                self._feed(worker)
            while self.selector.get_map():
                for key, _ in self.selector.select():
                    self._collect(key.data)
        return [self.results[i] for i in range(len(self.jobs))]

    def _feed(self, worker: Worker) -> None:
        while self.waiting:
            job = self.waiting.popleft()
            if worker.start(job, self.jobs[job][1]):
                self.selector.register(worker.replies, selectors.EVENT_READ, worker)
                return
            worker = self._bury(worker, job)

    def _collect(self, worker: Worker) -> None:
        self.selector.unregister(worker.replies)
        job = cast(int, worker.job)
        reply = worker.result()
        if reply is None:
            worker = self._bury(worker, job)
        else:
            kind, body = reply
            self._finish(job, body if kind == b"ok" else body.decode())
        self._feed(worker)

    def _bury(self, worker: Worker, job: int) -> Worker:
        """Replaces a dead worker. Its death may have nothing to do with the job, which is tried once more."""
        if job in self.retried:
            self._finish(job, f"the compile worker died over it twice: {worker.last_words()}")
        else:
            self.retried.add(job)
            self.waiting.appendleft(job)
        return self.pool.replace(worker)

    def _finish(self, job: int, result: bytes | str) -> None:
        self.results[job] = result
        if self.progress is not None:
            self.progress(len(self.results), len(self.jobs))


@cache
def _pool_of(process: int) -> WorkerPool:
    pool = WorkerPool(max(1, knobs.COMPILE_PROCESSES.number) if knobs.COMPILE_PROCESSES.text else len(os.sched_getaffinity(0)))
    atexit.register(pool.close)
    return pool


def shared_pool() -> WorkerPool:
    """The pool of this process; a forked child gets its own."""
    return _pool_of(os.getpid())


def compile_modules(modules: Sequence[tuple[str, str]], target: Target, opt_level: int = 3, progress: Progress | None = None,
                    most: Sequence[int] | None = None) -> list[bytes]:
    """Object code for each (name, LLVM IR text), in order; equal texts are compiled once, and kept for later calls.

    Texts of kernels may differ in the kernel's name, which is that of the module: it has its number in the model.

    Args:
        opt_level: LLVM's, or `QUICK`.
        most: the highest level of passes for each, as far as they need less than code generation does.

    Raises:
        CompileError: LLVM refused modules or died twice over them; the message names all of them. The others were compiled.
        ToolchainError: no worker process can be started.
    """
    machine = f"{target.cpu}|{llvm_features(target)}".encode()
    level = min(opt_level, 3)
    jobs = [(name, [f"{level} {min(level, passes)}".encode(), machine, _unnamed(name, ir).encode()])
            for (name, ir), passes in zip(modules, most or [level] * len(modules), strict=True)]
    identity = _identity()
    keys = [_key(identity or b"", frames) for _, frames in jobs]
    kept = {key: None if identity is None else _kept(key) for key in dict.fromkeys(keys)}
    missing = {key: job for key, job in zip(keys, jobs) if kept[key] is None}
    if progress is not None and len(missing) < len(jobs):
        progress(len(jobs) - len(missing), len(jobs))
    results: dict[str, bytes | str | None] = {**kept, **_compiled(missing, len(jobs), progress)}
    for key in missing if identity is not None else ():
        if isinstance(code := results[key], bytes):
            object_store.KERNELS.store(key[:_GROUP_DIGITS], key, code)
    failures = [f"{name}: {result}" for key, (name, _) in zip(keys, jobs) if isinstance(result := results[key], str)]
    if failures:
        raise CompileError("codegen: LLVM could not compile " + "; ".join(failures))
    return [renamed(result, _ANY_KERNEL, kernel_symbol(name)) for key, (name, _) in zip(keys, jobs)
            if isinstance(result := results[key], bytes)]


def _unnamed(name: str, ir: str) -> str:
    """``ir`` without the name of the kernel that it defines."""
    symbol = kernel_symbol(name)
    for end in ('"', "."):  # of the kernel, and of the functions that its parallel loops became
        ir = ir.replace(f'@"{symbol}{end}', f'@"{_ANY_KERNEL}{end}')
    return ir


def _compiled(jobs: Mapping[str, tuple[str, list[bytes]]], count: int, progress: Progress | None) -> dict[str, bytes | str]:
    """What LLVM makes of jobs by their keys, which are what is missing of ``count``."""
    if not jobs:
        return {}
    done = count - len(jobs)
    advance = None if progress is None else lambda number, _: progress(done + number, count)
    return dict(zip(jobs, shared_pool().compile(list(jobs.values()), advance), strict=True))


def _kept(key: str) -> bytes | None:
    return object_store.KERNELS.load(key[:_GROUP_DIGITS], key)


def _key(identity: bytes, frames: Sequence[bytes]) -> str:
    """A digest of a request, and of who answers it."""
    state = hashlib.sha256(identity)
    for frame in frames:
        state.update(b"%d " % len(frame) + frame)
    return state.hexdigest()


def _identity() -> bytes | None:
    """All but the request that object code depends on; None where nothing is kept, or no file can be read now."""
    if object_store.KERNELS.folder() is None:
        return None
    try:
        return _compiler_identity()
    except (OSError, importlib.metadata.PackageNotFoundError):
        return None


@cache
def _compiler_identity() -> bytes:
    """Of LLVM, by the digests of llvmlite's files, and of how the worker uses it.

    Raises:
        OSError, PackageNotFoundError: it cannot be read.
    """
    distribution = importlib.metadata.distribution("llvmlite")
    files = distribution.read_text("RECORD") or ""
    return f"{distribution.version}\n{files}".encode() + Path(worker_script.__file__).read_bytes()
