"""The public name of ``forge.ir.text.printer``."""

from forge.ir.text.printer import Printed, metadata_text, print_graph, print_module, print_with_constants

__all__ = ["Printed", "metadata_text", "print_graph", "print_module", "print_with_constants"]
