"""Special functions, an optional family."""

OPERATORS = {
    "forge.ops.special.functions": (
        "exp2", "cbrt", "hypot", "logaddexp", "xlogy", "erfc", "erfcx", "erfinv", "lgamma", "digamma", "i0", "i0e", "i1", "i1e",
    ),
    "forge.ops.special.bessel": (
        "bessel_j0", "bessel_j1", "bessel_y0", "bessel_y1", "bessel_k0", "bessel_k0e", "bessel_k1", "bessel_k1e",
        "spherical_bessel_j0", "airy_ai",
    ),
    "forge.ops.special.gamma": ("igamma", "igammac"),
}
