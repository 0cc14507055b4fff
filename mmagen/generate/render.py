"""render: Plan to files. Substitutes what was decided and picks whole files; decides nothing."""

from __future__ import annotations

import contextlib
from functools import cache
from pathlib import Path
from typing import Any

import yaml
from jinja2 import Environment, FileSystemBytecodeCache, FileSystemLoader, StrictUndefined
from jinja2.bccache import Bucket

from mmagen import __version__
from mmagen.core.cache import cache_root
from mmagen.core.targets import cmake_list
from mmagen.core.templates import templates_folder
from mmagen.generate import manifest
from mmagen.plan import cxx as cute
from mmagen.plan.model import Plan

# Folders of templates/project that make up a project of each kind; a file of a later one would replace an earlier's.
# NAME in a path is the project's name; of a path with CONFIG there is a file for each kernel of a library.
_PARTS = {
    "gemm": ("common", "product", "gemm"),
    "micro": ("common", "product", "micro"),
    "ownership": ("common", "ownership"),
}
_MAINLOOP_CLASS = {
    "mainloop_multistage": "MainloopMultistage",
    "mainloop_register_staged": "MainloopRegisterStaged",
}
# libyaml's, where PyYAML was built with it, writes these documents to the same bytes in a fraction of the time.
_Dumper = getattr(yaml, "CSafeDumper", yaml.SafeDumper)
_KERNEL_CLASS = {"warpgroup": "Sm90Warpgroup", "cooperative": "Sm90Cooperative", "pingpong": "Sm90Pingpong"}


def render(plan: Plan) -> dict[str, bytes]:
    """All files of the project by POSIX path, `mmagen.json` with their digests last. The same plan gives the same bytes."""
    files = {"spec.yaml": _spec_yaml(plan).encode(), **_project(plan)}
    files = dict(sorted(files.items()))
    files["mmagen.json"] = _manifest(plan, files)
    return files


def _project(plan: Plan) -> dict[str, bytes]:
    """All files but the spec and the manifest."""
    if plan.kernel == "peak":
        from mmagen.families.peak.family import files as of_peak

        return of_peak(plan, _environment(), templates_folder())
    context = _context(plan, plan.configs[-1].name if plan.configs else "")
    files = {}
    for path, source in {path: f"{part}/{path}" for part in _parts(plan) for path in _part_files(part)}.items():
        for one in _each_config(plan) if "CONFIG" in path else (context,):
            target = path.removesuffix(".j2").replace("NAME", plan.name).replace("CONFIG", one["config"])
            files[target] = _content(source, one)
    for folder, headers in (("include", plan.runtime), ("tests", plan.test_runtime)):
        for header in headers:
            files[f"{folder}/mmagen/{header.rpartition('/')[2]}.cuh"] = _bytes(f"../runtime/{header}.cuh")
    return files


def _parts(plan: Plan) -> tuple[str, ...]:
    """The folders that make up the project, later ones over earlier ones."""
    if not isinstance(plan, Plan):
        return "common", "instruction"
    over = {"hopper": plan.hopper, "micro_wgmma": plan.kernel == "micro" and plan.atom.wgmma, "library": plan.configs}
    return (*_PARTS[plan.kernel], *(part for part, wanted in over.items() if wanted))


def _content(source: str, context: dict[str, Any]) -> bytes:
    return _environment().get_template(source).render(context).encode() if source.endswith(".j2") else _bytes(source)


class _Compiled(FileSystemBytecodeCache):
    """Compiled templates in a folder; one that cannot be read or kept is compiled, and no error."""

    def load_bytecode(self, bucket: Bucket) -> None:
        with contextlib.suppress(OSError):
            super().load_bytecode(bucket)

    def dump_bytecode(self, bucket: Bucket) -> None:
        with contextlib.suppress(OSError):
            Path(self.directory).mkdir(parents=True, exist_ok=True)
            super().dump_bytecode(bucket)


