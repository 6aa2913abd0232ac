"""Tensors of others: what goes into a model and what comes out of it by DLPack, and every way in which that can be wrong."""

from __future__ import annotations

import array
import ctypes
import gc
import sys
import threading
import weakref
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import forge
from forge_runtime import ExchangeError, InputError, Runtime, Tensor
from forge_runtime.arrays import as_array, numpy_dtype
from tests.runtime.dlpack_producer import (
    CODES,
    IS_COPIED,
    PADDED,
    READ_ONLY,
    ExchangeProducer,
    OldProducer,
    Producer,
    elements,
    lent,
)

PACKED = ("int2", "uint2", "int4", "uint4", "float4_e2m1fn")
WHOLE = [dtype for dtype in CODES if dtype not in PACKED]


@cache
def transposing(dtype: str) -> Runtime:
    """A model of one input ``x`` of two symbolic sizes, whose output is its transpose."""
    text = f"def @main(%x: Tensor[(n, m), {dtype}]) {{ transpose(%x, axes=[1, 0]) }}"
    return forge.IRModule(text).get_inference_function()


@cache
def adding() -> Runtime:
    text = "def @main(%x: Tensor[(n), float32], %y: Tensor[(n), float32]) { add(%x, %y) }"
    return forge.IRModule(text).get_inference_function()


def sample(dtype: str, *shape: int) -> Any:
    numbers = np.arange(np.prod(shape)).reshape(shape) % 3
    return (numbers % 2 if "2" in dtype[-1:] or dtype == "bool" else numbers).astype(numpy_dtype(dtype))


def sizes(*numbers: int) -> Any:
    return ctypes.cast((ctypes.c_int64 * len(numbers))(*numbers), ctypes.POINTER(ctypes.c_int64))


def storage(array: Any) -> Any:
    return array.view(f"u{array.itemsize}") if array.dtype.isbuiltin != 1 else array


def is_same(got: Any, expected: Any) -> bool:
    return got.dtype == expected.dtype and got.shape == expected.shape and got.tobytes() == expected.tobytes()


@pytest.fixture(params=[True, False], ids=["versioned", "unversioned"])
def versioned(request: pytest.FixtureRequest) -> bool:
    return bool(request.param)


@pytest.mark.parametrize("dtype", WHOLE)
def test_every_element_type_goes_in_where_it_lies(dtype: str, versioned: bool) -> None:
    array = sample(dtype, 2, 3)
    producer = Producer(array, versioned=versioned)
    assert is_same(transposing(dtype)(producer), array.T) and producer.asked == producer.deleted == 1
    view = as_array(producer, "x")
    assert is_same(view, array) and view.ctypes.data == array.ctypes.data and producer.deleted == 1
    del view
    assert producer.deleted == 2


