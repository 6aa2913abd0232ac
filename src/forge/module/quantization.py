"""Calibration and quantisation of ``IRModule``."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from forge.errors import OptionError
from forge.ir.verifier import verify
from forge.module.edits import Edits

if TYPE_CHECKING:
    from forge.quantization.layers import Excluded
    from forge.quantization.report import Record, Report
    from forge.quantization.variants import Progress


class Quantization(Edits):
    """Statistics of values, and integers in the place of real numbers. In place."""

    _quantisation: Record | None = None

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

        from forge.quantization.report import Record

        real = self._verified()
        found = quantize.quantise(real, scheme)
        verify(found.module)
        self._module = found.module
        self._quantisation = Record(real, found.module, scheme, found.left)

    def quantization_report(
        self, calib_data: Iterable[Any] | None = None, *, seconds: float = 60.0, tries: bool = True, num_threads: int = 1,
        name: str = "model", progress: Progress | None = None,
    ) -> Report:
        """How near `quantize` came, layer by layer, and what other arguments would give.

        Notebooks show what is returned as a page, ``print`` as a table; it also has ``save("report.html")`` or ``.json``.

        Args:
            calib_data: samples, as `calibrate` takes them; None: those that calibration kept.
            seconds: when to stop trying other arguments; errors of the layers are measured in any case.
            tries: quantise with other arguments, and measure times; False: errors of the layers only.
            num_threads: of what is timed, layer by layer.
            name: of the model, for titles.
            progress: called with phase, number done, number in all.

        Raises:
            OptionError: `quantize` did not make this module, or there is no sample; InputError: a sample does not fit;
            CompileError: an operator cannot be compiled.
        """
        from forge.driver.feeds import specs_of
        from forge.quantization.report import make_report, record_of
        from forge.samples import samples

        if isinstance(seconds, bool) or not isinstance(seconds, int | float) or not seconds > 0:
            raise OptionError(f"quantization_report: seconds: got {seconds!r}; expected a positive number")
        record = record_of(self)
        kept: Iterable[Any] = record.real.calibration.samples
        if calib_data is not None:
            kept = samples(calib_data, specs_of(self.input_nodes), where="quantization_report: calib_data")
        return make_report(record, list(kept), name=name, seconds=seconds, threads=num_threads, tries=tries,
                           progress=progress or (lambda phase, done, total: None))
