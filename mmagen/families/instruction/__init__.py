"""`kernel: micro` of an operation that is not an atom: a project of that single instruction."""
