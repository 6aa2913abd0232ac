"""Regular expressions: against Python's matcher on what both have, RE2's own rules, and what is refused."""

from __future__ import annotations

import ctypes
import re
import time

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from forge.errors import TypeInferenceError
from forge.ops.text.regex import MAX_INSTRUCTIONS, RegexProgram, compile_pattern
from forge_runtime import routine_addresses
from tests import guard

LITERALS = st.sampled_from(["a", "b", "é", ".", "[ab]", "[^a]", "[a-c]", r"\d", r"\w", r"\.", r"\x61", r"\D", "[^\\d]", "[é-ü]"])
ASSERTIONS = st.sampled_from([r"\b", r"\B", "^", r"\A"])
REPEATS = st.sampled_from(["*", "+", "?", "*?", "+?", "??", "{2}", "{1,}", "{0,2}", "{1,2}?"])


def patterns() -> st.SearchStrategy[str]:
    def extend(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
        groups = st.tuples(st.sampled_from(["(", "(?:", "(?i:", "(?s:"]), inner).map(lambda p: f"{p[0]}{p[1]})")
        return st.one_of(
            st.tuples(inner, inner).map("".join), st.tuples(inner, inner).map("|".join), groups,
            st.tuples(groups, REPEATS).map("".join), st.tuples(LITERALS, REPEATS).map("".join),
        )

    return st.recursive(st.one_of(LITERALS, LITERALS, ASSERTIONS), extend, max_leaves=8)


@given(patterns(), st.lists(st.text("abcAÉé1 \n", max_size=6), min_size=1, max_size=4))
def test_agrees_with_python(pattern: str, texts: list[str]) -> None:
    assume("(?i:" not in pattern or not re.search(r"\\[wbdBD]", pattern))  # Python folds ASCII only where classes are of ASCII
    program = compile_pattern(pattern)
    theirs = re.compile(pattern, 0 if "(?i:" in pattern else re.ASCII)
    for text in (t for t in texts if t or r"\B" not in pattern):  # Python's \B did not match in an empty text before 3.14
        assert program.matches(text) == (theirs.fullmatch(text) is not None), (pattern, text)


def native_matches(program: RegexProgram, texts: list[str]) -> list[bool]:
    """What the runtime's matcher says, with all it reads and writes guarded."""
    encoded = [text.encode("utf-8", "surrogateescape") for text in texts]
    characters = [guard.Guarded(len(e)).write(e) for e in encoded]
    elements = np.array([(c.address, len(e)) for c, e in zip(characters, encoded, strict=True)], np.int64)
    table = program.table()
    blocks = [guard.Guarded(a.nbytes, 4).write(a.tobytes()) for a in (elements, table)]
    out, host = guard.Guarded(len(texts)), guard.GuardedHost()
    arguments = [ctypes.c_void_p] * 3 + [ctypes.c_int64] * 2 + [ctypes.c_void_p]
    match = ctypes.CFUNCTYPE(ctypes.c_int32, *arguments)(routine_addresses()["forge_string_match"])
    places = (blocks[0].address, blocks[1].address, out.address)
    assert match(*places, len(texts), table.size, ctypes.addressof(host.struct)) == 0, host.error
    out.check("matches")
    assert not host.blocks, "scratch memory is given back"
    return [bool(b) for b in out.read()]


@given(patterns(), st.lists(st.one_of(st.text("abcAÉé1 \n", max_size=6), st.binary(max_size=6)), min_size=1, max_size=4))
def test_the_runtime_agrees(pattern: str, contents: list[str | bytes]) -> None:
    texts = [c if isinstance(c, str) else c.decode("utf-8", "surrogateescape") for c in contents]
    program = compile_pattern(pattern)
    assert native_matches(program, texts) == [program.matches(text) for text in texts]


def test_the_runtime_refuses_damaged_programs() -> None:
    good = compile_pattern("a|b").table().tolist()
    for change in ({0: 99}, {0: 0}, {2: 7}, {3: 50}, {1: -1}):
        words = [change.get(k, word) for k, word in enumerate(good)]
        damaged = RegexProgram()
        damaged.table = lambda words=words: np.array(words, np.int32)  # type: ignore[method-assign,misc]
        with pytest.raises(AssertionError, match="damaged"):
            native_matches(damaged, ["a"])


@pytest.mark.parametrize(("pattern", "text", "matches"), [
    ("", "", True), ("", "a", False), ("a$", "a\n", False), (r"\s", "\v", False), (r"[[:space:]]", "\v", True),
    ("(?m)a$\n^b", "a\nb", True), ("a$\nb", "a\nb", False), (".", "\n", False), ("(?s).", "\n", True),
    ("(?i)straSSE", "STRAßE", False),
    ("(?i)k", "\u212a", True), ("(?i)[^k]", "\u212a", False), (r"\pL+", "aé中", True), (r"\p{Lu}", "É", True),
    (r"\P{Lu}", "É", False),
    (r"\p{^Lu}", "é", True), (r"\Qa.b\E*", "a.bbb", True), (r"\Qa.b", "a.b", True), ("[]a]+", "]a", True), ("[^]]", "a", True),
    ("a{,2}", "a{,2}", True), ("a{", "a{", True), (r"\x{1F600}", "\U0001f600", True), (r"\101\012", "A\n", True),
    ("[a-]", "-", True),
    ("(?i)a(?-i)b", "AB", False), ("(?i)a(?-i)b", "Ab", True), ("(a(?i)b|c)d", "aBd", True), ("(a(?i)b|c)d", "aBD", False),
    ("(?P<n>a)(?<m>b)", "ab", True), ("(?U)a+", "aa", True), (r"[\d.]+", "1.2", True), (r"[\Da]", "1", False),
    (r"\z", "", True),
    ("()*", "", True), ("(a*)*b", "aab", True), ("(|a)+", "aaa", True), ("[[:^alpha:]]", "1", True), (r"a\b\B", "a", False),
])
def test_matches_as_re2(pattern: str, text: str, matches: bool) -> None:
    assert compile_pattern(pattern).matches(text) is matches


@pytest.mark.parametrize(("pattern", "shown", "position"), [
    ("(", "(", 0), ("a)", ")", 1), ("*a", "*", 0), ("a**", "*", 2), ("a++", "+", 2), ("a{2}{3}", "{3}", 4),
    (r"(a)\1", r"\1", 3), ("(?=a)", "(?=", 0), ("(?!a)", "(?!", 0), ("b(?<=a)", "(?<", 1), ("(?<!a)", "(?<", 0),
    ("(?>a)", "(?>", 0),
    ("(?P=n)", "(?P", 0), ("(?P<1>a)", "(?P<1>", 0), ("(?P<n>a)(?P<n>b)", "(?P<n>", 8), (r"\C", r"\C", 0), (r"\Z", r"\Z", 0),
    (r"\p{Greek}", r"\p{Greek}", 0), (r"\x1", r"\x1", 0), (r"\x{110000}", r"\x{110000}", 0), ("a{1001}", "{1001}", 1),
    ("a{3,2}", "{3,2}", 1), ("[b-a]", "b-a", 1), ("[[:what:]]", "[:what:]", 1), ("a\\", "\\", 1), ("(?x)a", "(?x", 0),
])
def test_refusals_name_construct_and_position(pattern: str, shown: str, position: int) -> None:
    with pytest.raises(TypeInferenceError, match=r"string\.regex_full_match: attribute pattern; got ") as caught:
        compile_pattern(pattern)
    assert f"{shown!r} at position {position} of" in str(caught.value)


def test_limits_size_and_depth() -> None:
    with pytest.raises(TypeInferenceError, match=f"at most {MAX_INSTRUCTIONS} steps"):
        compile_pattern("((a{1000}){1000}){1000}")
    with pytest.raises(TypeInferenceError, match="groups inside each other"):
        compile_pattern("(" * 200 + ")" * 200)


def test_repeats_of_nothing_take_no_time() -> None:
    start = time.monotonic()
    compile_pattern("((((){1000}){1000}){1000}){1000}")
    assert time.monotonic() - start < 5


def test_nested_repeats_are_linear() -> None:
    start = time.monotonic()
    assert not compile_pattern("(a+)+").matches("a" * 2000 + "b")
    assert time.monotonic() - start < 5
