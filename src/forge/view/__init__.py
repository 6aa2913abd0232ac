"""Pictures of modules: pages for a browser, and SVG for notebooks and documents."""

from forge.view.page import page
from forge.view.svg import Plot, plot

__all__ = ["Plot", "page", "plot"]
