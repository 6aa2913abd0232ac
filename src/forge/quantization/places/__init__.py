"""Where numbers are rounded: layers, and what quantises and dequantises around them."""
