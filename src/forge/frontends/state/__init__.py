"""Tensors that a program writes, views and keeps, and sizes that it computes, for formats whose programs do so.

The graph IR is pure. ``cells`` has tensors that share memory, ``strides`` what strides say of that; ``sizes`` is a scope with the
symbols and computed numbers of a program, ``ratios`` what sizes give in floating point; ``scope`` has the tensors as well;
``writes`` says which memory a program writes, and makes states and donated inputs of the module of it.
"""
