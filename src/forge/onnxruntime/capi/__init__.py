"""The place where programs look for onnxruntime's exceptions."""
