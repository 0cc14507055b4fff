"""What kernel families share: plan values, tiling, operands, budgets, bank conflicts."""
