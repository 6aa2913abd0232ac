"""What both readers make the same: names of operations, element types, structures, attributes that versions write differently."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NoReturn

import numpy as np

from forge.frontends.stablehlo.module import OpaqueType, TensorType, Type

Fail = Callable[[str], NoReturn]
"""Raises an error about the place where the reader is."""
MAX_RANK = 256
MAX_PARTS = 1 << 18
"""Of one attribute or type. They may refer to one another, so that a short file can stand for many."""
ELEMENT_TYPES = {
    "i1": "bool", "index": "int64", "f16": "float16", "bf16": "bfloat16", "f32": "float32", "f64": "float64",
    **{f"{sign}i{bits}": f"{'u' if sign == 'u' else ''}int{bits}" for bits in (2, 4, 8, 16, 32, 64) for sign in ("", "s", "u")},
    "f4E2M1FN": "float4_e2m1fn", "f6E2M3FN": "float6_e2m3fn", "f6E3M2FN": "float6_e3m2fn",
    "f8E3M4": "float8_e3m4", "f8E4M3": "float8_e4m3", "f8E4M3FN": "float8_e4m3fn", "f8E4M3FNUZ": "float8_e4m3fnuz",
    "f8E4M3B11FNUZ": "float8_e4m3b11fnuz", "f8E5M2": "float8_e5m2", "f8E5M2FNUZ": "float8_e5m2fnuz",
    "f8E8M0FNU": "float8_e8m0fnu",
}  # fmt: skip
"""Forge's names of MLIR's element types. Sizes of type ``index`` are ``int64``, as on every machine that StableHLO runs on."""

COMPLEX_TYPES = {"float32": "complex64", "float64": "complex128"}

STRUCTURES: dict[str, dict[str, Any]] = {
    "gather": {
        "offset_dims": [], "collapsed_slice_dims": [], "operand_batching_dims": [], "start_indices_batching_dims": [],
        "start_index_map": [], "index_vector_dim": 0},
    "scatter": {
        "update_window_dims": [], "inserted_window_dims": [], "input_batching_dims": [], "scatter_indices_batching_dims": [],
        "scatter_dims_to_operand_dims": [], "index_vector_dim": 0},
    "dot": {
        "lhs_batching_dimensions": [], "rhs_batching_dimensions": [], "lhs_contracting_dimensions": [],
        "rhs_contracting_dimensions": []},
    "conv": {
        "input_batch_dimension": 0, "input_feature_dimension": 0, "input_spatial_dimensions": [],
        "kernel_input_feature_dimension": 0, "kernel_output_feature_dimension": 0, "kernel_spatial_dimensions": [],
        "output_batch_dimension": 0, "output_feature_dimension": 0, "output_spatial_dimensions": []},
    "ragged_dot": {
        "lhs_batching_dimensions": [], "rhs_batching_dimensions": [], "lhs_contracting_dimensions": [],
        "rhs_contracting_dimensions": [], "lhs_ragged_dimensions": [], "rhs_group_dimensions": []},
    "output_operand_alias": {"output_tuple_indices": [], "operand_index": 0, "operand_tuple_indices": []},
    "channel_handle": {"handle": 0, "type": 0},
    "type_extensions": {"bounds": []},
    "result_accuracy": {"atol": 0.0, "rtol": 0.0, "ulps": 0, "mode": "DEFAULT"},
    "dot_algorithm": {
        "lhs_precision_type": None, "rhs_precision_type": None, "accumulation_type": None, "lhs_component_count": 1,
        "rhs_component_count": 1, "num_primitive_operations": 1, "allow_imprecise_accumulation": False},
}
"""Fields of structures of StableHLO and CHLO, and what they are where text leaves them out."""

_MAX_LIST = 1 << 16
_LISTS = frozenset(
    "broadcast_dimensions broadcast_sizes permutation dimensions start_indices limit_indices strides slice_sizes window_strides "
    "lhs_dilation rhs_dilation window_dimensions base_dilations window_dilations window_reversal edge_padding_low "
    "edge_padding_high interior_padding fft_length known_expanding_dimensions known_nonexpanding_dimensions".split())
"""Attributes that are ``array<i64: ...>`` today, and were dense elements of rank one."""

WITH_CHANNEL = (
    "all_gather", "all_reduce", "all_to_all", "collective_broadcast", "collective_permute", "collective_reduce", "reduce_scatter")
"""Operations that may have a channel."""

_ALL: dict[str, Any] = {
    "window_strides": 1, "lhs_dilation": 1, "rhs_dilation": 1, "base_dilations": 1, "window_dilations": 1, "padding": 0,
    "window_reversal": False}
"""What all elements of attributes are by default."""
_ALL_OF = ("convolution", "dynamic_conv", "reduce_window", "select_and_scatter")
_EMPTY = frozenset(
    "backend_config called_computations operand_layouts result_layouts output_operand_aliases result_tilings "
    "composite_attributes known_expanding_dimensions known_nonexpanding_dimensions infeed_config outfeed_config layout "
    "source_target_pairs".split())
"""Attributes that are empty by default."""
_DEFAULTS: dict[str, tuple[Any, ...]] = {
    "use_global_device_ids": (False,), "has_dynamic_root": (False,), "compare_type": ("NOTYPE",), "cholesky.lower": (False,),
    "composite.version": (0,), "has_side_effect": (False,), "custom_call.api_version": (1,), "indices_are_sorted": (False,),
    "unique_indices": (False,), "is_host_transfer": (False,), "sort.dimension": (-1,), "sort.is_stable": (False,),
    "top_k.is_stable": (True,), "scan.is_reverse": (False,), "result_accuracy": (STRUCTURES["result_accuracy"],),
    **{f"{operation}.channel_handle": (STRUCTURES["channel_handle"],) for operation in WITH_CHANNEL},
}
"""Defaults of attributes of all operations, or of one."""

_RENAMED = {"arith.constant": "stablehlo.constant", "mhlo.erf": "chlo.erf", "mhlo.topk": "chlo.top_k", **{
    f"mhlo.{name}": f"chlo.{name}" for name in "acos acosh asin asinh atan atanh cosh erf_inv ragged_dot sinh".split()}}
_MHLO_ONLY = frozenset(
    f"mhlo.{name}" for name in
    "add_dependency async_update bitcast copy domain fusion minimum_broadcast_shapes stochastic_convert trace "
    "xla.rng_get_and_update_state".split())


def operation_name(name: str) -> str:
    """The name of an operation: those of MHLO, StableHLO's predecessor, are StableHLO's and CHLO's where these have it."""
    if name in _RENAMED:
        return _RENAMED[name]
    is_shared = name.startswith("mhlo.") and name not in _MHLO_ONLY
    return f"stablehlo.{name.removeprefix('mhlo.')}" if is_shared else name


