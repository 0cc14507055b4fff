"""What the host code of a project is asked besides products: its C interface, and the choice of a library."""

from __future__ import annotations

from mmagen.host_runtime.library import HostError
from mmagen.verify.emulated import choices, operand_loads
from mmagen.verify.emulated.interface import interface_of
from mmagen.verify.emulated.task import Task


def check(task: Task) -> None:
    """Raises HostError where the C interface of a kernel alone does not do what its header says, or a library chooses another
    config than its rules do, or loads operands otherwise than planned."""
    interface = interface_of(task)
    if task.library:
        first = task.config == task.library.configs[0].name  # asked once, not for each of its kernels
        broken = [*choices.wrong(interface), *operand_loads.wrong(interface)] if first else []
    else:
        broken = interface.broken()
    if broken:
        more = f"; {len(broken) - 1} more" if len(broken) > 1 else ""
        raise HostError(f"the C interface: {broken[0]}{more}")
