"""Tests MMA operations in isolation, many per program: `mmagen verify --atoms`."""
