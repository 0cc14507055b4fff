"""The Jinja environment that renders the templates of projects."""

from __future__ import annotations

import contextlib
import hashlib
import re
from collections.abc import Mapping
from functools import cache, cached_property
from pathlib import Path
from typing import Any

import jinja2
from jinja2 import BytecodeCache, Environment, FileSystemLoader, StrictUndefined
from jinja2.bccache import Bucket

from mmagen.core.cache import cache_is_off, cache_root
from mmagen.core.digests import write_file
from mmagen.core.templates import templates_folder
from mmagen.generate.licence import licensed
from mmagen.mma.definition import definition
from mmagen.plan import cxx, facts, further_tensors, operations, scales


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
        bytecode_cache=_Compiled(),
    )
    made.filters |= {
        "cute_shape": cxx.shape,
        "cute_layout": cxx.layout,
        "cute_tile": cxx.tile,
        "smem_atom": cxx.smem_atom,
        "smem_copy": cxx.smem_copy,
        "gmma_atom": cxx.gmma_atom,
        "gmma_order": cxx.gmma_order,
        "definition": definition,
        "vector_type": cxx.vector_type,
        "copy_threads": cxx.copy_threads,
        "copy_values": cxx.copy_values,
        "cxx_accumulation": cxx.accumulation,
        "cxx_when": cxx.when,
        "cxx_string": facts.cxx_string,
        "cxx_char": facts.cxx_char,
        "epilogue_model": operations.model,
        "clamp_limits": operations.limits,
        "scales_model": scales.model,
        "test_tensor": further_tensors.factory,
        "test_tensors": further_tensors.described,
        "cxx_kernel_shape": cxx.kernel_shape,
        "cxx_cost": cxx.cost,
        "cxx_narrower": cxx.narrower,
        "cxx_launch_shape": cxx.launch_shape,
        "cxx_bool": lambda value: "true" if value else "false",
        "stride_arguments": lambda second: "ld, cute::_1{}" if second else "cute::_1{}, ld",
    }
    return made


@cache
def project_file(path: str) -> bytes:
    """A file of templates/project that is copied as it is, below its licence."""
    return licensed(path, (templates_folder() / "project" / path).read_bytes())


def rendered(path: str, context: Mapping[str, Any]) -> bytes:
    """A template of templates/project with its variables, below its licence.

    A unit that is left out leaves at most one blank line, and none at the end of the file.
    """
    text = environment().get_template(path).render(context)
    return licensed(path, (re.sub(r"\n{3,}", "\n\n", text).rstrip("\n") + "\n").encode())


class _Compiled(BytecodeCache):
    """Compiled templates in the cache folder, each behind its digest. One that cannot be read or kept is compiled, and no
    error."""

    @cached_property
    def _folder(self) -> Path:
        # What Jinja compiles depends on its version and on the settings in this module.
        settings = hashlib.sha256(jinja2.__version__.encode() + Path(__file__).read_bytes()).hexdigest()[:16]
        return cache_root() / "templates" / settings

    def load_bytecode(self, bucket: Bucket) -> None:
        if cache_is_off():
            return
        with contextlib.suppress(OSError):
            digest, _, code = (self._folder / bucket.key).read_bytes().partition(b"\n")
            if hashlib.sha256(code).hexdigest().encode() == digest:
                bucket.bytecode_from_string(code)

    def dump_bytecode(self, bucket: Bucket) -> None:
        if cache_is_off():
            return
        code = bucket.bytecode_to_string()
        with contextlib.suppress(OSError):
            write_file(self._folder / bucket.key, hashlib.sha256(code).hexdigest().encode() + b"\n" + code)
