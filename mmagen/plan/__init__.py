"""What the plans of several kernel families are made of: values, tiling, operands, budgets, bank conflicts."""
