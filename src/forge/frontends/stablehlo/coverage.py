"""Which operations can be loaded: all of the specification and of CHLO, and known targets of custom calls."""

from __future__ import annotations

from pathlib import Path

from forge.frontends.stablehlo import converters
from forge.frontends.stablehlo.operators import used_operators
from forge.frontends.stablehlo.registry import REGISTRY
from forge.frontends.stablehlo.sources import read
from forge.frontends.support import CONVERTER, FUNCTION, MISSING, Coverage, Use

SPECIFICATION: tuple[str, ...] = tuple(
    """
abs add after_all all_gather all_reduce all_to_all and async_done async_start atan2 batch_norm_grad batch_norm_inference
batch_norm_training bitcast_convert broadcast_in_dim case cbrt ceil cholesky clamp collective_broadcast collective_permute
collective_reduce compare complex composite concatenate constant convert convolution cosine count_leading_zeros custom_call
divide dot_general dynamic_broadcast_in_dim dynamic_conv dynamic_gather dynamic_iota dynamic_pad dynamic_reshape dynamic_slice
dynamic_update_slice exponential exponential_minus_one fft floor gather get_dimension_size get_tuple_element if imag infeed iota
is_finite log log_plus_one logistic map maximum minimum multiply negate not optimization_barrier or outfeed pad partition_id
popcnt power real recv reduce reduce_precision reduce_scatter reduce_window remainder replica_id reshape reverse rng
rng_bit_generator round_nearest_afz round_nearest_even rsqrt scatter select select_and_scatter send shift_left
shift_right_arithmetic shift_right_logical sign sine slice sort sqrt subtract tan tanh transpose triangular_solve tuple
uniform_dequantize uniform_quantize while xor
""".split()
)
"""The operations of StableHLO's specification."""

CHLO: tuple[str, ...] = tuple(
    """
acos acosh asin asinh atan atanh bessel_i1e conj constant constant_like cosh digamma erf erf_inv erfc is_inf is_neg_inf is_pos_inf
lgamma mulhi next_after polygamma ragged_dot scan sinh square tan top_k zeta
""".split()
)

_BODIES = ("composite", "custom_call")
"""What has no converter of its own: a composite has a body, and the target of a custom call has the converter."""


def coverage() -> list[Coverage]:
    """By domain and name."""
    converters.load_all()
    found = {(row.domain, row.op): CONVERTER for row in REGISTRY.rows()}
    for domain, op in [("", op) for op in SPECIFICATION] + [("chlo", op) for op in CHLO] + list(REGISTRY.refused()):
        found.setdefault((domain, op), FUNCTION if not domain and op in _BODIES else MISSING)
    return [Coverage(domain, op, (), how) for (domain, op), how in sorted(found.items())]


def missing_operations() -> list[str]:
    """The operations of the specification that cannot be loaded."""
    how = {row.op: row.how for row in coverage() if not row.domain}
    return [op for op in SPECIFICATION if how[op] == MISSING]


def model_operators(path: Path) -> list[Use]:
    """Operations of the module in a file."""
    converters.load_all()
    return list(used_operators(read(path).module).values())
