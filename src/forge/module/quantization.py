"""Calibration and quantization of ``IRModule``."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from os import PathLike
from typing import TYPE_CHECKING, Any

from forge.errors import OptionError
from forge.ir.saved.statistics import Calibration
from forge.ir.verifier import verify
from forge.progress import Progress, shown
from forge.target import TargetLike

if TYPE_CHECKING:
    from forge.ir.graph import Module
    from forge.module import IRModule
    from forge.options import CompileOptions
    from forge.quantization.chosen.accuracy import AccuracyResult, Validate
    from forge.quantization.chosen.compression import Compressed
    from forge.quantization.places.layers import Excluded
    from forge.quantization.reports.report import Report


Data = Iterable[Any] | PathLike[str]


def split_tensors(ir: IRModule, force: bool = False) -> None:
    """Splits the channels of weights that stretch the range of all others, so that one scale fits them better. In place.

    The model computes the same, but for float rounding. It is done where the error of int8 with one scale for the weight
    falls; a weight gets at most 5 % more channels, or one. A scale for each channel (``quantize(per_channel=True)``) gains
    as much, or more, and costs nothing.

    Args:
        force: forget what calibration found, which is of the model before; False: refuse where there is such.

    Raises:
        ValueError: the model is calibrated, without ``force``; or it is quantized.
        InvalidGraphError: the module breaks a rule of the IR.
    """
    from forge.quantization.weights.splitting import split_outliers

    if not isinstance(force, bool):
        raise OptionError(f"split_tensors: force: got {force!r}; expected True or False")
    if ir.is_quantized:
        raise OptionError("split_tensors: the model is quantized; expected float weights; split them before")
    if ir.is_calibrated and not force:
        problem = "the model is calibrated, which holds for the weights as they are"
        raise OptionError(f"split_tensors: {problem}; pass force=True, and calibrate it again after")
    changed = ir._verified().copy()
    if not ir.is_split_tensors:
        for graph in changed.public.values():
            split_outliers(graph)
        verify(changed)
    changed.calibration = Calibration()
    ir._module = changed


def calibrate(
    ir: IRModule, calib_data: Data, reset: bool = True, use_cuda: bool = True, *, target: TargetLike = "llvm",
    progress: Progress | None = None,
) -> None:
    """Runs samples, and keeps statistics of the values that `quantize` may round. In place.

    Memory does not depend on the number of samples. Copies, saved files and other batch sizes keep the statistics; an edit
    drops those of the values that it changes, `reload` all. Some of the samples are kept in memory, for `quantize`.

    Args:
        calib_data: arrays; tuples or dictionaries of them, for several inputs; a list, a generator, a data set or a loader of
            such; or the path of .npy and .npz files (``forge.samples``). Of ``(input, label)``, a model of one input takes
            the first.
        reset: forget earlier statistics; False: add to them.
        use_cuda: has no effect: models run on the CPU, the only kind of target.
        target: of the code that computes the statistics; this machine has to run it.
        progress: called with phase, number of samples done, number in all, 0 if that is not known; None: a bar with the time
            left, on standard error where that is a terminal.

    Raises:
        ValueError: no sample is given; or one has NaN or infinity, a wrong name, type or shape: the message names the input.
            The module is as it was then, and also if the data raise an error, or the user interrupts.
        InvalidGraphError: the module breaks a rule of the IR; CompileError: an operator cannot be compiled.
    """
    from forge.driver import check_options

    if not isinstance(reset, bool) or not isinstance(use_cuda, bool):
        raise OptionError(f"calibrate: reset, use_cuda: got {reset!r}, {use_cuda!r}; expected True or False")
    ir._module = _calibrated(ir, calib_data, check_options(target), reset, progress)


def _calibrated(
    ir: IRModule, calib_data: Data | None, options: CompileOptions, reset: bool = True, progress: Progress | None = None
) -> Module:
    """A copy with statistics; without data, the module as it is."""
    if calib_data is None:
        return ir._verified()
    from forge.driver.compilation import bind_params
    from forge.driver.feeds import specs_of
    from forge.quantization.observed import calibration
    from forge.quantization.places.layers import layers_of, sites_of
    from forge.samples import samples

    module, bound = ir._verified().copy(), ir._module.copy()
    bind_params(bound.main)
    with shown(progress) as report:
        found = samples(calib_data, specs_of(ir.input_nodes), where="calibrate: calib_data",
                        report=lambda done, total: report("calibrate", done, total))
        calibration.calibrate(bound, found, sites_of(layers_of(bound.main)).channel_axis, options, reset)
    module.calibration = bound.calibration
    return module


def quantize(
    ir: IRModule, activation_dtype: str = "int8", kernel_dtype: str | None = None, bias_dtype: str | None = None,
    per_channel: bool = False, calib_method: str = "average", quant_type: str = "any", *,
    calib_data: Data | None = None, symmetric: bool | None = None, exclude: Excluded | Sequence[Excluded] = (),
    equalize: bool = True, gptq: bool = True, bias_correction: bool = True, calib_guard: bool = True, check: bool = True,
    target: TargetLike = "llvm", progress: Progress | None = None,
) -> None:
    """Convolutions and matrix products become those of integers, with weights of 8 bits. In place.

    Layers that have no kernel for integers stay in float, and are listed by `quantization_report`.

    Args:
        activation_dtype: of data. int8 is symmetric where both signs have nearly equal ranges, uint8 never.
        kernel_dtype: of weights: int8, symmetric, or uint8, with a zero point. None: as ``activation_dtype``.
        bias_dtype: int32, int8 or uint8. None: int32, in which sums are, where it holds them, else float.
        per_channel: a scale for each channel of a weight, not one for all. Depthwise convolutions have them in any case.
        calib_method: how ranges follow from statistics: the mean extremes of samples ("average"), the extremes of all
            ("minmax"), without a percent of the numbers ("percentile"), or cut so that their distribution changes least
            ("entropy"), or their squared error is least ("mse").
        quant_type: "static": ranges of data come from the calibration; "dynamic": from each call, for each row of dense
            layers; "any": static where the calibration knows them.
        calib_data: calibrates first, as `calibrate`.
        symmetric: zero points are 0, also where numbers have one sign; None: as ``activation_dtype`` says.
        exclude: what stays in float: names of layers, results, operators, or modules of PyTorch, patterns of these (``*``),
            nodes or predicates of a node.
        equalize: move differences between channels from data to weights, where that loses less.
        gptq: round weights so that errors make up for one another in the results, where that loses less on other samples.
        bias_correction: give results of layers the means that they have in float, on samples of the calibration.
        calib_guard: keep the whole range of a value where the cut of ``calib_method`` has a larger squared error on the
            numbers that calibration saw; False: cut as it says. The report says for each value what was cut, and why.
        check: compare outputs with those in float on a few samples; a warning says what lost most, and what would help.
        target: that the model will be compiled for, as of `compile`; losses are measured with code for it, which this machine
            has to run.
        progress: as of `calibrate`.

    Raises:
        OptionError: a bad argument; ``exclude`` names no layer; the model is quantized already; ``static``, and layers have
        no statistics: all are named. ValueError: as `calibrate`. InvalidGraphError: the module breaks a rule of the IR. The
        module is as it was then.

    Warns:
        QuantizationWarning: the outputs have changed much, or no layer was quantized: why, and what would help.
    """
    from forge.driver import check_options
    from forge.quantization.chosen.scheme import QuantizationScheme
    from forge.quantization.quantize import quantize
    from forge.quantization.reports.check import warn_of_losses, warn_of_nothing

    scheme = QuantizationScheme.of(
        activation_dtype=activation_dtype, kernel_dtype=kernel_dtype, bias_dtype=bias_dtype, per_channel=per_channel,
        calib_method=calib_method, quant_type=quant_type, symmetric=symmetric, exclude=exclude, equalize=equalize,
        gptq=gptq, bias_correction=bias_correction, calib_guard=calib_guard)
    options = check_options(target)
    module = _calibrated(ir, calib_data, options, progress=progress)
    with shown(progress) as report:
        found = quantize(module, scheme, options, progress=report)
    verify(found.module)
    if not warn_of_nothing(found) and check:
        warn_of_losses(module, found)
    ir._module, ir._quantization = found.module, found


def quantize_with_accuracy(
    ir: IRModule, validate: Validate, max_drop: float = 0.01, *, calib_data: Data | None = None, per_channel: bool = True,
    target: TargetLike = "llvm", **options: Any,
) -> AccuracyResult:
    """Quantizes as many layers as a limit of accuracy allows. In place.

    Layers are ranked on samples of the calibration, without labels; the most sensitive ones stay in float (and are computed
    in bfloat16 if the model is compiled so), as few as the limit asks for. It takes some ten validations.

    Args:
        validate: gives a number, the larger the better, for an inference function: as of `get_inference_function`.
        max_drop: how much less than in float that number may be.
        calib_data: calibrates first, as `calibrate`.
        per_channel, target, options: as of `quantize`.

    Raises:
        OptionError: a bad argument, or there are no samples of a calibration. The module is as it was then.
    """
    from forge.driver import check_options
    from forge.quantization.chosen.accuracy import quantize_with_accuracy
    from forge.quantization.chosen.scheme import QuantizationScheme

    if not callable(validate) or isinstance(max_drop, bool) or not isinstance(max_drop, int | float):
        got = f"{validate!r}, {max_drop!r}"
        raise OptionError(f"quantize_with_accuracy: validate, max_drop: got {got}; expected a function and a number")
    scheme = QuantizationScheme.of(per_channel=per_channel, **options)
    compilation = check_options(target)
    module = _calibrated(ir, calib_data, compilation)
    found, accuracy = quantize_with_accuracy(module, scheme, compilation, validate, max_drop)
    verify(found.module)
    ir._module, ir._quantization = found.module, found
    return accuracy


def quantization_report(
    ir: IRModule, calib_data: Data | None = None, *, seconds: float = 60.0, tries: bool = True, num_threads: int = 1,
    name: str = "model", progress: Progress | None = None,
) -> Report:
    """How near `quantize` came, layer by layer, and what other arguments would give.

    Notebooks show what is returned as a page, ``print`` as a table; it also has ``save("report.html")`` or ``.json``.

    Args:
        calib_data: samples, as `calibrate` takes them; None: those that calibration kept.
        seconds: when to stop trying other arguments; errors of the layers are measured in any case.
        tries: quantize with other arguments, and measure times; False: errors of the layers only.
        num_threads: threads for the times of layers.
        name: of the model, for titles.
        progress: called with phase, number done, number in all.

    Raises:
        OptionError: `quantize` did not make this module, or no sample is given; InputError: a sample does not fit;
        CompileError: an operator cannot be compiled.
    """
    from forge.driver.feeds import specs_of
    from forge.quantization.reports.report import make_report, record_of
    from forge.samples import samples

    if isinstance(seconds, bool) or not isinstance(seconds, int | float) or not seconds > 0:
        raise OptionError(f"quantization_report: seconds: got {seconds!r}; expected a positive number")
    record = record_of(ir)
    kept: Iterable[Any] = record.real.calibration.samples
    if calib_data is not None:
        kept = samples(calib_data, specs_of(ir.input_nodes), where="quantization_report: calib_data")
    return make_report(record, list(kept), name=name, seconds=seconds, threads=num_threads, tries=tries,
                       progress=progress or (lambda phase, done, total: None))


def compress(
    ir: IRModule,
    bits: int = 4,
    group: int | None = 32,
    scheme: str | None = None,
    *,
    calib_data: Data | None = None,
    size: float | None = None,
    symmetric: bool = False,
    exclude: Excluded | Sequence[Excluded] = (),
    embeddings: int = 8,
    convolutions: bool = False,
    target: TargetLike = "llvm",
) -> Compressed:
    """Weights of ``main`` become integers of few bits, which stay packed up to the kernels; data stay in float. In place.

    Dense layers get ``bits``, or 8 where their depth allows no fewer; embedding tables and recurrent layers 8. The result
    says what each weight became, and ``print`` shows it as a table. Weights in ``params`` become constants.

    Args:
        bits: 2, 4 or 8.
        group: elements along the summed axis that share a scale; None or -1: those of a row. Where it does not divide the
            depth, the next smaller size that does, or a row.
        scheme: "rtn" rounds to the nearest code; "awq" scales the inputs of dense layers first, so that columns of large
            inputs lose less; "gptq" makes up for the error of each column in those after it. Where either gives a layer's
            results on the samples no smaller error, it is rounded to the nearest. None: "gptq" if there are samples, else
            "rtn".
        calib_data: samples, as `calibrate` takes them (the first 256 MiB are used); None: those that it kept. "awq" and
            "gptq" need some; "rtn" measures errors on them.
        size: bytes that all constants may have, or the share of what they have; layers that lose most get 8 bits, or stay
            real, as long as there is room. None: all get ``bits``.
        symmetric: no zero points.
        exclude: layers that stay in float, as of `quantize`.
        embeddings: bits for tables, 2, 4 or 8, where ``size`` does not ask for fewer; 0: they stay in float.
        convolutions: weights of convolutions as int8, with a scale for each channel, in the module and its files; artifacts
            hold them in float.
        target: of the code that computes what layers read; this machine has to run it.

    Raises:
        OptionError: an argument of the wrong kind or value, no samples, or a ``size`` that cannot be reached.
        InputError: a sample does not fit the inputs, or makes a layer's input infinite or NaN.
    """
    from forge.driver import check_options
    from forge.driver.feeds import specs_of
    from forge.quantization.chosen import compression
    from forge.samples import samples

    plan = compression.CompressionScheme.of(
        bits=bits, group=group, scheme=scheme, size=size, symmetric=symmetric, exclude=exclude, embeddings=embeddings,
        convolutions=convolutions)
    specs = specs_of(ir.input_nodes)
    given = None if calib_data is None else samples(calib_data, specs, where="compress: calib_data")
    module, found = compression.compress(ir._verified(), plan, given, check_options(target))
    verify(module)
    ir._module = module
    return found
