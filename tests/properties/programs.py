"""Test programs of several projects built by two calls of nvcc: one for their kernels, one for the programs."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path

from mmagen.build.job import BuildResult
from mmagen.generate.render import render
from mmagen.plan.project import ProjectPlan
from mmagen.toolchain.find import Toolchain
from tests.properties.together import call_of_nvcc, sources_of

_INCLUDE = re.compile(r'^#include (?:<.*>|"(.*)").*\n', re.MULTILINE)
_ABOUT = re.compile(r"^#pragma once\n|^// SPDX.*\n", re.MULTILINE)


def build_programs(plans: Sequence[ProjectPlan], folder: Path, toolchain: Toolchain, arch: str) -> list[BuildResult]:
    """The program of all plans, which runs the test of the one that it is called by, and as its result the build of each.

    Raises DoesNotCompile."""
    (folder / "programs").mkdir(parents=True)
    (folder / "kernels.cu").write_text("".join(sources_of(plan, folder) for plan in plans), "utf-8")
    (folder / "tests.cu").write_text(_tests(plans, folder), "utf-8")
    real = f"arch=compute_{arch.removeprefix('sm_')},code={arch}"
    for unit, flags in (("kernels", []), ("tests", ["-I", "tests", '-DMMAGEN_CUTLASS_VERSION=""'])):
        call_of_nvcc(plans, folder, toolchain, [*flags, "-O3", "-gencode", real, "-c", "-o", f"{unit}.o", f"{unit}.cu"])
    call_of_nvcc(plans, folder, toolchain, ["-o", "program", "kernels.o", "tests.o", "-ldl"])
    results = []
    for plan in plans:
        program = folder / "programs" / plan.name
        program.symlink_to("../program")
        facts = {"kernel": plan.kernel, "spec_sha": plan.spec_sha}
        results.append(BuildResult(plan.name, folder, True, programs={"verify": program}, arch=(arch,), **facts))
    return results


def _tests(plans: Sequence[ProjectPlan], folder: Path) -> str:
    """The tests of all in one unit, each in a namespace of its own behind the headers of all."""
    headers: dict[str, None] = {}
    bodies = []
    for plan in plans:
        files = render(plan)
        for path, data in files.items():
            if path.startswith("tests/mmagen/"):
                place = folder / path
                assert not place.exists() or place.read_bytes() == data, f"{path} of {plan.name} is another"
                place.parent.mkdir(parents=True, exist_ok=True)
                place.write_bytes(data)
        body = _with_own_headers("tests/verify.cu", files, headers)
        bodies.append(f"namespace of_{plan.name} {{\n{body}\n}}\n")
    cases = "".join(f'  if (name == "{plan.name}") {{ return of_{plan.name}::main(argc, argv); }}\n' for plan in plans)
    chosen = "std::string const path = argv[0];\n  std::string const name = path.substr(path.rfind('/') + 1);\n"
    start = f"int main(int argc, char** argv) {{\n  {chosen}{cases}  return 99;\n}}\n"
    return "#include <string>\n" + "".join(headers) + "".join(bodies) + start


def _with_own_headers(path: str, files: Mapping[str, bytes], headers: dict[str, None]) -> str:
    """A file of the tests with the project's own headers in it; all others are added to `headers`."""

    def put(match: re.Match[str]) -> str:
        own = f"tests/{match[1]}"
        if match[1] and own in files and not own.startswith("tests/mmagen/"):
            return _with_own_headers(own, files, headers)
        headers[match[0]] = None
        return ""

    return _INCLUDE.sub(put, _ABOUT.sub("", files[path].decode()))
