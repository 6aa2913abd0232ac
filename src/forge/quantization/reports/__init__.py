"""What a quantized model loses and where, as data, as a page and as charts."""
