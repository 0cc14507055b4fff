"""`kernel: micro` of an operation that no tile is built from: a project of that one instruction."""
