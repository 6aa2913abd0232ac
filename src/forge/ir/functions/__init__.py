"""What functions of a module have beyond a graph: public names, state, memory given away."""
