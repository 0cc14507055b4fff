"""Runs kernels of other projects in the emulator: they are known to be right, so a finding or a wrong result is our defect.

    python -m tools.foreign_kernels --cutlass DIR --deepgemm DIR --thunderkittens DIR [--only NAME] [--faults] [--markdown FILE]

Each DIR is a checkout of the project; `sources.py` names the repositories and the versions. drivers/ has our host code that
instantiates their templates and calls their public interfaces; nothing of theirs is kept here.
"""
