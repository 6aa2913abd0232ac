"""Operators on images and boxes."""
