"""Runtimes that return tensors of torch: over the memory that the model wrote, without a copy."""

from __future__ import annotations

import ctypes
import gc
import subprocess
import sys
import weakref
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from typing import Any

import numpy as np
import pytest

import forge
from forge.driver import compile_module
from forge_runtime import ExecutionError, InputError, MemoryLimitError, Runtime, donate
from tests.runtime import dlpack_producer as producer
from tests.runtime.test_exchange import DTYPES, make, transposing

torch: Any = pytest.importorskip("torch")

LARGE = 1 << 16
"""Elements of float32 whose memory the runtime keeps for later calls."""


@cache
def model(text: str) -> Runtime:
    return forge.IRModule(text).get_inference_function()


def raw(tensor: Any) -> Any:
    return torch.empty(tensor.shape, dtype=tensor.dtype).copy_(tensor).flatten().view(torch.uint8).tolist()


def squaring() -> Runtime:
    return model("def @main(%x: Tensor[(n), float32]) { multiply(%x, %x) }").returning(torch.Tensor)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", [(2, 3), (0, 3), (2, 0), (1, 1)])
def test_element_types(dtype: str, shape: tuple[int, int]) -> None:
    x = make(torch, dtype)[: shape[0], : shape[1]]
    y = transposing(dtype).returning(torch.Tensor)(x)
    assert type(y) is torch.Tensor
    assert y.dtype == x.dtype
    assert y.shape == x.T.shape
    assert raw(y) == raw(x.T)
    assert y.is_contiguous()
    assert y.stride() == torch.empty(shape[::-1]).stride()
    assert y.data_ptr() % 64 == 0
    assert not y.requires_grad
    assert not y.is_inference()


@pytest.mark.parametrize("dtype", DTYPES)
def test_rank_0(dtype: str) -> None:
    run = model(f"def @main(%x: Tensor[(1), {dtype}]) {{ squeeze(%x, axis=[0]) }}").returning(torch.Tensor)
    x = make(torch, dtype)[0, 1:2]
    assert raw(run(x)) == raw(x)
    assert run(x).shape == ()


def test_sizes_that_depend_on_data() -> None:
    run = model("def @main(%x: Tensor[(n), float32]) { argwhere(%x) }").returning(torch.Tensor)
    x = torch.zeros(LARGE)
    assert run(x).shape == (0, 1)
    x[3::2] = 1
    assert run(x).flatten().equal(x.nonzero().flatten())


@pytest.mark.parametrize("size", [4, LARGE])
def test_a_tensor_outlives_the_runtime(size: int) -> None:
    run = forge.IRModule("def @main(%x: Tensor[(n), float32]) { multiply(%x, %x) }").get_inference_function()
    view = run.returning(torch.Tensor)
    alive = weakref.ref(view)
    y = view(torch.full((size,), 3.0))
    del run, view
    gc.collect()
    assert alive() is None
    y += 1
    assert y.equal(torch.full((size,), 10.0))


def test_memory_is_given_back_with_the_last_tensor() -> None:
    run, x = squaring(), torch.ones(LARGE)
    first = run(x)
    address, part = first.data_ptr(), first[-2:]
    del first
    second = run(2 * x)
    assert second.data_ptr() != address
    assert part.tolist() == [1, 1]
    del part
    assert run(x).data_ptr() == address
    assert run(x).data_ptr() == address


def test_nothing_is_kept() -> None:
    run, x = model("def @main(%x: Tensor[(n), float32]) { add(%x, %x) }").returning(torch.Tensor, detach=True), torch.ones(8)
    run(x)
    held = sys.getrefcount(x), sys.getrefcount(run._model), sys.getrefcount(torch.Tensor), sys.getrefcount(None)
    for _ in range(1000):
        y = run(x)
        with pytest.raises(InputError, match="wrong dtype"):
            run(x.double())
    assert sys.getrefcount(y) == 2
    now = sys.getrefcount(x), sys.getrefcount(run._model), sys.getrefcount(torch.Tensor), sys.getrefcount(None)
    assert all(abs(after - before) < 100 for before, after in zip(held, now, strict=True))


def test_tensors_that_live_at_the_end_of_the_process() -> None:
    text = "def @main(%x: Tensor[(n), float32]) { add(%x, %x) }"
    code = f"""import forge, torch
run = forge.IRModule({text!r}).get_inference_function().returning(torch.Tensor)
torch.kept = [run(torch.ones(4)), run(torch.ones({LARGE}))]"""
    subprocess.run([sys.executable, "-c", code], check=True, timeout=250)


def test_threads() -> None:
    run = squaring()

    def work(number: int) -> Any:
        kept = [run(torch.full((LARGE if k % 5 == 0 else 7,), float(number))) for k in range(50)]
        assert all(bool((y == number**2).all()) for y in kept)
        return kept

    with ThreadPoolExecutor(8) as pool:
        for number, kept in enumerate(pool.map(work, range(24))):
            assert all(bool((y == number**2).all()) for y in kept)


