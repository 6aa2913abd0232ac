"""Damaged files give ImportModelError or a module: no other exception, no hang, little memory."""

from __future__ import annotations

import random
import re
import time
import tracemalloc
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from forge import from_stablehlo
from forge.errors import ForgeError, ImportModelError
from forge.frontends.stablehlo.bytecode import read_bytecode
from forge.frontends.stablehlo.exported import read_exported
from forge.frontends.stablehlo.module import StablehloModule
from forge.frontends.stablehlo.text import read_text

DATA = Path(__file__).parent / "data"
SECONDS = 10
MEMORY = 64 << 20
"""Bytes: far more than what files of two kilobytes need, far less than what they can claim."""


def _text(data: bytes, where: str) -> StablehloModule:
    return read_text(data.decode("utf-8", "replace"), where)


READERS: dict[str, Callable[[bytes, str], object]] = {".bc": read_bytecode, ".mlir": _text, ".jaxexport": read_exported}
FILES = sorted(path for path in DATA.iterdir() if path.suffix in READERS)


def read(path: Path, data: bytes) -> bool:
    """Whether the data are a module still."""
    begin = time.monotonic()
    tracemalloc.start()
    try:
        READERS[path.suffix](data, path.name)
        return True
    except ImportModelError as error:
        assert str(error).startswith(path.name) and len(str(error)) < 5000
        return False
    finally:
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert time.monotonic() - begin < SECONDS and peak < MEMORY


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_truncated_files_are_refused(path: Path) -> None:
    data = path.read_bytes().rstrip()
    step = max(1, len(data) // 60)
    for size in range(0, len(data) - 16, step):  # there may be padding at the end
        assert not read(path, data[:size])


@pytest.mark.sampled(6)
@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_changed_bytes_are_a_module_or_an_error(path: Path) -> None:
    data, numbers = path.read_bytes(), random.Random(path.name)
    outcomes = set()
    for _ in range(120):
        changed = bytearray(data)
        for _ in range(numbers.choice((1, 1, 2, 8))):
            changed[numbers.randrange(len(data))] = numbers.choice((0, 1, 2, 0x7F, 0x80, 0xFE, 0xFF, numbers.randrange(256)))
        outcomes.add(read(path, bytes(changed)))
    assert False in outcomes


@given(st.data())
@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
def test_moved_parts_are_a_module_or_an_error(draw: st.DataObject) -> None:
    """Parts are swapped, repeated, left out, or come from another file."""
    path, other = draw.draw(st.sampled_from(FILES)), draw.draw(st.sampled_from(FILES))
    data, more = path.read_bytes(), other.read_bytes()
    begin, end = sorted(draw.draw(st.tuples(st.integers(0, len(data)), st.integers(0, len(data)))))
    place = draw.draw(st.integers(0, len(data)))
    first, last = sorted(draw.draw(st.tuples(st.integers(0, len(more)), st.integers(0, len(more)))))
    read(path, draw.draw(st.sampled_from([
        data[:begin] + data[end:], data[:place] + data[begin:end] + data[place:], data[:place] + more[first:last] + data[place:],
        data[:begin] + more[first:last] + data[end:], data[:begin] + data[begin:end][::-1] + data[end:]])))  # fmt: skip


def test_all_that_files_say_twice_is_compared() -> None:
    """One byte that is one more, anywhere: each check of numbers that have to agree sees some of them."""
    said: set[str] = set()
    for name in ("nested.0.16.0.mlir.bc", "resources.1.17.0.mlir.bc"):
        data = (DATA / name).read_bytes()
        for place in range(4, len(data)):
            for more in (2, 4):
                try:
                    read_bytecode(data[:place] + bytes([(data[place] + more) % 256]) + data[place + 1 :], "file")
                except ImportModelError as error:
                    said.add(str(error))
    for part in (
        "values; expected", "behind its properties", "bytes of strings; expected", "bytes of elements; expected",
        "which is not defined before it is used", "behind an attribute; expected none", "the end of a part of the bytecode",
        "got operands of other types than its results", "which has no contents in this file",
    ):  # fmt: skip
        assert any(part in text for text in said), part


_VALUE = re.compile(r"= ((?:[\w.#]*<[^>]*>|\[[^\]]*\]|\"[^\"]*\"|[^,>} ]+)(?: : [\w<>]+)?)(?=[,>}])|(tensor<[^<>]*>)")
TEXTS = [path for path in FILES if path.suffix == ".mlir" and _VALUE.search(path.read_text())]
_STRANGE = (
    "[1, [2]]", "{a = dense<[1, 2]> : tensor<2xi64>}", "dense<1> : tensor<99999999999xi64>", "dense<0> : tensor<99999x99999xi64>",
    "1.5", "true", "@f", "() -> ()", "unit", "#stablehlo<precision HIGH>", "[]", "{}", "[dense<[1, 2]> : tensor<2xi64>]",
    "{handle = dense<[1, 2]> : tensor<2xi64>, type = 0}")


@pytest.mark.sampled(3)
@pytest.mark.parametrize("path", TEXTS, ids=lambda path: path.name)
def test_attributes_of_other_kinds_are_a_module_or_an_error(path: Path) -> None:
    text, numbers = path.read_text(), random.Random(path.name)
    places = [found.span(found.lastindex or 0) for found in _VALUE.finditer(text)]
    for _ in range(120):
        begin, end = numbers.choice(places)
        first, last = numbers.choice(places)
        read(path, (text[:begin] + numbers.choice((text[first:last], numbers.choice(_STRANGE))) + text[end:]).encode())


@given(st.binary(max_size=200))
@settings(max_examples=100, deadline=None)
def test_any_bytes_are_refused(data: bytes) -> None:
    for path in (DATA / "any.bc", DATA / "any.jaxexport"):
        assert not read(path, data)
        assert not read(path, b"ML\xefR\r" + data)


def test_functions_that_call_each_other_without_end_are_refused_in_one_line() -> None:
    text = "\n".join(
        f"func.func {private} @{name}(%a: tensor<f32>) -> tensor<f32> {{\n"
        f" %r = call @{other}(%a) : (tensor<f32>) -> tensor<f32>\n return %r : tensor<f32>\n}}"
        for name, other, private in (("main", "f", ""), ("f", "g", "private"), ("g", "f", "private")))
    with pytest.raises(ImportModelError, match=r"^StableHLO module: func\.call: functions are nested more than 32 deep"):
        from_stablehlo(text)


_SIZES = "tensor<1099511627776xi64>"
_COMPARATOR = (
    "^bb0(%l: tensor<f32>, %r: tensor<f32>):\n %c = stablehlo.compare LT, %l, %r : (tensor<f32>, tensor<f32>) -> tensor<i1>\n")


@pytest.mark.parametrize(("operation", "message"), [
    (f'"stablehlo.dynamic_broadcast_in_dim"(%a, %n) {{broadcast_dimensions = array<i64: 0>}} : (tensor<2xf32>, {_SIZES}) -> '
     "tensor<?xf32>", r"output_dimensions: got .*1099511627776.*; expected a vector of 1, the rank of the result"),
    ('"stablehlo.constant"() : () -> tensor<2xf32>', "got no attribute 'value'; expected the elements of the constant"),
    (f'"stablehlo.sort"(%a) ({{ {_COMPARATOR} %n1 = "stablehlo.and"() : () -> tensor<i1>\n %o = stablehlo.or %c, %n1 : tensor<i1>'
     "\n stablehlo.return %o : tensor<i1> }) : (tensor<2xf32>) -> tensor<2xf32>", "stablehlo.and"),
])  # fmt: skip
def test_operations_that_cannot_be_are_refused_before_memory_is_taken(operation: str, message: str) -> None:
    result = operation.rpartition("-> ")[2]
    text = f"func.func @main(%a: tensor<2xf32>, %n: {_SIZES}) -> {result} {{\n %r = {operation}\n return %r : {result}\n}}"
    with pytest.raises(ForgeError, match=message):
        from_stablehlo(text)


def test_attributes_that_refer_to_one_another_do_not_explode() -> None:
    aliases = "\n".join(f"#a{i} = [#a{i - 1}, #a{i - 1}]" for i in range(1, 60))
    types = "\n".join(f"!t{i} = tuple<!t{i - 1}, !t{i - 1}>" for i in range(1, 60))
    for text in (f"#a0 = 1\n{aliases}", f"!t0 = tensor<f32>\n{types}"):
        assert not read(DATA / "any.mlir", text.encode())
