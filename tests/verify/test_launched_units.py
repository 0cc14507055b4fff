"""What tests/gpu loads into a GPU has the kernel that it launches, also where a project has a translation unit for each kernel."""

from __future__ import annotations

import ctypes
import re

import pytest

from mmagen.build.ptx import compile_ptx
from mmagen.families import plan
from mmagen.generate.render import render
from mmagen.generate.write import write
from mmagen.plan.plans import GemmPlan
from mmagen.spec.load import load
from mmagen.toolchain.find import COMPILE, find_toolchain
from mmagen.verify.emulated.matrices import operands
from mmagen.verify.emulated.session import tasks
from tests.emulate.record import GpuError
from tests.gpu.driver import multiply
from tests.gpu.test_emulator_agrees import DRIVEN
from tests.support.mutations import SPECS

_LIBRARIES = sorted(name for name, one in DRIVEN.items() if isinstance(one, GemmPlan) and one.configs)


class _Driver:
    """In place of tests.emulate.record.Gpu: device memory that is the host's, modules that are the names of their entries, and
    launches that compute nothing."""

    def __init__(self) -> None:
        self.launched: list[str] = []
        self.modules: dict[int, list[str]] = {}
        self._memory: dict[int, ctypes.Array[ctypes.c_char]] = {}
        self._found = ""

    def load(self, ptx: str) -> ctypes.c_void_p:
        handle = max(self.modules, default=0) + 1
        self.modules[handle] = re.findall(r"\.entry\s+([\w$]+)", ptx)
        return ctypes.c_void_p(handle)

    def call(self, name, *arguments):
        match name, arguments:
            case "cuMemAlloc_v2", (pointer, size):
                memory = ctypes.create_string_buffer(size.value)
                pointer._obj.value = ctypes.addressof(memory)
                self._memory[pointer._obj.value] = memory
            case "cuMemFree_v2", (buffer,):
                del self._memory[buffer.value]
            case (("cuMemcpyHtoD_v2" | "cuMemcpyDtoH_v2"), (to, source, size)):
                ctypes.memmove(ctypes.c_void_p(to.value), ctypes.c_void_p(source.value), size.value)
            case "cuModuleGetFunction", (_, module, entry):
                self._found = entry.value.decode()
                if self._found not in self.modules[module.value]:
                    raise GpuError("cuModuleGetFunction: named symbol not found (500)")
            case "cuModuleUnload", (module,):
                del self.modules[module.value]
            case "cuLaunchKernel", _:
                self.launched.append(self._found)


def _of_two_kernels(name):
    """The spec of a library with its first and its last config alone."""
    spec = load((SPECS / f"{name}.yaml").read_bytes(), f"{name}.yaml").spec
    return spec.model_copy(update={"configs": (spec.configs[0], spec.configs[-1])})


@pytest.mark.nvcc
@pytest.mark.parametrize("name", [*_LIBRARIES[:1], *(pytest.param(name, marks=pytest.mark.more) for name in _LIBRARIES[1:])])
def test_the_kernels_of_a_library_are_in_what_is_loaded(name, tmp_path):
    library = plan(_of_two_kernels(name))
    write(render(library), tmp_path / name)
    ptx = compile_ptx(tmp_path / name, find_toolchain(want=COMPILE))
    assert not ptx.error
    first_of = {task.config: task for task in reversed(tasks(library, ptx, (), 1, None, 256))}
    driver = _Driver()
    for task in first_of.values():
        multiply(driver, task, operands(task.plan, task.problem, task.distribution, task.seed))
    assert len(set(driver.launched)) == len(first_of) == 2, "each config has a kernel of its own"
    assert not driver.modules and not driver._memory


def test_there_are_libraries_to_try():
    assert _LIBRARIES
