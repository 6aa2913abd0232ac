"""PyTorch users' surface: ``torch.compile(model, backend=\"forge\")``, compiled modules, exporters of transformers."""
