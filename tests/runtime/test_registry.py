"""Functions of Python that models call by name."""

from __future__ import annotations

import ctypes
import time
import traceback
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Any

import numpy as np
import pytest

from forge_runtime import FunctionError, _native, get_registered_func, register_func, registry, remove_registered_func


@pytest.fixture(autouse=True)
def only_own_functions() -> Iterator[None]:
    before = {name for name, entry in registry._ENTRIES.items() if entry.function is not None}
    yield
    for name in {name for name, entry in registry._ENTRIES.items() if entry.function is not None} - before:
        remove_registered_func(name)


def test_three_ways_to_register() -> None:
    def first(x: Any) -> None: ...

    assert register_func("test.first", first) is first

    @register_func("test.second")
    def second(x: Any) -> None: ...

    @register_func
    def third(x: Any) -> None: ...

    @register_func()
    def fourth(x: Any) -> None: ...

    found = [get_registered_func(name) for name in ("test.first", "test.second", "third", "fourth", "fifth")]
    assert found == [first, second, third, fourth, None]


def test_a_name_is_taken_once_unless_overridden() -> None:
    register_func("test.f", print)
    with pytest.raises(FunctionError, match=r"register_func: 'test.f' is registered already; pass override=True"):
        register_func("test.f", len)
    assert get_registered_func("test.f") is print
    register_func("test.f", len, override=True)
    assert get_registered_func("test.f") is len
    remove_registered_func("test.f")
    register_func("test.f", print)
    assert get_registered_func("test.f") is print


def test_of_two_threads_one_registers(monkeypatch: pytest.MonkeyPatch) -> None:
    class Slow(registry._Entry):
        def __init__(self, name: str) -> None:
            time.sleep(0.05)
            super().__init__(name)

    monkeypatch.setattr(registry, "_Entry", Slow)

    def register(function: Callable[..., Any]) -> Callable[..., Any] | None:
        with suppress(FunctionError):
            return register_func("test.raced", function)
        return None

    functions = [lambda: None, lambda: None]
    with ThreadPoolExecutor(2) as pool:
        registered = [found for found in pool.map(register, functions) if found is not None]
    assert registered == [get_registered_func("test.raced")]


def test_an_exception_holds_no_memory_of_the_model(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its traceback outlives the call."""
    def refuse(*_: Any) -> None:
        raise MemoryError

    monkeypatch.setattr(registry, "_empty", refuse)
    memory = memoryview(bytearray(8))
    with pytest.raises(MemoryError) as raised:
        registry._Entry("test.f")([(memory, "float32", (2,))], [])
    frames = [frame.f_locals for frame, _ in traceback.walk_tb(raised.tb)]
    assert not [value for values in frames for value in values.values() if isinstance(value, np.ndarray)]


def test_results_of_foreign_byte_order_are_named() -> None:
    register_func("test.f", lambda x: np.zeros(2, ">f4"))
    with pytest.raises(FunctionError, match=r"result 0; got float32 of foreign byte order \[2\]; expected float32 \[2\]"):
        registry.call("test.f", [], [np.zeros(2, np.float32)])


@pytest.mark.parametrize(("arguments", "message"), [
    (("", print), "name; got ''; expected printable text that is not empty"),
    ((3, print), "name; got 3"),
    (("\ud800", print), "name; got '.ud800'"),
    (("a\0b", print), "name; got 'a.x00b'"),
    (("test.g", 3), "'test.g'; got int; expected a function"),
])
def test_what_is_no_registration_is_refused(arguments: tuple[Any, ...], message: str) -> None:
    with pytest.raises(FunctionError, match=message):
        register_func(*arguments)


def test_no_name_is_refused_in_c() -> None:
    library = ctypes.CDLL(_native.__file__)
    assert library.forge_register(None, None, None, 0, None) == library.forge_unregister(None, None) == 1  # FORGE_ERROR_INPUT


def test_removing_what_is_not_there_is_refused() -> None:
    with pytest.raises(FunctionError, match=r"remove_registered_func: no function is registered as 'test.nothing'"):
        remove_registered_func("test.nothing")
