"""What ``IRModule`` becomes: libraries, functions, files."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from os import PathLike
from typing import TYPE_CHECKING, Any

import numpy as np

from forge import files
from forge.errors import OptionError
from forge.ir.functions import joining
from forge.ir.functions.reference import Reference
from forge.ir.saved import serialize
from forge.options import OutputOptions, takes_options
from forge.passes import inline_calls
from forge.target import TargetLike

if TYPE_CHECKING:
    import onnx

    from forge.driver.tuner import Tuned
    from forge.module import IRModule


def get_inference_function(ir: IRModule, target: TargetLike = "llvm") -> Callable[..., Any]:
    """A callable: arrays in by position, by name, or as one list, tuple or dictionary; an array or a list of arrays out.

    ``target="reference"`` interprets the graph with NumPy; any other target compiles in memory. Both are of the module as it
    is now: later changes do not count. States are kept from call to call. Both raise InputError where the inputs do not fit.

    Raises:
        InvalidGraphError: the module breaks a rule of the IR; TargetError: a bad target; CompileError: an operator cannot be
        compiled.
    """
    if target == "reference":
        return Reference(ir._verified().copy())
    from forge.driver import check_options, compile_module

    runtime = compile_module(ir._module, check_options(target)).runtime()
    return runtime.session() if runtime.states else runtime


@takes_options
def compile(  # noqa: A001
    ir: IRModule,
    target: TargetLike = "llvm",
    host: TargetLike | None = None,
    output_path: str | PathLike[str] | None = "./compile_output",
    opt_level: int = 3,
    set_float16: bool = False,
    set_channel_layout: str | None = None,
    export_relay: bool = False,
    export_metadata: bool = False,
    force_overwrite: bool = False,
    uuid: str | None = None,
    encrypt_password: str | None = None,
    winograd: bool = True,
    set_bfloat16: bool = False,
    tuned: bool = False,
    weights: str | None = None,
    functions: Sequence[str] | None = None,
    exact: bool = False,
    check_indices: bool = True,
    typical: Mapping[str, int] | Sequence[str] = (),
    float32_products: str | int = "6",
) -> None:
    """Compiles to a directory that holds ``modelLibrary.so``, ready to deploy.

    An option that is not given follows the ``forge.PassContext`` around the call, if there is one.

    Args:
        {options}
        functions: names of the public functions to compile; None: all, over one set of weights.

    Raises:
        ValueError: a bad argument, or ``output_path`` exists and ``force_overwrite`` is off.
        InvalidGraphError: the module breaks a rule of the IR.
        CompileError: an operator cannot be compiled; ToolchainError: no C compiler.
    """
    from forge.driver import artifact, check_options, compile_module

    output = OutputOptions(
        output_path=output_path, export_relay=export_relay, export_metadata=export_metadata, force_overwrite=force_overwrite,
        uuid=uuid, encrypt_password=encrypt_password, weights=weights)
    options = check_options(
        target, host=host, opt_level=opt_level, float16=set_float16, bfloat16=set_bfloat16, channel_layout=set_channel_layout,
        winograd=winograd, exact=exact, check_indices=check_indices, typical=typical, tuned=tuned,
        float32_products=float32_products)
    artifact.check(output, options.target)
    module = ir._module if functions is None else joining.select(ir._verified(), functions, "compile: functions")
    compile_module(module, options, output=output)


@takes_options
def tune(
    ir: IRModule,
    seconds: float = 60,
    inputs: Mapping[str, np.ndarray] | None = None,
    target: TargetLike = "llvm",
    opt_level: int = 3,
    set_float16: bool = False,
    set_bfloat16: bool = False,
    winograd: bool = True,
) -> Tuned:
    """Measures alternatives for the model's kernels on this machine and keeps what is faster for ``compile(tuned=True)``.

    Args:
        seconds: when to stop looking; the last comparison comes after that.
        inputs: arrays by name; None: made up, with symbolic dimensions of 1.
        target: must run here; its ``num-cores`` is the number of threads.
        opt_level, set_float16, set_bfloat16, winograd: as of `compile`.

    Returns:
        What was found, with times of the whole model before and after.

    Raises:
        OptionError: a bad argument, or an input that cannot be made up; InvalidGraphError: the module breaks a rule of the
        IR; CompileError: an operator cannot be compiled.
    """
    from forge.driver import check_options, feeds, tuner, tuning

    if isinstance(seconds, bool) or not isinstance(seconds, int | float):
        raise OptionError(f"tune: seconds: got {seconds!r}; expected a number")
    if inputs is not None and (not isinstance(inputs, Mapping) or not all(n in inputs for n in ir.input_names)):
        got = f"names {', '.join(map(str, inputs))}" if isinstance(inputs, Mapping) else repr(inputs)
        raise OptionError(f"tune: inputs: got {got}; expected arrays by name, for all of: {', '.join(ir.input_names)}")
    ir._verified()
    if inputs is None:
        inputs = feeds.random_inputs(feeds.specs_of(ir.input_nodes), {})
    options = check_options(target, opt_level=opt_level, float16=set_float16, bfloat16=set_bfloat16, winograd=winograd)
    found = tuner.tune_module(ir._module, inputs, options, seconds=seconds)
    tuning.store(found.records)
    return found


def save(ir: IRModule, path: str | PathLike[str]) -> None:
    """Writes the module, to be read back by ``forge.load``: text and weights in one file (``.forge``).

    Where the path ends in ``.relay``, it is a file of text, with the weights in ``PATH.safetensors``.

    Raises:
        OptionError: it is not a path; OutputPathError: it cannot be written.
        InvalidGraphError: the module breaks a rule of the IR.
    """
    with files.writing("save", path):
        serialize.save(ir._verified(), path)


def to_onnx(ir: IRModule, path: str | PathLike[str] | None = None, opset: int | None = None, external_bytes: int | None = None,
            ) -> onnx.ModelProto | None:
    """Writes the model as ONNX, functions inlined; names of inputs, outputs, nodes and weights are kept.

    Where ONNX leaves a result undefined (indices out of range, floats too large for the integer that they are cast to), it is
    the runtime's; so are random numbers. States and donated inputs are plain inputs and outputs there.

    Args:
        path: the file to write; it appears whole or not at all. None: the model is returned, with its weights.
        opset: version of the operator set, 18 to 26; None: 21, which runtimes know best, or a later one that is needed; 20
            where data are rounded to int8, as onnxruntime fails on some such models from 21 on.
        external_bytes: weights of at least this size go to ``PATH.data``; None: none do, unless the model exceeds 2 GiB.

    Raises:
        OpNotImplemented: nodes cannot be written as ONNX; the message lists all of them.
        OptionError: an argument is out of range, or the module has several functions.
        OutputPathError: the file cannot be written.
        InvalidGraphError: the module breaks a rule of the IR.
    """
    from forge.exporters.onnx import export_model, save_model, with_weights

    module = ir._verified().copy()
    inline_calls.run(module.main, module)
    model, document = export_model(module, opset)
    if path is None:
        return with_weights(model, document.tensors)
    with files.writing("to_onnx", path):
        save_model(model, document.tensors, path, external_bytes)
    return None
