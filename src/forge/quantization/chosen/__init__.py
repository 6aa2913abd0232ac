"""What is quantized, and how: schemes, the cost of each layer, weights of few bits."""
