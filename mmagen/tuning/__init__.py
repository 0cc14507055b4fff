"""Tuning: measures configurations on many problems, fits the cost model, and writes a library."""
