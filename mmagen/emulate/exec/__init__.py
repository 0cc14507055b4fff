"""Blocks of an entry, their compilation, the scheduler, and launches."""
