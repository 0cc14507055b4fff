"""mmagen: from a YAML spec of a tensor-core matrix multiply to a verified CuTe/CUDA project.

    kernel = mmagen.compile("spec.yaml")
    d = kernel(a, b)                      # arrays of torch, CuPy, JAX: anything with DLPack

`docs/python.md` describes the functions. They are imported when they are first used; `__init__.pyi` has their types.
"""

from __future__ import annotations

import sys
from importlib import import_module
from types import ModuleType
from typing import Any

__version__ = "0.1.0"

_FROM = {
    "mmagen.api": ("build", "compile", "inspect", "load_spec", "open", "plan", "verify"),
    "mmagen.binding.errors": ("ArgumentError", "DeviceError"),
    "mmagen.binding.kernel": ("Kernel",),
    "mmagen.binding.libraries": ("transposed",),
    "mmagen.binding.sparse": ("Compressed",),
    "mmagen.core.errors": ("BuildError", "MmagenError", "RunError", "SpecError", "UsageError"),
    "mmagen.spec.model": ("Spec",),
    "mmagen.verify.verdict": ("Verdict",),
}
_MODULE_OF = {name: module for module, names in _FROM.items() for name in names}
_PACKAGES = ("build", "inspect", "plan", "verify")  # that have the name of a function

__all__ = ["__version__", *_MODULE_OF]


class _CallablePackage(ModuleType):
    """`mmagen.plan` is a package, and a call of it is a call of the function of that name."""

    def __call__(self, *arguments: Any, **named: Any) -> Any:
        return getattr(import_module("mmagen.api"), self.__name__.rpartition(".")[2])(*arguments, **named)


class _Mmagen(ModuleType):
    """Makes those packages callable when importing one sets it as an attribute."""

    def __setattr__(self, name: str, value: Any) -> None:
        if name in _PACKAGES and isinstance(value, ModuleType):
            value.__class__ = _CallablePackage
        super().__setattr__(name, value)


sys.modules[__name__].__class__ = _Mmagen


def __getattr__(name: str) -> Any:
    if name in _PACKAGES:
        return import_module(f"mmagen.{name}")
    if name in _MODULE_OF:
        return getattr(import_module(_MODULE_OF[name]), name)
    raise AttributeError(f"module 'mmagen' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