@pytest.mark.parametrize("dtype", PACKED)
def test_elements_of_less_than_a_byte(dtype: str, versioned: bool) -> None:
    array = sample(dtype, 3, 5)
    packed = lent(array.view(Tensor).__dlpack__(max_version=(1, 1))).tensor
    size = -(-15 * packed.bits // 8)
    memory = np.frombuffer(ctypes.string_at(packed.data, size), np.uint8)
    bits = sum(int(byte) << 8 * k for k, byte in enumerate(memory))
    expected = [value % 2**packed.bits for value in (storage(array) if dtype[0] == "f" else array.astype(int)).ravel().tolist()]
    assert [bits >> packed.bits * k & 2**packed.bits - 1 for k in range(15)] == expected
    shape = sizes(3, 5)
    producer = Producer(memory, dtype, versioned=versioned, strides=False, ndim=2, shape=shape)
    assert is_same(transposing(dtype)(producer), np.ascontiguousarray(array.T)) and producer.asked == producer.deleted
    padded = Producer(storage(array), dtype, flags=PADDED)
    assert is_same(transposing(dtype)(padded), np.ascontiguousarray(array.T)) and padded.asked == padded.deleted


def test_negative_numbers_of_four_bits_are_packed_and_unpacked() -> None:
    array = np.array([[-8, 7, -1]], ml_dtypes.int4)
    assert transposing("int4")(Lender(array.view(Tensor))).tolist() == [[-8], [7], [-1]]


class Lender:
    """Something that is not a NumPy array."""

    def __init__(self, tensor: Tensor) -> None:
        self.tensor = tensor

    def __dlpack__(self, **options: Any) -> Any:
        return self.tensor.__dlpack__(**options)

    def __dlpack_device__(self) -> tuple[int, int]:
        return self.tensor.__dlpack_device__()


def strided() -> dict[str, Any]:
    base = np.arange(24, dtype=np.float32).reshape(4, 6)
    return {
        "contiguous": base,
        "transposed": base.T,
        "steps": base[::2, ::3],
        "backwards": base[::-1, ::-2],
        "broadcast": np.broadcast_to(np.float32(3), (3, 4)),
        "one row of a step": base[1:2, ::2],
        "no elements": base[:0],
        "no columns": base[:, 3:3],
    }


@pytest.mark.parametrize("case", strided())
def test_strides(case: str, versioned: bool) -> None:
    array = strided()[case]
    producer = Producer(array, versioned=versioned)
    assert is_same(transposing("float32")(producer), np.ascontiguousarray(array.T)) and producer.asked == producer.deleted == 1


def test_memory_without_strides_or_with_an_offset(versioned: bool) -> None:
    array = sample("float32", 3, 4)
    assert is_same(transposing("float32")(Producer(array, versioned=versioned, strides=False)), np.ascontiguousarray(array.T))
    shape = sizes(2, 4)
    part = Producer(array, versioned=versioned, strides=False, byte_offset=16, shape=shape)
    assert is_same(transposing("float32")(part), np.ascontiguousarray(array[1:].T))
    padded = np.zeros(array.nbytes + 1, np.uint8)
    padded[1:] = np.frombuffer(array.tobytes(), np.uint8)
    misaligned = Producer(array, data=padded.ctypes.data, byte_offset=1, versioned=versioned)
    assert is_same(transposing("float32")(misaligned), np.ascontiguousarray(array.T)) and misaligned.deleted == 1


def test_rank_0_and_nothing_at_address_0() -> None:
    double = forge.IRModule("def @main(%x: Tensor[(), float32]) { add(%x, %x) }").get_inference_function()
    assert double(Producer(np.array(2, np.float32))).tolist() == 4
    empty = Producer(np.empty((0, 3), np.float32), data=None)
    assert transposing("float32")(empty).shape == (3, 0) and empty.deleted == 1


def test_a_producer_of_before_version_1() -> None:
    array = sample("float32", 2, 3)
    producer = OldProducer(array)
    assert is_same(transposing("float32")(producer), np.ascontiguousarray(array.T)) and producer.asked == producer.deleted == 1


def test_a_producer_with_the_table_of_functions() -> None:
    array = sample("float32", 4, 3)
    plain, steps, out = ExchangeProducer(array), ExchangeProducer(array[::2]), ExchangeProducer(np.zeros((3, 4), np.float32))
    assert transposing("float32").run([plain], [out])[0] is out and is_same(out.array, np.ascontiguousarray(array.T))
    assert (plain.viewed, plain.asked, out.asked, out.deleted) == (1, 0, 1, 1)
    assert is_same(transposing("float32")(steps), np.ascontiguousarray(array[::2].T)) and steps.asked == steps.deleted == 1
    with pytest.raises(InputError, match="output 'output_0': the array must be C-contiguous, aligned and writable"):
        transposing("float32").run([plain], [ExchangeProducer(np.zeros((3, 4), np.float32), flags=READ_ONLY)])
    with pytest.raises(InputError, match="got cuda:3; expected cpu"):
        transposing("float32")(ExchangeProducer(array, device_type=2, device_id=3))


def test_a_tensor_with_a_buffer_is_not_asked_for_a_capsule() -> None:
    class Buffered(array.array):  # type: ignore[type-arg]
        asked = 0

        def __dlpack__(self, **options: Any) -> Any:
            type(self).asked += 1
            raise OwnError("no capsule")

    ones = np.ones(2, np.float32)
    assert adding()(Buffered("f", [1, 2]), ones).tolist() == [2, 3] and Buffered.asked == 0
    wrong = Buffered("d", [1, 2])
    with pytest.raises(InputError, match="input 'x': cannot be read as an array"):
        adding()(wrong, ones)
    wrong.append(3)  # no buffer of it is held
    with pytest.raises(InputError, match="input 'x': not an array; got array"):
        adding()(array.array("f", [1, 2]), ones)


def test_read_only_memory_is_read(versioned: bool) -> None:
    array = sample("float32", 2, 3)
    producer = Producer(array, versioned=versioned, flags=READ_ONLY)
    assert is_same(transposing("float32")(producer), np.ascontiguousarray(array.T))
    assert not as_array(producer, "x").flags.writeable
    assert as_array(Producer(array), "x").flags.writeable


def refused() -> dict[str, tuple[Callable[[Any], Any], str]]:
    return {
        "cuda": (lambda x: Producer(x, device_type=2, device_id=1), r"on another device; got cuda:1; expected cpu; pass a copy"),
        "rocm": (lambda x: Producer(x, device_type=10), r"got rocm:0"),
        "version": (lambda x: Producer(x, version=(2, 0)), r"its DLPack has version 2\.0; expected 1"),
        "code": (lambda x: Producer(x, code=9, bits=8), r"DLPack type code 9, 8 bits, 1 lanes"),
        "bits": (lambda x: Producer(x, bits=128), r"DLPack type code 2, 128 bits, 1 lanes"),
        "lanes": (lambda x: Producer(x, lanes=4), r"DLPack type code 2, 32 bits, 4 lanes"),
        "no memory": (lambda x: Producer(x, data=None), r"it has no memory of its own"),
        "packed strides": (lambda x: Producer(x.T, code=0, bits=4), r"elements of 4 bits are packed, but not contiguous"),
        "dtype": (lambda x: Producer(x, code=1), r"wrong dtype; got uint32; expected float32"),
        "half": (lambda x: Producer(x.astype(np.float16)), r"wrong dtype; got float16; expected float32"),
        "rank": (lambda x: Producer(x[0]), r"wrong rank; got 1, shape \[3\]; expected 2"),
        "high rank": (lambda x: Producer(x.reshape(2, 3, *[1] * 9)), r"rank out of range; got 11; expected at most 8"),
        "high rank, strided": (lambda x: Producer(x.T.reshape(3, 2, *[1] * 9)), r"rank out of range; got 11; expected at most 8"),
    }


@pytest.mark.parametrize("case", refused())
def test_refused_inputs(case: str, versioned: bool) -> None:
    make, message = refused()[case]
    producer = make(sample("float32", 2, 3))
    if not versioned and case != "version":
        producer = type(producer)(producer.array, versioned=False, **changes(producer))
    with pytest.raises(InputError, match=rf"^model 'main': (input 'x': )?.*{message}"):
        transposing("float32")(producer)
    assert producer.asked == producer.deleted and (producer.asked == 0) == (case in ("cuda", "rocm"))


def changes(producer: Any) -> dict[str, Any]:
    """The fields of a versioned producer, for one of the other kind."""
    tensor = producer.managed.tensor
    names = ("data", "device_type", "device_id", "code", "bits", "lanes")
    return {name: getattr(tensor, name) for name in names}


class Raising:
    def __init__(self, error: BaseException, device: Any = (1, 0)) -> None:
        self.error, self.place = error, device

    def __dlpack__(self, **options: Any) -> Any:
        raise self.error

    def __dlpack_device__(self) -> Any:
        return self.place


class OwnError(Exception):
    """As libraries define theirs."""


@pytest.mark.parametrize("error", [BufferError, RuntimeError, TypeError, ValueError, OwnError])
def test_what_a_library_raises_is_in_the_message(error: type[Exception]) -> None:
    with pytest.raises(InputError, match="input 'x': cannot be read as an array: no way; got Raising"):
        transposing("float32")(Raising(error("no way")))
    with pytest.raises(InputError, match="output 'output_0': cannot be written: no way; got Raising"):
        transposing("float32").run([sample("float32", 2, 3)], [Raising(error("no way"))])


def test_ctrl_c_in_a_library_is_not_lost() -> None:
    for call in (
        lambda: transposing("float32")(Raising(KeyboardInterrupt())),
        lambda: transposing("float32").run([sample("float32", 2, 3)], [Raising(KeyboardInterrupt())]),
    ):
        with pytest.raises(KeyboardInterrupt):
            call()


def test_answers_that_are_none() -> None:
    class Answers(Producer):
        def __dlpack__(self, **options: Any) -> Any:
            return "capsule"

    with pytest.raises(InputError, match='__dlpack__ gave \'capsule\'; expected a capsule "dltensor_versioned" or "dltensor"'):
        transposing("float32")(Answers(sample("float32", 2, 3)))
    with pytest.raises(InputError, match=r"__dlpack_device__ gave \[1\]; expected a pair of integers"):
        transposing("float32")(Raising(ValueError(), device=[1]))


def test_tensorflow_is_not_asked_for_memory_of_objects() -> None:
    class Strings(Raising):
        class dtype:  # noqa: N801
            as_numpy_dtype = object

        def __array__(self, dtype: Any = None, copy: Any = None) -> Any:
            return np.array(["b", "a"], object)

    strings = Strings(AssertionError("it would end the process"))
    assert as_array(strings, "x").tolist() == ["b", "a"]
    with pytest.raises(InputError, match="wrong dtype; got object; expected float32"):
        transposing("float32")(strings)


def test_what_has_no_capsule_comes_as_its_array() -> None:
    array = sample("float32", 2, 3)

    class Converts(Raising):
        def __array__(self, dtype: Any = None, copy: Any = None) -> Any:
            return array

    assert is_same(transposing("float32")(Converts(OwnError())), np.ascontiguousarray(array.T))
    with pytest.raises(InputError, match="got cuda:0"):
        transposing("float32")(Converts(OwnError(), device=(2, 0)))


@pytest.mark.parametrize("dtype", WHOLE)
def test_given_outputs_are_written_in_place(dtype: str) -> None:
    array, out = sample(dtype, 2, 3), np.zeros((3, 2), numpy_dtype(dtype))
    producer = Producer(out)
    assert transposing(dtype).run([array], [producer])[0] is producer and is_same(out, np.ascontiguousarray(array.T))
    assert producer.asked == producer.deleted == 1


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda x: Producer(x, flags=READ_ONLY), "must be C-contiguous, aligned and writable"),
        (lambda x: Producer(x, versioned=False), "which tensors of jax and tensorflow are not"),
        (lambda x: Producer(np.asfortranarray(x)), "must be C-contiguous, aligned and writable"),
        (lambda x: Producer(x.T), r"wrong array; got float32 \[2, 3\]; expected float32 \[3, 2\]"),
        (lambda x: Producer(x.astype(np.float64)), r"got float64 \[3, 2\]; expected float32"),
        (lambda x: Producer(x, device_type=2), "got cuda:0; expected cpu"),
        (lambda x: Producer(x, lanes=2), "cannot be written: its elements have DLPack type code 2, 32 bits, 2 lanes"),
        (lambda x: Producer(x, code=0, bits=4), "several elements a byte; got Producer of int4; pass"),
    ],
)
def test_refused_outputs(make: Callable[[Any], Any], message: str) -> None:
    out = np.zeros((3, 2), np.float32)
    producer = make(out)
    with pytest.raises(InputError, match=rf"^model 'main': output 'output_0': .*{message}"):
        transposing("float32").run([sample("float32", 2, 3)], [producer])
    assert producer.asked == producer.deleted and not out.any()


