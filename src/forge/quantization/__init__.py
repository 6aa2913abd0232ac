"""Calibration and quantization of modules."""
