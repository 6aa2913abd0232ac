"""The accuracy that models lose by quantisation, with Forge and with its peers, on models trained on the spot."""
