"""The arguments of ``IRModule.quantize``."""

from __future__ import annotations

import shlex
from dataclasses import dataclass, fields
from typing import Any

from forge.errors import OptionError, option
from forge.quantization.observed.ranges import METHODS
from forge.quantization.places.layers import Excluded, exclusions

BYTES = ("int8", "uint8")
BIASES = ("int32", *BYTES)
KINDS = ("static", "dynamic", "any")


@dataclass(frozen=True, kw_only=True)
class QuantizationScheme:
    """The arguments of `IRModule.quantize`, checked.

    Raises:
        OptionError: which argument, what was given, what is expected.
    """

    activation_dtype: str = "int8"
    kernel_dtype: str | None = None
    bias_dtype: str | None = None
    per_channel: bool = False
    calib_method: str = "average"
    quant_type: str = "any"
    symmetric: bool | None = None
    exclude: tuple[Excluded, ...] = ()
    equalize: bool = True
    gptq: bool = True
    bias_correction: bool = True
    calib_guard: bool = True

    def __post_init__(self) -> None:
        self._check("activation_dtype", BYTES)
        self._check("kernel_dtype", (*BYTES, None))
        self._check("bias_dtype", (*BIASES, None))
        self._check("calib_method", METHODS)
        self._check("quant_type", KINDS)
        for name in ("per_channel", "equalize", "gptq", "bias_correction", "calib_guard"):
            self._check(name, (True, False))
        self._check("symmetric", (True, False, None))

    def _check(self, name: str, values: tuple[Any, ...]) -> None:
        value = getattr(self, name)
        if not any(value is v or (isinstance(v, str) and value == v) for v in values):
            raise OptionError(f"quantize: {name}: got {value!r}; expected one of {', '.join(map(repr, values))}")

    @property
    def weights(self) -> str:
        return self.kernel_dtype or self.activation_dtype

    @property
    def of_weights(self) -> tuple[object, ...]:
        """The arguments, besides ``exclude``, that the codes of weights depend on."""
        return self.weights, self.per_channel, self.equalize, self.gptq

    @classmethod
    def of(cls, **arguments: Any) -> QuantizationScheme:
        return cls(**arguments | {"exclude": exclusions(arguments.get("exclude", ()))})

    def describe(self) -> dict[str, Any]:
        """Returns the arguments as JSON has them."""
        return {f.name: getattr(self, f.name) if f.name != "exclude" else [str(e) for e in self.exclude] for f in fields(self)}


def written(name: str, value: object) -> str:
    """Writes an argument of `quantize` as the interface in use has it: ``exclude=['/fc/Gemm']``, or ``--exclude /fc/Gemm``."""
    flag = option(f"{name}={value}")
    if not flag.startswith("--"):
        return f"{name}={value!r}"
    if isinstance(value, bool):
        return flag
    return " ".join(f"{flag} {shlex.quote(str(v))}" for v in (value if isinstance(value, list) else [value]))
