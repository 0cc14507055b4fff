"""Runs a generated library's host code without a GPU: a stand-in for the CUDA runtime captures the launches."""
