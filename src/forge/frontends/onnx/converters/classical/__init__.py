"""Classical models (domain ai.onnx.ml)."""

DOMAIN = "ai.onnx.ml"
