"""Strings."""

from __future__ import annotations

from forge.frontends.converter import REQUIRED, forwarding
from forge.frontends.onnx.context import Context, Value
from forge.frontends.onnx.registry import converts

OTHER_CASES = frozenset({"az", "lt", "tr"})
"""Languages whose letters change their case by rules of their own."""

converts("StringConcat", since=20)(forwarding("string.concat", 2))
converts("StringSplit", since=20)(forwarding("string.split", delimiter="", maxsplit=None))
converts("RegexFullMatch", since=20)(forwarding("string.regex_full_match", pattern=REQUIRED))


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