@cache
def _environment() -> Environment:
    environment = Environment(
        loader=FileSystemLoader(templates_folder() / "project"),
        undefined=StrictUndefined,
        keep_trailing_newline=True,
        trim_blocks=False,
        auto_reload=False,
        autoescape=False,
        bytecode_cache=_Compiled(str(cache_root() / "templates")),
    )
    environment.filters |= {
        "cute_shape": cute.shape,
        "cute_layout": cute.layout,
        "cute_tile": cute.tile,
        "smem_atom": cute.smem_atom,
        "smem_copy": cute.smem_copy,
        "gmma_atom": cute.gmma_atom,
        "gmma_order": cute.gmma_order,
        "vector_type": cute.vector_type,
        "fill_threads": cute.fill_threads,
        "fill_values": cute.fill_values,
        "cxx_when": cute.when,
        "cxx_bool": lambda value: "true" if value else "false",
        "stride_arguments": lambda second: "ld, cute::_1{}" if second else "cute::_1{}, ld",
    }
    return environment


@cache
def _part_files(part: str) -> tuple[str, ...]:
    root = templates_folder() / "project" / part
    return tuple(
        sorted(
            path.relative_to(root).as_posix() for path in root.rglob("*") if path.is_file() and not path.name.startswith("_")
        )
    )


@cache
def _bytes(path: str) -> bytes:
    return (templates_folder() / "project" / path).read_bytes()


def _each_config(plan: Plan) -> list[dict[str, Any]]:
    """What the files see of which there is one for each kernel."""
    return [_context(config.plan, config.name) for config in plan.configs] or [_context(plan)]


def _context(plan: Plan, config: str = "") -> dict[str, Any]:
    """config: of a library the one that is meant; what several share is the last one's."""
    of_kind = _tile_context(plan, config) if isinstance(plan, Plan) else _instruction_context(plan)
    return {
        "plan": plan,
        "config": config or "config",
        "headers": [one.name for one in plan.configs] or ["config"],
        "version": __version__,
        "upper": plan.name.upper(),
        "cuda_architectures": cmake_list(plan.arch),
        "sources": [f"src/{plan.name}.cu"],
        "definitions": ["NDEBUG", *(["CUTE_SM90_EXTENDED_MMA_SHAPES_ENABLED"] if plan.extended else [])],
    } | of_kind


def _instruction_context(plan: Any) -> dict[str, Any]:
    from mmagen.families.instruction.context import context

    return context(plan)


def _tile_context(plan: Plan, config: str) -> dict[str, Any]:
    return {
        "decisions": "instruction, TiledMMA, tiles, shared-memory layouts, copies",
        "who": f"{plan.name}, config {config}" if config else plan.name,
        "scope": f"{plan.name}::{config}" if config else plan.name,
        "type": f"{config}::Config" if config else "Config",
        "launch": "sm90" if plan.hopper else plan.kernel,
        "mainloop_class": _MAINLOOP_CLASS.get(plan.mainloop or ""),
        "kernel_class": _KERNEL_CLASS[plan.hopper.schedule] if plan.hopper else None,
        "sources": [
            f"src/{name}.cu"
            for name in (plan.name, *(one.name for one in plan.configs), *((f"{plan.name}_unaligned",) if plan.hopper else ()))
        ],
    }


def _spec_yaml(plan: Plan) -> str:
    """The spec with its defaults filled in, so that the project says all by itself."""
    document = plan.spec.model_dump(mode="json", by_alias=True)
    return (
        f"# The spec of this project, defaults filled in; `mmagen build spec.yaml` makes it again.\n"
        f"{yaml.dump(document, Dumper=_Dumper, sort_keys=False, width=120)}"
    )


def _manifest(plan: Plan, files: dict[str, bytes]) -> bytes:
    facts = {
        "mmagen": __version__,
        "name": plan.name,
        "kernel": plan.kernel,
        "spec_sha": plan.spec_sha,
        "arch": list(plan.arch),
    }
    return manifest.to_bytes({**facts, "files": manifest.digests(files)})
