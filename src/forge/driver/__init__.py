"""The whole compiler: stages, compilation, artifacts."""

from forge.driver.compiled import CompiledModel
from forge.driver.compiler import check_options, compile_module
from forge.driver.pipeline import GRAPH_STAGES, Stage, run_graph_stages

__all__ = ["GRAPH_STAGES", "CompiledModel", "Stage", "check_options", "compile_module", "run_graph_stages"]
