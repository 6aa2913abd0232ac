"""Calibration and quantisation of modules."""
