"""The loaders of all formats. Written by scripts/loader_stubs.py from the functions that `Format.load` names."""

from collections.abc import Callable
from collections.abc import Mapping
from collections.abc import Sequence
from forge.module import IRModule
from os import PathLike
from typing import Any
import onnx

class Doors:
    @classmethod
    def from_jax(cls, function: Callable[..., Any], *args: Any, **kwargs: Any) -> IRModule:
        """Loads a function of jax, of jitted code, or of a model: what it closes over, weights for example, become constants.

        Args:
            function: what can be traced by ``jax.jit``, or was jitted already.
            args: examples of its arguments, or their types (``jax.ShapeDtypeStruct``); sizes may be symbolic
                (``jax.export.symbolic_shape``). The leaves of nested arguments are inputs of their own, called as the parameter and
                the path to them: ``params_dense_kernel``; results likewise.
            kwargs: those that have names.

        Raises:
            OptionError: ``function`` cannot be called; ImportModelError: jax cannot trace or export it; OpNotImplemented: it needs
            operations without a converter, all listed.
        """

    @classmethod
    def from_keras(cls, model: str | bytes | PathLike[str] | Any, shape: Mapping[str, Sequence[Any]] | None=None, layout: str='NCHW', *, weights: str | PathLike[str] | None=None) -> IRModule:
        """Loads a Keras model. Neither Keras nor a backend of it is needed for files.

        Args:
            model: a ``.keras`` file, a folder with its contents, a whole-model ``.h5`` file of Keras 2 or 3, the text of
                ``to_json``, bytes of any of these, or a model in memory; layers of that without a converter, and subclassed models,
                are traced by its backend.
            shape: shapes by names of inputs, where the model leaves sizes open. Entries are integers, None to keep, or texts: names
                of symbols, or expressions of them.
            layout: of images: "NCHW", channels first, or "NHWC", as most models have them. With "NCHW", inputs and outputs of rank 4
                and 5 of a model whose layers have channels last have them first in the module; layers compute in their own layout.
            weights: a ``.weights.h5`` file (or a whole-model one) whose weights are taken in the place of the model's.

        Raises:
            OptionError: an argument of the wrong kind; ImportModelError: the model cannot be read, is not valid, or contradicts an
            argument; OpNotImplemented: it has layers without a converter, all listed.
        """

    @classmethod
    def from_onnx(cls, model: str | PathLike[str] | bytes | onnx.ModelProto, shape: Mapping[str, Any] | None=None, dtype: str | Mapping[str, str]='float32', opset: int | None=None, freeze_params: bool=True, convert_config: Mapping[str, Any] | None=None, export_node_renamed_model_path: str | PathLike[str] | None=None, *, unify_dimensions: bool=True) -> IRModule:
        """Loads an ONNX model.

        Args:
            model: a path, the bytes of a file, or a ``ModelProto``. External data is read from the path's folder.
            shape: shapes of inputs by name, in place of the model's; entries are integers, None to keep, or texts: a label that
                the model gives a dimension, else an expression of symbols (``2*n``). An input that is an initializer, too, is one
                that calls give if it is named here; else it has the initializer's contents.
            dtype: element types of inputs by name, in place of the model's; a single one is for those that the model leaves open,
                and refused where it contradicts all that the model says.
            opset: read the default domain as this opset instead of what the model declares.
            freeze_params: initializers become constants; False keeps them as inputs after the model's own, with their values in
                ``IRModule.params`` (small integer vectors, which steer operators, are constants all the same).
            convert_config: options of converters, by name. ``use_nt_batch_matmul`` (default True): products of rank 3 are
                ``nn.batch_matmul`` with a transposed right side; they are compiled alike. ``drop_zipmap`` (default False): no
                warning for ZipMap, whose results, maps, which compiled models lack, are the tensors of scores instead.
            unify_dimensions: dimensions of inputs that the model gives one name have one size; False for models that give it to
                unequal ones, where each gets a name of its own (``n``, ``n_1``).
            export_node_renamed_model_path: write the model with a name for every node to this path, and its external data
                next to it.

        Raises:
            OptionError: an argument of the wrong kind; ImportModelError: the model cannot be read, or contradicts an argument;
            OpNotImplemented: it uses operators without a converter, all listed.
        """

    @classmethod
    def from_stablehlo(cls, stablehlo_module: str | bytes | PathLike[str] | Any, input_info: Mapping[str, Sequence[Any]] | Sequence[tuple[Sequence[Any], str]] | None=None) -> IRModule:
        """Loads a module of StableHLO.

        Args:
            stablehlo_module: the path of a file; text, in StableHLO's own form or MLIR's generic one; the bytes of a portable
                artifact (MLIR bytecode), of any version; a ``jax.export.Exported`` or its serialized bytes; a module of jaxlib's
                bindings, or what ``jax.jit(f).lower(...)`` gives.
            input_info: sizes of the inputs of the main function that the module leaves open: shapes by names of inputs, or a
                ``(shape, dtype)`` for each input in order. Entries of shapes are integers, None to keep, or texts: names of symbols,
                or expressions of them.

        Raises:
            OptionError: an argument of the wrong kind; ImportModelError: the module cannot be read, is not valid, or contradicts an
            argument; OpNotImplemented: it has operations without a converter, all listed.
        """

    @classmethod
    def from_tensorflow(cls, graph: str | bytes | PathLike[str] | Any, layout: str | None=None, shape: Mapping[str, Sequence[Any]] | None=None, outputs: Sequence[str] | None=None, convert_config: Mapping[str, bool] | None=None) -> IRModule:
        """Loads a program of TensorFlow.

        Each signature of a SavedModel is a function of the module, that to serve is ``main``; its names of inputs and outputs are the
        module's. Variables that a call writes are states, all others are constants.

        Args:
            graph: the path of a frozen graph (``.pb``, ``.pbtxt``) or of the folder of a SavedModel, bytes of either, a ``GraphDef``,
                a ``tf.Graph``, a concrete function, or what ``tf.saved_model.load`` gives. TensorFlow is needed for its objects only.
            layout: of images in convolutions and pools of the module: "NHWC", "NCHW", or None for the model's. Inputs and outputs
                are those of the model.
            shape: shapes by names of inputs, of all signatures, where the model leaves sizes open. Entries are integers, None to
                keep, or texts: names of symbols, or expressions of them. A node that has a shape here is an input, even where the
                graph computes it.
            outputs: names of nodes, ``name`` or ``name:i``, or of outputs of the signature; None for those of all signatures, or, of
                a graph without signatures, all outputs of its last node.
            convert_config: how to convert: ``use_dense`` (True): products with matrices of weights become ``nn.dense``;
                ``use_nt_batch_matmul`` (False): batched products take their right operand transposed.

        Raises:
            OptionError: an argument of the wrong kind; ImportModelError: the model cannot be read, is not valid, or contradicts an
            argument; OpNotImplemented: it has operators without a converter, all listed.
        """

    @classmethod
    def from_tflite(cls, model: str | bytes | PathLike[str] | Any, shape_dict: Mapping[str, Sequence[Any]] | None=None, dtype_dict: Mapping[str, str] | None=None) -> IRModule:
        """Loads a TFLite model, float or quantized.

        Quantized tensors are integers in the module, as in the file: inputs and outputs have the file's types. Each signature of the
        model is a function; the first one is ``main``, and its names of inputs and outputs are those of the module.

        Args:
            model: the path of a file, its bytes, or a ``tflite.Model`` (``tflite.Model.Model`` of older packages).
            shape_dict: shapes by names of inputs, where the model leaves sizes open. Entries are integers, None to keep, or texts:
                names of symbols, or expressions of them.
            dtype_dict: element types by names of inputs, which must be those of the model.

        Raises:
            OptionError: an argument of the wrong kind; ImportModelError: the model cannot be read, is not valid, or contradicts an
            argument; OpNotImplemented: it has operators without a converter, all listed.
        """

    @classmethod
    def from_torch(cls, script_module: Any, input_infos: Any=None, custom_convert_map: Mapping[str, Callable[..., Any]] | None=None, default_type: str='float32', use_parser_friendly_name: bool=False, keep_quantized_weight: bool=False, *, default_dtype: str | None=None, dynamic_shapes: Any=None, through_onnx: bool | None=None) -> IRModule:
        """Loads a PyTorch model.

        Args:
            script_module: a trace (``torch.jit.trace``) or another ScriptModule, an ``nn.Module``, an ``ExportedProgram``, a
                ``torch.fx.GraphModule``, or the path of a ``.pt2`` file.
            input_infos: the inputs in order: ``(name, shape)``, ``(name, (shape, dtype))`` or ``(name, tensor)``; tuples of these
                stand for tuples of tensors, ``x_0`` and so on. The names are those of the module's inputs. Texts in shapes are
                dynamic dimensions, equal ones equal sizes; None is one without a name. A module may also be given example
                tensors only, or a dictionary by the names of its arguments. None: as the trace or the exported program says.
            custom_convert_map: converters of the user, which win over Forge's: ``{"aten::relu": f(inputs, input_types)}`` for
                all overloads of an operator, ``{"relu.default": f(node, importer)}`` for one. They give expressions.
            default_type: the element type of inputs of which nothing says one; ``default_dtype`` is the same.
            use_parser_friendly_name: names of weights have ``_`` in the place of ``.``.
            keep_quantized_weight: weights that torch has quantized stay integers in any case: float32 copies would be larger, and
                be rounded to the same integers later. With True, biases of layers whose operand has a known scale are int32, in
                steps of the product of the scales of operand and weight; else they are float32.
            dynamic_shapes: as of ``torch.export.export``, for a module with example tensors or a trace.
            through_onnx: what cannot be converted is exported to ONNX by torch, and loaded from there, with a warning; False:
                never; True: at once.

        Raises:
            OptionError: an argument of the wrong kind; ImportModelError: torch cannot export the model, or it contradicts an
            argument; OpNotImplemented: it uses operators without a converter, all listed, and the way through ONNX failed or
            is switched off; ConverterError: a converter of the user failed.
        """

from_jax = Doors.from_jax
from_keras = Doors.from_keras
from_onnx = Doors.from_onnx
from_stablehlo = Doors.from_stablehlo
from_tensorflow = Doors.from_tensorflow
from_tflite = Doors.from_tflite
from_torch = Doors.from_torch

__all__ = ["from_jax", "from_keras", "from_onnx", "from_stablehlo", "from_tensorflow", "from_tflite", "from_torch"]
