"""The ONNX exporter: ``export_model`` makes a ``ModelProto``, ``save_model`` writes a file; ``exports`` adds operators."""

from forge.exporters.onnx.export import DEFAULT_OPSET, NEWEST_OPSET, OLDEST_OPSET, export_model, unsupported_nodes
from forge.exporters.onnx.files import save_model, with_weights
from forge.exporters.onnx.registry import exports

__all__ = [
    "DEFAULT_OPSET", "NEWEST_OPSET", "OLDEST_OPSET", "export_model", "exports", "save_model", "unsupported_nodes", "with_weights",
]
