"""How weights are rounded, and what is changed around them so that they lose less."""
