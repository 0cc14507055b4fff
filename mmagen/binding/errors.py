"""What calls from Python raise."""

from __future__ import annotations

import re

from mmagen.core.errors import RunError, UsageError


class ArgumentError(UsageError, ValueError):
    """An argument that the kernel cannot take. argument: its name, e.g. "a"."""

    def __init__(self, argument: str, what: str):
        super().__init__(f"{argument}: {what}")
        self.argument = argument


class DeviceError(RunError, RuntimeError):
    """The machine cannot run the kernel, or CUDA reported an error. cuda_error: its cudaError_t, 0 if there is none."""

    def __init__(self, what: str, cuda_error: int = 0):
        super().__init__(what)
        self.cuda_error = cuda_error


# Members that a caller from Python does not know: those of a tensor have an underscore before its name.
_STRIDE = re.compile(r"(?:ld|batch_stride_)([abcd])|(?:ld_|batch_stride_)(\w+)")


def refused(sentence: str) -> ArgumentError:
    """What a library says of a call that it refuses, which begins with the member of the struct."""
    member, _, what = sentence.partition(" ")
    if stride := _STRIDE.fullmatch(member):
        return ArgumentError(_argument_of(stride[1] or stride[2]), sentence)
    return ArgumentError(_argument_of(member), what)


def _argument_of(member: str) -> str:
    return "out" if member == "d" else member
