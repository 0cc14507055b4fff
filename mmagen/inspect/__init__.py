"""What a plan or an operation is, as text."""
