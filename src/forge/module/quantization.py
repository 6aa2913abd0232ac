"""Calibration and quantisation of ``IRModule``."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from forge.errors import OptionError
from forge.ir.verifier import verify
from forge.module.edits import Edits

if TYPE_CHECKING:
    from forge.quantization.compression import Compressed
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

    def compress(
        self,
        bits: int = 4,
        group: int | None = 32,
        scheme: str = "rtn",
        *,
        calib_data: Iterable[Any] | None = None,
        size: float | None = None,
        symmetric: bool = False,
        exclude: Excluded | Sequence[Excluded] = (),
        embeddings: bool = True,
        convolutions: bool = False,
    ) -> Compressed:
        """Weights of ``main`` become codes of few bits, which stay packed up to the kernels; data stay real. In place.

        Dense layers and embedding tables get ``bits``, or 8 where their depth allows no fewer; recurrent layers 8. The result
        says what each weight became, and ``print`` shows it as a table.

        Args:
            bits: 2, 4 or 8.
            group: elements along the summed axis that share a scale; None or -1: those of a row. Where it does not divide the
                depth, the next smaller size that does, or a row.
            scheme: "rtn" rounds to the nearest code; "awq" scales the inputs of dense layers first, so that columns of large
                inputs lose less; "gptq" makes up for the error of each column in those after it. Where either gives a layer's
                results on the samples no smaller error, it is rounded to the nearest.
            calib_data: samples, as `calibrate` takes them (the first 256 MiB are used); None: those that it kept. "awq" and
                "gptq" need some; "rtn" measures errors on them.
            size: bytes that all constants may have, or the share of what they have; layers that lose most get 8 bits, or stay
                real, as long as there is room. None: all get ``bits``.
            symmetric: no zero points.
            exclude: layers that stay real, as of `quantize`.
            embeddings: whether tables are compressed.
            convolutions: weights of convolutions as int8, with a scale for each channel, in the module and its files; artifacts
                hold them as real numbers.

        Raises:
            OptionError: an argument of the wrong kind or value, no samples, or a ``size`` that cannot be reached.
            InputError: a sample does not fit the inputs, or makes a layer's input infinite or NaN.
        """
        from forge.driver.feeds import specs_of
        from forge.quantization import compression
        from forge.samples import samples

        plan = compression.Plan.of(bits=bits, group=group, scheme=scheme, size=size, symmetric=symmetric, exclude=exclude,
                                   embeddings=embeddings, convolutions=convolutions)
        specs = specs_of(self.input_nodes)
        given = None if calib_data is None else samples(calib_data, specs, where="compress: calib_data")
        module, found = compression.compress(self._verified(), plan, given)
        verify(module)
        self._module = module
        return found
