"""MMA operations: the catalogue of all of them, the atoms that tiles are built from, thread-value layouts, number formats."""