def test_functions_and_limits() -> None:
    run = model("""def @main(%x: Tensor[(n), float32]) { add(%x, %x) }
def @square(%x: Tensor[(n), float32], public=True) { multiply(%x, %x) }""")
    x = torch.full((LARGE,), 3.0)
    for view in (run.returning(torch.Tensor)["square"], run["square"].returning(torch.Tensor),
                 run.limited(memory_limit=1 << 30).returning(torch.Tensor)["square"]):
        assert view(x).equal(x * x)
        assert view.limited(time_limit=100)(x).equal(x * x)
        assert isinstance(view.returning(np.ndarray)["main"](x), np.ndarray)
        with pytest.raises(MemoryLimitError):
            view.limited(memory_limit=1000)(x)
    assert isinstance(run["square"](x), np.ndarray)
    assert isinstance(run(x), np.ndarray)


def test_sessions() -> None:
    text = "def @main(%x: Tensor[(n), float32], state %t: Tensor[(n), float32]) { %0 = add(%x, %t); (%0, %t = %0) }"
    run = compile_module(forge.IRModule(text).mod, use_cache=False).runtime()
    session, x = run.returning(torch.Tensor).session(), torch.ones(3)
    assert session(x).tolist() == [1, 1, 1]
    kept = session(x)
    assert session.limited(time_limit=100)(x).equal(torch.full((3,), 3.0))
    assert kept.tolist() == [2, 2, 2]
    assert isinstance(session.state()["t"], np.ndarray)
    assert isinstance(session.returning(np.ndarray)(x), np.ndarray)
    assert run.session().returning(torch.Tensor, detach=True)(x.requires_grad_()).tolist() == [1, 1, 1]


def test_all_ways_to_call() -> None:
    run, x = squaring(), torch.full((3,), 2.0)
    assert run(x=x).tolist() == run([x]).tolist() == run.run([x])[0].tolist() == [4, 4, 4]
    run.infer(x)
    assert isinstance(run.get_output(0), torch.Tensor)
    assert isinstance(run(x.numpy()), torch.Tensor)
    given, array = torch.empty(3), np.empty(3, np.float32)
    assert run.run([x], [given])[0] is given
    assert run.run([x], {"output_0": array})[0] is array


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "complex64"])
def test_strides(dtype: str) -> None:
    x = torch.arange(48).reshape(2, 3, 2, 4).to(getattr(torch, dtype))
    run = model(f"def @main(%x: Tensor[(a, b, c, d), {dtype}]) {{ reshape(%x, newshape=[-1]) }}").returning(torch.Tensor)
    last = x.to(memory_format=torch.channels_last)
    for case in (last, x.transpose(1, 2), x[..., ::2], x[:, :, :1].expand(2, 3, 5, 4), x.flip(3)[1:]):
        assert run(case).equal(case.reshape(-1))


def test_gradients_end_here() -> None:
    x = torch.nn.Parameter(torch.arange(6.0).reshape(2, 3))
    refusing, taking = (transposing("float32").returning(torch.Tensor, detach=detach) for detach in (False, True))
    with pytest.raises(InputError, match=r"got requires_grad=True; pass tensor\.detach\(\)"):
        refusing(x)
    for case in (x, x.T, x * 2, x[:, ::2]):
        y = taking(case)
        assert y.equal(case.detach().T)
        assert not y.requires_grad
    assert transposing("float32").returning(np.ndarray, detach=True)(x).tolist() == x.T.tolist()
    held = model("def @main(%s: Sequence[Tensor[(n), float32]]) { sequence_at(%s, 1i64) }").returning(torch.Tensor, detach=True)
    assert held([x[0], x[1]]).tolist() == [3, 4, 5]
    assert x.requires_grad


@pytest.mark.parametrize(
    ("dtype", "change", "message"),
    [
        ("complex64", lambda x: (x + 1j).conj(), r"got is_conj\(\)=True; pass tensor\.resolve_conj\(\)"),
        ("float32", lambda x: (x + 1j).conj().imag, r"got is_neg\(\)=True; pass tensor\.resolve_neg\(\)"),
        ("float32", lambda x: (x.requires_grad_() + 1j).conj().imag, r"got is_neg\(\)=True; pass tensor\.resolve_neg\(\)"),
        ("float32", lambda x: x.double().requires_grad_(), "wrong dtype; got float64; expected float32"),
        ("float32", lambda x: x.to("meta"), "on another device; got meta"),
    ],
)
def test_what_stays_refused(dtype: str, change: Callable[[Any], Any], message: str) -> None:
    run = transposing(dtype).returning(torch.Tensor, detach=True)
    with pytest.raises(InputError, match=message):
        run(change(torch.ones(2, 3)))
    given = torch.ones(3, 2, dtype=getattr(torch, dtype), requires_grad=True)
    with pytest.raises(InputError, match=r"output 'output_0'.* got requires_grad=True"):
        run.run([given.detach().T], [given])