def test_an_output_over_an_input_is_refused() -> None:
    array = np.ones(3, np.float32)
    with pytest.raises(InputError, match="memory of output 'output_0' overlaps that of 'x'"):
        adding().run([Producer(array), Producer(array)], [Producer(array)])


def test_many_threads_give_everything_back() -> None:
    producers = [Producer(np.full(64, k, np.float32), versioned=bool(k % 2)) for k in range(16)]
    barrier = threading.Barrier(4)

    def call(thread: int) -> None:
        barrier.wait()
        for k in range(200):
            left, right = producers[(k + thread) % 16], producers[(3 * k + thread) % 16]
            assert adding()(left, right)[5] == left.array[0] + right.array[0]

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(call, range(4)))
    assert all(producer.asked >= producer.deleted > 0 for producer in producers)
    gc.collect()
    assert sum(producer.asked for producer in producers) == 1600


def test_calls_keep_no_references() -> None:
    array = sample("float32", 2, 3)
    good, wrong = Producer(array), Producer(array, lanes=2)
    counts = [sys.getrefcount(item) for item in (array, good, wrong)]
    for _ in range(100):
        transposing("float32")(good)
        transposing("float32").run([good], [Producer(np.empty((3, 2), np.float32))])
        with pytest.raises(InputError):
            transposing("float32")(wrong)
    gc.collect()
    assert [sys.getrefcount(item) for item in (array, good, wrong)] == counts
    assert (good.asked, good.deleted) == (200, 200) and wrong.asked == wrong.deleted


