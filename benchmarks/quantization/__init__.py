"""The accuracy that models lose by quantization, with Forge and with its peers, on models trained on the spot."""
