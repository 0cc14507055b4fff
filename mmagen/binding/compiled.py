"""The shared library of a project: compiled as every project is, then linked with a CUDA runtime of its own."""

from __future__ import annotations

import hashlib
import json
import os
import tempfile
from pathlib import Path

from mmagen.binding.shared_library import Entry, entries_in
from mmagen.build.build import build
from mmagen.core.errors import BuildError
from mmagen.core.process import capture
from mmagen.core.reads import Reading
from mmagen.toolchain.find import COMPILE, find_toolchain
from mmagen.toolchain.identity import compilers, open_cache
from mmagen.toolchain.temporary import check_temporary_folder

# cudart is static: the library needs no CUDA at run time but the driver.
_FLAGS = ("-shared", "-cudart", "static", "-Xlinker", "--no-undefined", "-Xlinker", "--exclude-libs,libcudart_static.a")


def compiled(project: Path, name: str, arch: str | None) -> Entry:
    """The kernel of the project in a folder. Raises BuildError."""
    toolchain = find_toolchain(want=COMPILE if arch else (*COMPILE, "gpus"))
    result = build([project], toolchain, arch=[arch] if arch else None, programs=("verify",))[0]
    if not result.ok or result.library is None:
        raise BuildError("\n".join((result.reason, *result.errors)))
    assert toolchain.nvcc and toolchain.host_compiler
    env = os.environ
    cache = open_cache(toolchain, env)
    how = hashlib.sha256(Path(__file__).read_bytes()).hexdigest()
    facts = [how, cache.digests.of(result.library), compilers(toolchain, env, cache.digests)]
    key = hashlib.sha256(json.dumps(facts, sort_keys=True).encode()).hexdigest()
    entry = cache.find("shared", key)
    if entry is None:
        check_temporary_folder(env)
        with tempfile.TemporaryDirectory(prefix="mmagen-link-") as scratch:
            made = Path(scratch) / f"lib{name}.so"
            steps: list[list[str | Path]] = [
                ["ar", "x", result.library]
            ]  # as objects: of an archive the linker takes what is used
            steps.append([toolchain.nvcc.path, "-ccbin", toolchain.host_compiler.path, *_FLAGS, "-o", made])
            for step in steps:
                objects = sorted(Path(scratch).glob("*.o"))
                done = capture([*step, *objects], timeout_s=None, cwd=Path(scratch), env=dict(env))
                if done.exit_code != 0:
                    break
            if done.exit_code != 0:
                raise BuildError(f"{name} does not link:\n{(done.stderr or done.stdout).strip()}")
            entry = cache.keep("shared", key, {}, {made.name: made}, Reading())
    cache.close()
    return entries_in(entry.folder / f"lib{name}.so")[name]