@pytest.mark.parametrize("dtype", WHOLE)
def test_outputs_are_lent_where_they_lie(dtype: str, versioned: bool) -> None:
    output = transposing(dtype)(sample(dtype, 2, 3))
    assert type(output) is (Tensor if numpy_dtype(dtype).isbuiltin != 1 else np.ndarray)
    tensor = output.view(Tensor)
    capsule = tensor.__dlpack__(max_version=(1, 0) if versioned else None)
    managed = lent(capsule, versioned)
    assert (managed.tensor.code, managed.tensor.bits, managed.tensor.lanes) == (*CODES[dtype], 1)
    assert managed.tensor.data == output.ctypes.data and managed.tensor.shape[:2] == [3, 2]
    assert (managed.tensor.device_type, managed.tensor.device_id) == tensor.__dlpack_device__() == (1, 0)
    if not dtype.startswith("complex"):
        assert elements(managed.tensor) == output.view(f"u{output.itemsize}").ravel().tolist()
    if versioned:
        assert (managed.major, managed.flags) == (1, 0)


def test_a_capsule_keeps_the_memory_until_its_end() -> None:
    for take in (False, True):
        array = np.arange(3, dtype=np.float32)
        alive = weakref.ref(array)
        capsule = array.view(Tensor).__dlpack__(max_version=(1, 0))
        del array
        gc.collect()
        assert alive() is not None
        if take:
            taken = as_array(Capsule(capsule), "x")
            del capsule
            gc.collect()
            assert taken.tolist() == [0, 1, 2] and alive() is not None
            del taken
        else:
            del capsule
        gc.collect()
        assert alive() is None


