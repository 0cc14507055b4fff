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
