"""Functions of Python as the C functions of a library: the compiled caller takes their addresses."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Mapping
from typing import Any

from mmagen.host_runtime.arguments import Arguments, struct_of
from mmagen.plan.arguments import of_description

_ARGUMENTS = ctypes.POINTER(Arguments)
_SECOND = {"run": ctypes.c_void_p, "workspace_bytes": ctypes.POINTER(ctypes.c_int64)}


def as_c(functions: Mapping[str, Callable[..., Any]], description: Mapping[str, Any]) -> dict[str, Any]:
    """run(struct, stream) and workspace_bytes(struct, pointer to int64) as C functions, the others as they are.

    struct: that of a kernel with the further arguments of `description`, a copy."""
    struct = struct_of(of_description(description.get("arguments", [])).members)

    def called_by_c(function: Callable[..., int], second: Any) -> Any:
        def call(pointer: Any, other: Any) -> int:
            found = pointer.contents
            copy = struct.from_buffer_copy(ctypes.string_at(ctypes.addressof(found), found.struct_size))
            return function(copy, other)

        return ctypes.CFUNCTYPE(ctypes.c_int, _ARGUMENTS, second)(call)

    made = {name: called_by_c(functions[name], second) for name, second in _SECOND.items() if name in functions}
    return {**functions, **made}
