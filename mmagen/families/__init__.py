"""Kernel families: all that is particular to one kind of kernel, behind one Protocol and one registration."""
