"""Threads as lanes of arrays, and findings about them."""