def type_text(kind: Type) -> str:
    """The text of a type, for one that is kept as text."""
    if isinstance(kind, OpaqueType):
        return kind.text
    if not isinstance(kind, TensorType):
        return str(kind)
    element = next((text for text, dtype in ELEMENT_TYPES.items() if dtype == kind.dtype and text != "index"), kind.dtype)
    return f"tensor<{''.join('?x' if size is None else f'{size}x' for size in kind.shape)}{element}>"


def structure(mnemonic: str, fields: dict[str, Any], fail: Fail) -> dict[str, Any]:
    """The fields of a structure, all of them, each of the kind of its default."""
    found: dict[str, Any] = {}
    for name, default in STRUCTURES[mnemonic].items():
        value = fields.get(name, default)
        if not _is_like(value, default):
            fail(f"#stablehlo.{mnemonic}: field {name}: got {str(value)[:100]}; expected one such as {default}")
        found[name] = list(value) if isinstance(value, list) else value
    return found


def _is_like(value: Any, default: Any) -> bool:
    if isinstance(default, list):
        return isinstance(value, list) and all(entry is None or type(entry) is int for entry in value)
    if default is None:
        return isinstance(value, OpaqueType)
    return type(value) is type(default) or isinstance(default, float) and type(value) is int


def attributes(operation: str, given: dict[str, Any], fail: Fail) -> dict[str, Any]:
    """The attributes of an operation as StableHLO writes them today, without those that have their defaults."""
    if not given or not operation.startswith(("stablehlo.", "chlo.")):
        return given
    name = operation.partition(".")[2]
    if name != "custom_call":
        given = {key: listed(value, fail) if key in _LISTS else value for key, value in given.items()}
    return {key: value for key, value in given.items() if not _is_default(name, key, value, fail)}


def listed(value: Any, fail: Fail) -> Any:
    """Dense elements of rank one as a list."""
    if not isinstance(value, np.ndarray) or value.ndim != 1:
        return value
    if value.size > _MAX_LIST:
        fail(f"got an attribute of {value.size} elements; expected at most {_MAX_LIST}")
    return value.tolist()


def _is_default(operation: str, name: str, value: Any, fail: Fail) -> bool:
    if name in _ALL:
        return operation in _ALL_OF and _are_all(value, _ALL[name], fail)
    if name == "precision_config":
        return isinstance(value, list) and all(isinstance(entry, str) and entry == "DEFAULT" for entry in value)
    if name in _EMPTY:
        return isinstance(value, str | list | dict | np.ndarray) and len(value) == 0
    return any(_is_same(value, default) for default in _DEFAULTS.get(f"{operation}.{name}", _DEFAULTS.get(name, ())))


def _are_all(value: Any, default: Any, fail: Fail) -> bool:
    if isinstance(value, np.ndarray):
        return bool(np.all(np.asarray(listed(value.reshape(-1), fail)) == default))
    return isinstance(value, list) and all(type(entry) is type(default) and entry == default for entry in value)


def _is_same(value: Any, default: Any) -> bool:
    if isinstance(default, dict):
        return isinstance(value, dict) and value.keys() == default.keys() and all(_is_same(value[k], default[k]) for k in default)
    return type(value) is type(default) and bool(value == default)
