"""The Jinja environment that renders the templates of projects."""

from __future__ import annotations

import contextlib
from functools import cache
from pathlib import Path

from jinja2 import Environment, FileSystemBytecodeCache, FileSystemLoader, StrictUndefined
from jinja2.bccache import Bucket

from mmagen.core.cache import cache_root
from mmagen.core.templates import templates_folder
from mmagen.plan import cxx


@cache
def environment() -> Environment:
    """Renders files of templates/project; a name that nothing defines is an error."""
    made = Environment(
        loader=FileSystemLoader(templates_folder() / "project"),
        undefined=StrictUndefined,
        keep_trailing_newline=True,
        trim_blocks=False,
        auto_reload=False,
        autoescape=False,
        bytecode_cache=_Compiled(str(cache_root() / "templates")),
    )
    made.filters |= {
        "cute_shape": cxx.shape,
        "cute_layout": cxx.layout,
        "cute_tile": cxx.tile,
        "smem_atom": cxx.smem_atom,
        "smem_copy": cxx.smem_copy,
        "gmma_atom": cxx.gmma_atom,
        "gmma_order": cxx.gmma_order,
        "vector_type": cxx.vector_type,
        "copy_threads": cxx.copy_threads,
        "copy_values": cxx.copy_values,
        "cxx_when": cxx.when,
        "cxx_bool": lambda value: "true" if value else "false",
        "stride_arguments": lambda second: "ld, cute::_1{}" if second else "cute::_1{}, ld",
    }
    return made


class _Compiled(FileSystemBytecodeCache):
    """Compiled templates in a folder; one that cannot be read or kept is compiled, and no error."""

    def load_bytecode(self, bucket: Bucket) -> None:
        with contextlib.suppress(OSError):
            super().load_bytecode(bucket)

    def dump_bytecode(self, bucket: Bucket) -> None:
        with contextlib.suppress(OSError):
            Path(self.directory).mkdir(parents=True, exist_ok=True)
            super().dump_bytecode(bucket)
