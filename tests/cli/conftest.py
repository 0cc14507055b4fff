"""The fixtures of tests of the command line."""

from tests.support.fakes import machine, workspace

__all__ = ["machine", "workspace"]
