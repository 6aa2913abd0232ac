"""What converters of ONNX operators are written with, by the names of Relay's frontend.

    class Selu(OnnxOpConverter):
        @classmethod
        def _impl_v1(cls, inputs, attr, params):
            return _expr.const(attr.get("gamma", 1.0507)) * _op.nn.relu(inputs[0])

    _get_convert_map(13)["Selu"] = Selu     # forge.frontends.onnx.register("Selu", Selu, domain=...) for other domains
"""

from forge.frontends.class_helpers import (
    AttrCvt,
    Renamer,
    autopad,
    dimension_constraint,
    dimension_picker,
    get_relay_op,
    infer_channels,
    infer_shape,
    infer_type,
)
from forge.frontends.onnx.convert_map import get_convert_map as _get_convert_map
from forge.frontends.onnx.registry import OnnxOpConverter
from forge.module import IRModule
from forge.relay import analysis
from forge.relay import expr as _expr
from forge.relay import function as _function
from forge.relay.expr import op as _op
from forge.relay.frontend import from_onnx
from forge.relay.frontend.graph_proto import GraphProto, _identity_list, fold_constant, get_info, new_var, onnx_input

__all__ = [
    "AttrCvt", "GraphProto", "IRModule", "OnnxOpConverter", "Renamer", "_expr", "_function", "_get_convert_map", "_identity_list",
    "_op", "analysis", "autopad", "dimension_constraint", "dimension_picker", "fold_constant", "from_onnx", "get_info",
    "get_relay_op", "infer_channels", "infer_shape", "infer_type", "new_var", "onnx_input",
]
