"""`kernel: micro` of an operation that is known to the registry only: one instruction, its operands as the registry has them.

What mmagen.atoms knows, mmagen.plan makes a TiledMMA of; the rest (sparse, block-scaled, complex, 4- and 1-bit) comes here.
"""
