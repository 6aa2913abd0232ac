"""Models that run as several workers: with an engine of threads, and with torch.distributed on two processes."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import forge
from examples.nn import llama, tensor_parallel
from examples.nn.weights import fill
from forge import nn
from forge.errors import FunctionError, OptionError
from forge.nn import spec
from forge_runtime import collectives

WORKERS = 2


class Threads:
    """Workers that are threads of this process."""

    def __init__(self) -> None:
        self.barrier = threading.Barrier(WORKERS, timeout=20)
        self.given: list[Any] = [None] * WORKERS
        self.own = threading.local()
        self.groups: list[bool] = []

    def exchanged(self, x: np.ndarray) -> list[np.ndarray]:
        self.given[self.own.rank] = x
        self.barrier.wait()
        given = list(self.given)
        self.barrier.wait()
        return given

    def allreduce(self, x: np.ndarray, reduction: str, in_group: bool) -> np.ndarray:
        self.groups.append(in_group)
        functions: dict[str, Callable[..., Any]] = {
            "sum": np.sum, "prod": np.prod, "min": np.min, "max": np.max, "avg": np.mean}
        reduced: np.ndarray = np.asarray(functions[reduction](self.exchanged(x), axis=0), x.dtype)
        return reduced

    def allgather(self, x: np.ndarray) -> np.ndarray:
        return np.concatenate(self.exchanged(x))

    def broadcast(self, x: np.ndarray) -> np.ndarray:
        first: np.ndarray = self.exchanged(x)[0]
        return first

    def scatter(self, x: np.ndarray) -> np.ndarray:
        part: np.ndarray = np.split(self.exchanged(x)[0], WORKERS)[self.own.rank]
        return part


@pytest.fixture
def engine() -> Iterator[Threads]:
    made = Threads()
    collectives.use(made)
    yield made
    collectives.use(None)


def on_workers(engine: Threads, work: Callable[[int], Any]) -> list[Any]:
    """What each worker gives."""
    results: list[Any] = [None] * WORKERS

    def run(rank: int) -> None:
        engine.own.rank = rank
        try:
            results[rank] = work(rank)
        except BaseException as error:  # noqa: BLE001 - it is raised below
            results[rank] = error
            engine.barrier.abort()

    threads = [threading.Thread(target=run, args=(rank,)) for rank in range(WORKERS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    raised = [result for result in results if isinstance(result, BaseException)]
    if raised:
        raise next((e for e in raised if not isinstance(e, threading.BrokenBarrierError)), raised[0])
    return results


class Called(nn.Module):
    def __init__(self, function: Callable[[nn.Tensor], nn.Tensor]) -> None:
        self.function = function

    def forward(self, x: nn.Tensor) -> nn.Tensor:
        return self.function(x + 1) * 2


CASES: dict[str, tuple[Callable[[nn.Tensor], nn.Tensor], Callable[[list[np.ndarray], int], np.ndarray]]] = {
    **{
        f"allreduce_{kind}": (lambda x, kind=kind: nn.ccl_allreduce(x, kind), lambda xs, _, f=f: f(xs, axis=0))  # type: ignore[misc]
        for kind, f in (("sum", np.sum), ("prod", np.prod), ("min", np.min), ("max", np.max), ("avg", np.mean))
    },
    "allreduce_of_all": (lambda x: nn.ccl_allreduce(x, in_group=False), lambda xs, _: np.sum(xs, axis=0)),
    "allgather": (lambda x: nn.ccl_allgather(x, WORKERS), lambda xs, _: np.concatenate(xs)),
    "broadcast": (nn.ccl_broadcast_from_worker0, lambda xs, _: xs[0]),
    "scatter": (lambda x: nn.ccl_scatter_from_worker0(x, WORKERS), lambda xs, rank: np.split(xs[0], WORKERS)[rank]),
    "scatter_along_axis": (
        lambda x: nn.ccl_scatter_from_worker0(x, WORKERS, -1), lambda xs, rank: np.split(xs[0], WORKERS, -1)[rank]),
}  # fmt: skip


@pytest.mark.parametrize("sizes", [[4, 6], ["n", 6]], ids=["known", "unknown"])
@pytest.mark.parametrize("name", CASES)
def test_operations(name: str, sizes: list[Any], engine: Threads) -> None:
    if sizes[0] == "n" and name == "scatter":
        pytest.skip("a size that has to be a multiple of the number of workers")
    function, expected = CASES[name]
    run = forge.compile(Called(function).export({"x": spec.Tensor(sizes, "float32")}))
    inputs = [np.random.default_rng(rank).random((4, 6), np.float32) for rank in range(WORKERS)]
    for rank, result in enumerate(on_workers(engine, lambda rank: run(inputs[rank]))):
        np.testing.assert_allclose(result, expected([x + 1 for x in inputs], rank) * 2, rtol=1e-6)
    assert all(engine.groups) is (name != "allreduce_of_all")


def test_calls_stay_in_order(engine: Threads) -> None:
    """Equal calls are not merged, and one whose result nobody reads is made: other workers wait for it."""

    def body(x: nn.Tensor) -> nn.Tensor:
        nn.ccl_broadcast_from_worker0(x)
        return nn.ccl_allreduce(x) + nn.ccl_allreduce(x)

    run = forge.compile(Called(body).export({"x": spec.Tensor([3], "float32")}))
    x = np.ones(3, np.float32)
    for result in on_workers(engine, lambda _: run(x)):
        assert result.tolist() == [16, 16, 16]
    assert len(engine.groups) == 2 * WORKERS


def test_a_parallel_llama_is_the_whole_one(engine: Threads) -> None:
    config = llama.Config()
    runs = [tensor_parallel.worker_model(config, rank, WORKERS).jit(llama.SPEC, out_format="numpy") for rank in range(WORKERS)]
    whole = llama.Llama(config)
    fill(whole)
    words = np.array([[3, 1, 4, 1, 5]])
    expected = whole.jit(llama.SPEC, out_format="numpy")(words, 5)
    for scores in on_workers(engine, lambda rank: runs[rank](words, 5)):
        np.testing.assert_allclose(scores, expected, rtol=1e-4, atol=1e-5)


def test_two_processes_of_torch(capfd: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("torch")
    tensor_parallel.main()
    llama.main()
    first, second = capfd.readouterr().out.splitlines()
    assert first == second


def test_engines_that_fail(engine: Threads) -> None:
    run = forge.compile(Called(nn.ccl_allreduce).export({"x": spec.Tensor([3], "float32")}))

    def work(rank: int) -> Any:
        if rank:
            raise LookupError("worker 1 is gone")
        return run(np.ones(3, np.float32))

    with pytest.raises(LookupError, match="worker 1 is gone"):
        on_workers(engine, work)


def test_no_engine() -> None:
    run = forge.compile(Called(nn.ccl_allreduce).export({"x": spec.Tensor([3], "float32")}))
    with pytest.raises(FunctionError, match="no engine is chosen"):
        run(np.ones(3, np.float32))
    with pytest.raises(FunctionError, match="got engine 'nccl'; expected one of: torch, mpi4py"):
        collectives.use("nccl")


def test_torch_has_to_be_initialized() -> None:
    pytest.importorskip("torch")
    with pytest.raises(FunctionError, match="init_process_group first"):
        collectives.use("torch")


@pytest.mark.parametrize(("function", "message"), [
    (lambda x: nn.ccl_allreduce(x, "mean"), "got 'mean'; expected one of: sum, prod, min, max, avg"),
    (lambda x: nn.ccl_allgather(x, 0), "num_workers: got 0; expected at least 1"),
    (lambda x: nn.ccl_scatter_from_worker0(x, 2), "got size 3 along axis 0; expected a multiple"),
])  # fmt: skip
def test_misuse(function: Callable[[nn.Tensor], nn.Tensor], message: str) -> None:
    with pytest.raises(OptionError, match=message):
        Called(function).export({"x": spec.Tensor([3], "float32")})
    with pytest.raises(OptionError, match="outside of an export"):
        nn.ccl_allreduce(nn.Tensor.from_const([1.0]))
