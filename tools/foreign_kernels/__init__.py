"""Runs kernels of other projects in the emulator: they are known to be right, so a finding or a wrong result is our defect.

    python -m tools.foreign_kernels --cutlass DIR --deepgemm DIR --thunderkittens DIR --cuda_hgemm DIR --fast_cu DIR
        --sgemm_cuda DIR [--only NAME] [--faults] [--markdown FILE]

Each DIR is a checkout of the project at the version that `sources.py` names, e.g.

    git clone --depth 1 --branch v4.2.0 https://github.com/NVIDIA/cutlass

DeepGEMM includes CUTLASS's headers. drivers/ has our host code that instantiates their templates and calls their public
interfaces; nothing of theirs is kept here. A kernel takes half a minute to two minutes to compile; what was compiled is
kept in --scratch and used again until a file that the compiler read changes.
"""
