"""What converters of ONNX operators are written with, by the names of Relay's frontend.

    class Selu(OnnxOpConverter):
        @classmethod
        def _impl_v1(cls, inputs, attr, params):
            return _expr.const(attr.get("gamma", 1.0507)) * _op.nn.relu(inputs[0])

    _get_convert_map(13)["Selu"] = Selu     # forge.frontends.onnx.register("Selu", Selu, domain=...) for other domains
"""

from forge.compose import expr as _expr
from forge.compose.expr import op as _op
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
from forge.relay.frontend import from_onnx

__all__ = [
    "AttrCvt", "OnnxOpConverter", "Renamer", "_expr", "_get_convert_map", "_op", "autopad", "dimension_constraint",
    "dimension_picker", "from_onnx", "get_relay_op", "infer_channels", "infer_shape", "infer_type",
]
