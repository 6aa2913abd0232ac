"""Strings."""

from __future__ import annotations

from forge.frontends.onnx.context import Context, Value
from forge.frontends.onnx.registry import converts

OTHER_CASES = frozenset({"az", "lt", "tr"})
"""Languages whose letters change their case by rules of their own."""


@converts("StringConcat", since=20)
def string_concat(g: Context, a: Value, b: Value) -> Value:
    return g.call("string.concat", a, b)


@converts("StringSplit", since=20)
def string_split(g: Context, x: Value, *, delimiter: str = "", maxsplit: int | None = None) -> list[Value]:
    return g.multi("string.split", x, delimiter=delimiter, maxsplit=maxsplit)


@converts("StringNormalizer", since=10)
def string_normalizer(
    g: Context, x: Value,
    *, case_change_action: str = "NONE", is_case_sensitive: int = 0, locale: str = "", stopwords: tuple[str, ...] = (),
) -> Value:
    """Cases change as Unicode says, in every locale that has no rules of its own."""
    if locale.replace("-", "_").split("_")[0].lower() in OTHER_CASES and case_change_action != "NONE":
        raise g.unsupported(f"locale: got {locale!r}; expected one whose letters change their case as Unicode has it")
    attributes = {"is_case_sensitive": bool(is_case_sensitive), "stopwords": stopwords}
    return g.call("string.normalize", x, case_change_action=case_change_action, **attributes)


@converts("RegexFullMatch", since=20)
def regex_full_match(g: Context, x: Value, *, pattern: str) -> Value:
    return g.call("string.regex_full_match", x, pattern=pattern)
