"""Measured peak rates: `mmagen peak`."""
