"""Calibration and quantisation of ``IRModule``."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from forge.ir.verifier import verify
from forge.module.edits import Edits

if TYPE_CHECKING:
    from forge.quantization.layers import Excluded


class Quantization(Edits):
    """Statistics of values, and integers in the place of real numbers. In place."""

    @property
    def is_calibrated(self) -> bool:
        """Whether statistics of a value of ``main``, as it is now, are known."""
        from forge.quantization.quantize import statistics_of

        return bool(statistics_of(self._verified()))

    def calibrate(self, calib_data: Iterable[Any], reset: bool = True, use_cuda: bool = True) -> None:
        """Runs samples, and keeps statistics of the values that `quantize` may round. In place.
        """
        from forge.quantization import calibration
        from forge.quantization.layers import layers_of, sites_of

        module = self._verified()
        samples = ({self.input_names[0]: s} if not isinstance(s, dict) else s for s in calib_data)
        calibration.calibrate(module, samples, sites_of(layers_of(module.main)).channel_axis, reset)

    def quantize(
        self,
        activation_dtype: str = "int8",
        kernel_dtype: str | None = None,
        bias_dtype: str | None = None,
        per_channel: bool = False,
        calib_method: str = "average",
        quant_type: str = "any",
        *,
        calib_data: Iterable[Any] | None = None,
        symmetric: bool | None = None,
        exclude: Excluded | Sequence[Excluded] = (),
        equalize: bool = True,
        bias_correction: bool = True,
    ) -> None:
        """Quantises layers. In place."""
        from forge.quantization import quantize
        from forge.quantization.scheme import Scheme

        scheme = Scheme.of(
            activation_dtype=activation_dtype, kernel_dtype=kernel_dtype, bias_dtype=bias_dtype, per_channel=per_channel,
            calib_method=calib_method, quant_type=quant_type, symmetric=symmetric, exclude=exclude, equalize=equalize,
            bias_correction=bias_correction)
        if calib_data is not None:
            self.calibrate(calib_data)

        found = quantize.quantise(self._verified(), scheme)
        verify(found.module)
        self._module = found.module
