"""Number formats and matrix arithmetic: pure functions on arrays."""
