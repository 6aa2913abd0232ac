"""The loop IR: expressions, statements and functions over flat buffers."""