class Capsule:
    def __init__(self, capsule: Any) -> None:
        self.capsule = capsule

    def __dlpack__(self, **options: Any) -> Any:
        return self.capsule

    def __dlpack_device__(self) -> tuple[int, int]:
        return (1, 0)


def test_a_capsule_serves_once() -> None:
    taken = Capsule(np.ones((2, 3), np.float32).view(Tensor).__dlpack__(max_version=(1, 0)))
    transposing("float32")(taken)
    with pytest.raises(InputError, match="expected a capsule"):
        transposing("float32")(taken)


@pytest.mark.parametrize("case", strided())
def test_lent_strides(case: str) -> None:
    array = strided()[case]
    capsule = array.view(Tensor).__dlpack__(max_version=(1, 0))
    assert elements(lent(capsule).tensor) == array.copy().view(np.uint32).ravel().tolist()


def test_numpy_takes_tensors() -> None:
    tensor = np.arange(6.0).reshape(2, 3).view(Tensor)
    view = np.from_dlpack(tensor)
    assert view.tolist() == tensor.tolist() and np.shares_memory(view, tensor)
    assert type(tensor[0]) is type(tensor * 2) is Tensor


def test_copies_and_read_only_memory() -> None:
    tensor = np.arange(6.0).reshape(2, 3).view(Tensor)
    tensor.flags.writeable = False
    assert lent(tensor.__dlpack__(max_version=(1, 0))).flags == READ_ONLY
    copied = lent(tensor.T.__dlpack__(max_version=(1, 0), copy=True))
    assert copied.flags == IS_COPIED and copied.tensor.data != tensor.ctypes.data and copied.tensor.strides[:2] == [2, 1]
    assert lent(tensor.__dlpack__(copy=True), versioned=False).tensor.data != tensor.ctypes.data
    assert lent(np.ones(3, ml_dtypes.int4).view(Tensor).__dlpack__(max_version=(1, 1))).flags == IS_COPIED


@pytest.mark.parametrize(
    ("array", "options", "message"),
    [
        (np.ones(2), {"stream": 1}, "tensor: stream; got 1; expected None"),
        (np.ones(2), {"dl_device": (2, 0)}, r"tensor: device; got \(2, 0\); expected \(1, 0\), the CPU"),
        (np.broadcast_to(1.0, 3), {}, r"tensor: read-only, .* pass copy=True"),
        (np.ones(2, ml_dtypes.int4), {"copy": False}, "tensor: int4 is packed for DLPack; got copy=False"),
        (np.array(["a"]), {}, r"tensor: element type str32 has no type in DLPack; got <U1 \[1\]"),
        (np.array([None]), {}, r"tensor: element type object has no type in DLPack; got object \[1\]"),
        (np.ones(2, ">f4"), {}, "tensor: byte order; got >f4; expected this machine's"),
        (np.zeros(3, "f4,i1")["f0"], {}, "tensor: its strides are not multiples of its elements"),
    ],
)
def test_what_cannot_be_lent(array: Any, options: dict[str, Any], message: str) -> None:
    with pytest.raises(ExchangeError, match=message) as caught:
        array.view(Tensor).__dlpack__(**options)
    assert isinstance(caught.value, BufferError) and isinstance(caught.value, forge.ForgeError)


@pytest.mark.parametrize("dtype", [*PACKED, "bfloat16", "float8_e5m2"])
def test_arrays_of_types_without_a_buffer(dtype: str) -> None:
    array = sample(dtype, 4, 6)
    for given in (array, array.view(Tensor), array[::2, ::-1], array.T, array[:0], as_array(array, "x")):
        count = sys.getrefcount(given)
        output = transposing(dtype)(given)
        assert is_same(output, np.ascontiguousarray(given.T)) and type(output) is Tensor
        assert sys.getrefcount(given) == count
    for wrong in (storage(array), array.astype(np.float32)):
        with pytest.raises(InputError, match=f"input 'x': wrong dtype; got {wrong.dtype}; expected {dtype}"):
            transposing(dtype)(wrong)
