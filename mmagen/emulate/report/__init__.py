"""Findings and memory traffic of a launch."""
