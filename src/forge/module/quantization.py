"""Calibration and quantisation of ``IRModule``."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from forge.errors import OptionError
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

        Memory does not depend on the number of samples. Copies, saved files and other batch sizes keep the statistics; an edit
        drops those of the values that it changes, `reload` all. Some of the samples are kept in memory, for `quantize`.

        Args:
            calib_data: arrays; tuples or dictionaries of them, for several inputs; a list, a generator, a data set or a loader of
                such; or the path of .npy and .npz files (``forge.samples``). Of ``(input, label)``, a model of one input takes
                the first.
            reset: forget earlier statistics; False: add to them.
            use_cuda: has no effect: models run on the CPU, the only kind of target.

        Raises:
            ValueError: there is no sample; or one has NaN or infinity, a wrong name, type or shape: the message names the input.
                The module is as it was then, and also if the data raise an error, or the user interrupts.
            InvalidGraphError: the module breaks a rule of the IR; CompileError: an operator cannot be compiled.
        """
        from forge.driver.feeds import specs_of
        from forge.quantization import calibration
        from forge.quantization.layers import layers_of, sites_of
        from forge.samples import samples

        if not isinstance(reset, bool) or not isinstance(use_cuda, bool):
            raise OptionError(f"calibrate: reset, use_cuda: got {reset!r}, {use_cuda!r}; expected True or False")
        module = self._verified()
        found = samples(calib_data, specs_of(self.input_nodes), where="calibrate: calib_data")
        calibration.calibrate(module, found, sites_of(layers_of(module.main)).channel_axis, reset)

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
