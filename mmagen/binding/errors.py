"""What calls from Python raise."""

from __future__ import annotations

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


# Of members that a caller from Python does not know.
_ARGUMENT_OF = {f"{member}{x}": "out" if x == "d" else x for x in "abcd" for member in ("ld", "batch_stride_")}


def refused(sentence: str) -> ArgumentError:
    """What a library says of a call that it refuses, which begins with the member of the struct."""
    member, _, what = sentence.partition(" ")
    if member in _ARGUMENT_OF:
        return ArgumentError(_ARGUMENT_OF[member], sentence)
    return ArgumentError("out" if member == "d" else member, what)
