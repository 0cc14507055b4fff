"""Fakes, small projects, tilings and planted faults that tests of several folders share."""
