"""Verdicts as tables, files and pages."""
