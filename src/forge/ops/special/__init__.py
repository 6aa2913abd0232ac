"""Special functions, an optional family."""

OPERATORS = {
    "forge.ops.special.functions": (
        "exp2", "cbrt", "hypot", "logaddexp", "xlogy", "erfc", "erfcx", "erfinv", "lgamma", "digamma", "i0", "i0e", "i1", "i1e",
    ),
}
