"""Changes of graphs: edits with undo, rewriting by rules, cutting parts out, other batch sizes and types."""
