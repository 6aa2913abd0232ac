"""Rows of the operators on strings, and of movement, choice and conversion of strings."""

from __future__ import annotations

from typing import Any

import numpy as np

from forge import dtypes
from forge.ops.core.strings import packed
from tests.ops.case import Case, Constant, Fixed, row

LONG = "x" * 70_000
ODD = ["", "\0", "a\0b", "é", "日本", "\U0001f600", "e\u0301", "\udc80\udcff", " "]


def strings(values: Any) -> np.ndarray:
    """An array of dtype object from nested lists of ``str``."""
    return np.array(values, dtype=object)


NOTHING = np.empty((0,), object)
EMPTY_ROWS = np.empty((2, 0), object)


def _each(function: Any) -> Any:
    return np.frompyfunc(function, 2, 1)


def joined(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    return np.asarray(_each(lambda x, y: x + y)(a, b), object)


def arithmetic_rows() -> list[Case]:
    return [
        row("string.concat", [strings(ODD), strings(ODD[::-1])], joined),
        row("string.concat", [strings([["a"], ["b"]]), strings(["x", "", "\0"])], joined, symbolic=False),
        row("string.concat", [strings(["a", "b"]), Constant(strings("!"))], joined),
        row("string.concat", [strings("é"), strings("")], joined),
        row("string.concat", [strings([LONG, ""]), strings([LONG, LONG])], joined),
        row("string.concat", [NOTHING, strings(["a"])], joined),
        row("string.concat", [EMPTY_ROWS, EMPTY_ROWS], joined),
        row("string.equal", [strings(ODD), strings(["", "\0", "a\0c", "e", "日本", "\U0001f601", "é", "\udc80\udcfe", " "])],
            lambda a, b: np.array([x == y for x, y in zip(a, b, strict=True)])),
        row("string.not_equal", [strings([["a", "b"]]), strings([["a"], ["b"]])],
            lambda a, b: np.array([[False, True], [True, False]]), symbolic=False),
        row("equal", [strings([LONG, LONG + "a", "a"]), strings([LONG, LONG + "b", "ab"])],
            lambda a, b: np.array([True, False, False])),
        row("not_equal", [strings(["a", "b"]), strings(["b"])], lambda a, b: np.array([True, False]), symbolic=False),
        row("equal", [NOTHING, NOTHING], lambda a, b: np.zeros(0, bool)),
    ]


def split_rows() -> list[Case]:
    spaces = strings([" a  b\tc ", "", "x\u3000y\x85z\xa0\u2028w", " \n ", "abc", "\u200bq\x1cr"])
    both = [strings([["a", "b", "c", ""], ["x", "", "", ""]]), np.array([3, 1])]
    commas = strings(["a,b,,c", ",", "", "abc", ",,"])
    return [
        row("string.split", [spaces], None),
        row("string.split", [spaces], None, maxsplit=1),
        row("string.split", [spaces], None, maxsplit=0),
        row("string.split", [commas], None, delimiter=","),
        row("string.split", [commas], None, delimiter=",", maxsplit=2),
        row("string.split", [strings(["aXYbXYc", "x"])], lambda x: [both[0][:, :3], both[1]], delimiter="XY"),
        row("string.split", [strings([["aaaa"], ["aa"]])],
            lambda x: [strings([[["", "", ""]], [["", "", ""]]]), np.array([[3], [2]])], delimiter="aa"),
        row("string.split", [strings(["日é日", "\udc80é\udc80"])], None, delimiter="é"),
        row("string.split", [strings("a b")], lambda x: [strings(["a", "b"]), np.array(2)]),
        row("string.split", [strings([" ", ""])], lambda x: [np.empty((2, 0), object), np.array([0, 0])]),
        row("string.split", [NOTHING], lambda x: [np.empty((0, 0), object), np.zeros(0, np.int64)]),
        row("string.most_parts", [commas, Constant(strings(","))], lambda x, d: np.array(4), delimiter=","),
        row("string.most_parts", [strings(["a b", ""]), Constant(strings(""))], lambda x, d: np.array(2)),
    ]


def normalize_rows() -> list[Case]:
    words = strings(["Monday", "monday", "É", "ß", "ǆ", "", "İ", "\udc80A"])
    tables = [Constant(np.array([[0, 0, 1, 0]], np.int32))]
    return [
        row("string.normalize", [words], None, case_change_action="UPPER", stopwords=("monday", "é")),
        row("string.normalize", [words], None, case_change_action="LOWER", is_case_sensitive=True, stopwords=("monday", "é")),
        row("string.normalize", [words], lambda x: x),
        row("string.normalize", [strings([["a", "b", "A"]])], lambda x: strings([["b"]]), stopwords=("A",)),
        row("string.normalize", [strings(["a", "A"])], lambda x: strings([""]), stopwords=("a",)),
        row("string.normalize", [NOTHING], lambda x: strings([""])),
        row("string.normalize", [strings(["ａ\U00010400\u0130", LONG])], None, case_change_action="LOWER"),
        row("string.count_words", [words, Constant(strings(["monday"])), *tables], lambda *_: np.array(7), stopwords=("monday",),
            is_case_sensitive=True),
        row("string.unpack", [Constant(packed(strings([["a", ""], ["é", "\0"]])))], lambda x: strings([["a", ""], ["é", "\0"]]),
            shape=(2, 2)),
    ]


def match_rows() -> list[Case]:
    texts = strings(["", "a", "ab", "ba\n", "éa", "A1_", "\udc80", "日本", LONG[:300]])
    patterns = ["", "a*", "(a|b)+\n?", "[^a]*a.", r"\w+", r"(?i)a\d_", r"\W", r"\p{L}+", "(?s).", "(x+x+)+y?", r"\b.*\b",
                "(?m)^.*$\n*"]
    return [row("string.regex_full_match", [texts], None, pattern=p) for p in patterns] + [
        row("string.regex_full_match", [strings([["a", "b"]])], lambda x: np.array([[True, False]]), pattern="a"),
        row("string.regex_full_match", [NOTHING], lambda x: np.zeros(0, bool), pattern="a"),
    ]


def number_rows() -> list[Case]:
    floats = np.array([0, -0.0, 1.5, 1e300, -2.5e-310, np.inf, -np.inf, np.nan, 0.1, 123456789.123], np.float64)
    big = np.array([0, -1, 2**63 - 1, -(2**63)], np.int64)
    reals = strings(["1", "-2.5", "+.5", "1e3", "1E-400", "inf", "-Infinity", "NaN", "4.", "9" * 400])
    with np.errstate(over="ignore"):
        narrow = [floats.astype(dtypes.numpy_dtype(d)) for d in ("float64", "float32", "float16", "bfloat16")]
    rows = [row("cast", [x], None, dtype="string") for x in narrow]
    return [
        *rows,
        row("cast", [big], lambda x: strings([str(v) for v in x.tolist()]), dtype="string"),
        row("cast", [np.array([2**64 - 1, 0], np.uint64)], lambda x: strings(["18446744073709551615", "0"]), dtype="string"),
        row("cast", [np.array([-7, 127], np.int8)], lambda x: strings(["-7", "127"]), dtype="string"),
        row("cast", [np.array([True, False])], lambda x: strings(["True", "False"]), dtype="string"),
        row("cast", [reals], lambda x: np.array([float(v) for v in x]), dtype="float64"),
        row("cast", [reals], None, dtype="float32"),
        row("cast", [reals], None, dtype="float16"),
        row("cast", [strings(["0", "-128", "+127"])], lambda x: np.array([0, -128, 127], np.int8), dtype="int8"),
        row("cast", [strings(["9223372036854775807", "-9223372036854775808"])],
            lambda x: np.array([2**63 - 1, -(2**63)]), dtype="int64"),
        row("cast", [strings(["18446744073709551615", "-0"])], lambda x: np.array([2**64 - 1, 0], np.uint64), dtype="uint64"),
        row("cast", [strings(["1", "0", "nan"])], lambda x: np.array([True, False, True]), dtype="bool"),
        row("cast_like", [strings(["3", "4"]), np.zeros(1, np.int32)], lambda x, y: np.array([3, 4], np.int32), symbolic=False),
        row("cast", [NOTHING], lambda x: np.zeros(0, np.float32), dtype="float32"),
        row("cast", [strings(["a", ""])], lambda x: x, dtype="string"),
        row("string.from_number", [np.array([1 / 3, 2.0])], lambda x: strings(["0.333", "2"]), digits=3),
        row("string.to_number", [strings(["12", "-3"])], lambda x: np.array([12, -3]), dtype="int64"),
    ]


def movement_rows() -> list[Case]:
    grid = strings([[f"{r}{c}é" * r for c in range(5)] for r in range(3)])
    chosen = np.array([[True, False, True, False, True]] * 3)
    return [
        row("copy", [grid], lambda x: x),
        row("transpose", [grid], np.transpose),
        row("transpose", [strings([[["a", "b"], ["c", "d"]]])], lambda x: np.transpose(x, (1, 2, 0)), axes=(1, 2, 0)),
        row("reshape", [Fixed(grid)], lambda x: x.reshape(5, 3), newshape=(5, 3)),
        row("expand_dims", [grid], lambda x: x[None], axis=0),
        row("squeeze", [strings([["a", "b"]])], lambda x: x[0], axis=(0,)),
        row("concatenate", [grid, Constant(grid[:1])], lambda a, b: np.concatenate([a, b]), axis=0, symbolic=False),
        row("concatenate", [grid, grid], lambda a, b: np.concatenate([a, b], 1), axis=1),
        row("stack", [grid, grid], lambda a, b: np.stack([a, b], 1), axis=1),
        row("take", [grid, np.array([2, 0, 0])], lambda x, i: np.take(x, i, 0), axis=0),
        row("take", [Fixed(grid), np.array([[4], [1]])], lambda x, i: np.take(x, i, 1), axis=1),
        row("where", [chosen, grid, grid[::-1].copy()], np.where),
        row("where", [chosen, grid, strings("-")], np.where),
        row("broadcast_to", [strings([["a"], ["b"]])], lambda x: np.broadcast_to(x, (2, 3)), shape=(2, 3), symbolic=False),
        row("tile", [grid], lambda x: np.tile(x, (2, 1)), reps=(2, 1)),
        row("strided_slice", [Fixed(grid)], lambda x: x[1:3, ::2], begin=(1, 0), end=(3, 5), strides=(1, 2)),
        row("reverse", [grid], lambda x: x[:, ::-1], axis=(1,)),
        row("split", [Fixed(grid)], lambda x: [x[:, :2], x[:, 2:]], axis=1, indices_or_sections=(2,)),
        row("transpose", [EMPTY_ROWS], np.transpose),
        row("copy", [NOTHING], lambda x: x),
    ]


def lookup_rows() -> list[Case]:
    keys = Constant(strings(["b", "", "é", "b"]))
    pool = [Constant(np.array(v, np.int64)) for v in ([2, 3, 5, 4, 5, 6, 7, 8, 6, 7], [0, 4], [0, 1, 2, 3, 4, 5, 6])]
    tokens = np.array([[1, 1, 3, 3, 3, 7], [8, 6, 7, 5, 6, 8]], np.int64)
    return [
        row("string.lookup", [strings([["é", "x"], ["b", ""]]), keys], lambda x, k: np.array([[2, 4], [0, 1]])),
        row("string.lookup", [strings([f"w{i}" for i in range(50)]), Constant(strings([f"w{i}" for i in range(49, -1, -1)]))],
            lambda x, k: np.arange(49, -1, -1)),
        row("string.lookup", [NOTHING, keys], lambda x, k: np.zeros(0, np.int64)),
        row("string.lookup", [strings(["a"]), NOTHING], lambda x, k: np.zeros(1, np.int64)),
        row("string.rank", [strings([["b", "a", "", "b"], ["é", "\udc80", "\U0001f600", "\uffff"]])],
            lambda x: np.array([[2, 1, 0, 2], [4, 5, 7, 6]])),
        row("string.rank", [strings([f"{(i * 37) % 101}" for i in range(101)])],
            lambda x: np.array([sorted(x.tolist()).index(v) for v in x])),
        row("string.rank", [NOTHING], lambda x: np.zeros(0, np.int64)),
        row("unique", [strings(["b", "a", "b", "", "é", "a"])],
            lambda x: [strings(["", "a", "b", "é"]), *(np.array(v) for v in ([3, 1, 0, 4], [2, 1, 2, 0, 3, 1], [1, 2, 2, 1]))]),
        row("unique", [strings(["b", "a", "b"])],
            lambda x: [strings(["b", "a"]), *(np.array(v) for v in ([0, 1], [0, 1, 0], [2, 1]))], sorted=False),
        row("nn.pad", [strings(["a", "b"])], lambda x: strings(["", "a", "b", ""]), pad_width=((1, 1),)),
        row("nn.pad", [strings(["a", "b"]), strings("-")], lambda x, v: strings(["-", "-", "a", "b"]), pad_width=((2, 0),)),
        row("nn.pad", [strings(["a", "b"])], lambda x: strings(["a", "b", "b"]), pad_width=((0, 1),), pad_mode="edge"),
        row("ngram_counts", [tokens, *pool], lambda *_: np.array([[0, 3, 0, 0, 0, 0, 0], [0, 0, 1, 0, 1, 1, 1]], np.float32),
            size=7, max_length=2, max_skip=5),
        row("ngram_counts", [tokens[0], *pool], None, size=9, min_length=2, max_length=2, max_skip=1),
        row("ngram_counts", [np.zeros((2, 0), np.int64), *pool], lambda *_: np.zeros((2, 7), np.float32), size=7, max_length=2),
    ]


CASES = [*lookup_rows(), *arithmetic_rows(), *split_rows(), *normalize_rows(), *match_rows(), *number_rows(), *movement_rows()]
