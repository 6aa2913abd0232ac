"""Where numbers are rounded: layers, and what quantizes and dequantizes around them."""
