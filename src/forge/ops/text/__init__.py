"""Operators on strings, an optional family."""

OPERATORS = {
    "forge.ops.text.strings": (
        "string.concat", "string.equal", "string.not_equal", "string.unpack", "string.most_parts", "string.split",
        "string.count_words", "string.normalize", "string.regex_full_match",
    ),
    "forge.ops.text.numbers": ("string.from_number", "string.to_number"),
    "forge.ops.text.lookup": ("string.lookup", "string.rank", "ngram_counts"),
}