def test_inference_mode() -> None:
    run, outside = squaring(), torch.full((3,), 2.0)
    with torch.inference_mode():
        x = torch.full((3,), 2.0)
        y, z = run(x), run(outside)
        assert y.is_inference()
    assert run(x).tolist() == run(y.sqrt()).tolist() == z.tolist() == [4, 4, 4]
    assert not run(x).is_inference()
    assert (run(outside) * torch.ones(3, requires_grad=True)).requires_grad


def test_donated_tensors() -> None:
    adding = model("def @main(donated %x: Tensor[(n), float32], %w: Tensor[(n), float32]) { (%x = add(%x, %w)) }")
    w = torch.ones(LARGE)
    for run in (adding, adding.returning(torch.Tensor), adding.returning(torch.Tensor, detach=True)):
        x = torch.zeros(LARGE)
        given = donate(x)
        assert run(given, w) is x
        assert run.run([x, w], [x])[0] is x
        assert x.equal(2 * w)
        assert run(x, w)[0] == 3
        assert x.equal(2 * w)
        with pytest.raises(InputError, match="that an earlier call has taken"):
            run(given, w)
        for wrong in (x.clone().requires_grad_(), torch.zeros(LARGE, 2)[:, 0], x.double()):
            with pytest.raises(InputError):
                run(donate(wrong), w)
            assert not wrong.count_nonzero() or wrong[0] == 2
    with pytest.raises(InputError, match=r"^donate: got list; expected a NumPy array or an object with __dlpack__"):
        donate([1.0])


@pytest.mark.parametrize("cls", [list, 3, None, np.matrix])
def test_classes_without_a_table(cls: Any) -> None:
    with pytest.raises(InputError, match=r"^returning: got .*; expected numpy\.ndarray or a class with __dlpack_c_exchange"):
        squaring().returning(cls)


def test_classes_that_are_not_made() -> None:
    with pytest.raises(InputError, match=r"^returning: got .*Parameter'>; expected <class 'torch.Tensor'>"):
        squaring().returning(torch.nn.Parameter)


@pytest.mark.parametrize("element", ["string", "int4", "float4_e2m1fn", "optional"])
def test_outputs_that_are_no_tensors(element: str) -> None:
    type_ = "Optional[Tensor[(n), float32]]" if element == "optional" else f"Tensor[(n), {element}]"
    body = "optional_get_element(%x)" if element == "optional" else "%x"
    run = model(f"def @main(%x: {type_}) {{ {body} }}\ndef @same(%x: {type_}, public=True) {{ %x }}")
    expected = rf"^model '\w+': output 'x': got {element}; expected an element type that <class 'torch.Tensor'> has"
    with pytest.raises(InputError, match=expected):
        run.returning(torch.Tensor)["same"]


def test_calls_that_fail() -> None:
    text = "def @main(%s: Sequence[Tensor[(n), float32]], %i: Tensor[(), int64]) { sequence_at(%s, %i) }"
    run = model(text).returning(torch.Tensor)
    for _ in range(100):
        with pytest.raises(ExecutionError):
            run([torch.ones(4)], torch.tensor(7))


class _Table:
    """A class whose table fails from the second tensor on, after it has given the memory back or not."""

    def __init__(self, gives_back: bool) -> None:
        self.made, self.addresses = 0, []

        @ctypes.CFUNCTYPE(ctypes.c_int, ctypes.POINTER(producer.Versioned), ctypes.POINTER(ctypes.c_void_p))
        def make_object(managed: Any, out: Any) -> int:
            self.made += 1
            self.addresses.append(managed.contents.tensor.data)
            if self.made == 1 or gives_back:
                producer.DELETER(managed.contents.deleter)(ctypes.addressof(managed.contents))
            if self.made > 1:
                return -1
            made = self.cls()
            ctypes.pythonapi.Py_IncRef(ctypes.py_object(made))
            out[0] = id(made)
            return 0

        self.function = make_object
        self.table = producer.Exchange(1, 3, to_object=ctypes.cast(make_object, ctypes.c_void_p))
        capsule = producer.new_capsule(ctypes.addressof(self.table), producer.EXCHANGE_NAME, None)
        self.cls = type("Other", (), {"__dlpack_c_exchange_api__": capsule})


@pytest.mark.parametrize("gives_back", [False, True])
def test_tables_that_fail(gives_back: bool) -> None:
    table = _Table(gives_back)
    run, x = squaring().returning(table.cls), np.ones(LARGE * 4, np.float32)
    for _ in range(60):
        with pytest.raises(SystemError):
            run(x)
    assert len(set(table.addresses[-20:])) == 1
