"""Planted faults: small edits of generated projects, each of which verify must notice.

A mutation belongs to a spec of specs/ or of odd/. Its project is generated under the mutation's own name, so that all of them
compile together, and then edited: every text must stand there as often as stated, or the edit is out of date.

A dropped barrier alone is a race that may go well for years. Those mutations make one warp late as well, which is no
fault while the barrier stands (see CONTROLS), so that the effect is certain.

Faults of wgmma kernels for which a GPU would wait for ever, or would nearly always be lucky, are asked of the emulator
alone (more of them, made in PTX, are in tests/build/test_emulated_hopper.py); the others of the GPU alone, since each
takes nvcc ten seconds.
"""

from __future__ import annotations

from pathlib import Path

from mmagen.families import plan
from mmagen.generate.render import render
from mmagen.spec.load import load
from tests.support import (
    mutations_beyond_dense,
    mutations_clusters,
    mutations_hopper,
    mutations_mma,
    mutations_packed,
    mutations_slices,
    mutations_sparse,
    mutations_sparse_mma,
    mutations_tile_n,
)
from tests.support.mutation import EMULATOR, GPU, Mutation, one
from tests.support.mutations_calls import FAULTS as CALL_FAULTS
from tests.support.mutations_complex import FAULTS as COMPLEX_FAULTS
from tests.support.mutations_corners import FAULTS as CORNER_FAULTS
from tests.support.mutations_epilogue import FAULTS as EPILOGUE_FAULTS
from tests.support.mutations_few_rows import FAULTS as FEW_ROWS_FAULTS
from tests.support.mutations_few_rows import OTHER_SIZES as FEW_ROWS_OF_OTHER_SIZES
from tests.support.mutations_group_tensors import FAULTS as GROUP_TENSOR_FAULTS
from tests.support.mutations_grouped import FAULTS as GROUPED_FAULTS
from tests.support.mutations_large import FAULTS as LARGE_FAULTS
from tests.support.mutations_mixed import FAULTS as MIXED_FAULTS
from tests.support.mutations_pieces import FAULTS as PIECES_FAULTS
from tests.support.mutations_pointers import FAULTS as POINTER_FAULTS
from tests.support.mutations_producers import FAULTS as PRODUCER_FAULTS
from tests.support.mutations_reach import FAULTS
from tests.support.mutations_scale import FAULTS as SCALE_FAULTS

SPECS = Path(__file__).resolve().parents[2] / "specs"
ODD = SPECS.parent / "tests" / "gpu" / "odd"

# The emulator is asked with the problems that it chooses: this one is too large for it.
_REACH = tuple(
    one(name, spec, header, old, new, "4096,4096,4104", seen, where=(EMULATOR,))
    for name, spec, header, old, new, seen in (*FAULTS, *GROUPED_FAULTS, *POINTER_FAULTS, *GROUP_TENSOR_FAULTS)
)

_CORNERS = tuple(
    one(f"corner_{name}", *fault, "4096,4096,4104", seen, where=(EMULATOR,)) for name, *fault, seen in CORNER_FAULTS
)

_LARGE = tuple(one(f"large_{name}", *fault, "4096,4096,4104", seen, where=(EMULATOR,)) for name, *fault, seen in LARGE_FAULTS)

_CALLS = tuple(one(f"call_{name}", *fault, "4096,4096,4104", seen, where=(EMULATOR,)) for name, *fault, seen in CALL_FAULTS)

_FEW_ROWS = tuple(
    one(f"few_rows_{name}", "few_rows", "sm90_few_rows", old, new, problem, seen, where=(EMULATOR,))
    for name, old, new, problem, seen in FEW_ROWS_FAULTS
) + tuple(
    one(f"few_rows_{name}", spec, "sm90_few_rows", old, new, problem, seen, where=(EMULATOR,))
    for name, spec, old, new, problem, seen in FEW_ROWS_OF_OTHER_SIZES
)

_PRODUCERS = tuple(
    one(f"producer_{name}", *fault, "4096,4096,4104", seen, where=(EMULATOR,)) for name, *fault, seen in PRODUCER_FAULTS
)

_SPARSE = tuple(
    one(f"sparse_{name}", f"sparse_{spec}", header, old, new, problem, seen, where=(EMULATOR,))
    for name, spec, header, old, new, problem, seen in mutations_sparse.FAULTS
)
_SPARSE += tuple(one(f"sparse_mma_{name}", *rest, where=(EMULATOR,)) for name, *rest in mutations_sparse_mma.FAULTS)
_CLUSTERS = tuple(
    one(f"clusters_{name}", *rest, "4096,4096,4104", seen, where=(EMULATOR,)) for name, *rest, seen in mutations_clusters.FAULTS
)
_CLUSTERS += mutations_clusters.IN_SEVERAL_PLACES
_TILE_N = tuple(
    one(f"tile_n_{name}", *fault, "4096,4096,4104", seen, where=(EMULATOR,))
    for name, *fault, seen in (*mutations_tile_n.HOST_FAULTS, *mutations_tile_n.FAULTS)
)
_PACKED = tuple(one(f"packed_{name}", *rest, where=(EMULATOR,)) for name, *rest in mutations_packed.FAULTS)

_SCALE = tuple(one(*fault, where=(EMULATOR,)) for fault in SCALE_FAULTS)
_MIXED = tuple(one(f"mixed_{name}", *rest, where=(EMULATOR,)) for name, *rest in MIXED_FAULTS)
_PIECES = tuple(one(f"pieces_{name}", *rest, where=(EMULATOR,)) for name, *rest in PIECES_FAULTS)
_COMPLEX = tuple(one(f"complex_{name}", *rest, where=(EMULATOR,)) for name, *rest in COMPLEX_FAULTS)
_EPILOGUE = tuple(
    one(f"epilogue_{name}", spec, header, old, new, problem, seen)
    for name, spec, header, old, new, problem, seen in EPILOGUE_FAULTS
)

_SLICES = tuple(one(f"slices_{name}", *rest, where=(EMULATOR,)) for name, *rest in mutations_slices.FAULTS)
_BEYOND_DENSE = tuple(
    one(f"beyond_{name}", *fault, "4096,4096,4104", seen, where=(EMULATOR,))
    for name, *fault, seen in (*mutations_beyond_dense.HOST_FAULTS, *mutations_beyond_dense.FAULTS)
)

MUTATIONS = (
    *mutations_hopper.ACCUMULATION,
    *mutations_mma.FAULTS,
    *mutations_hopper.FAULTS,
    *_REACH,
    *_EPILOGUE,
    *_SLICES,
    *_FEW_ROWS,
    *_SCALE,
    *_SPARSE,
    *_MIXED,
    *_PACKED,
    *_CLUSTERS,
    *_TILE_N,
    *_PIECES,
    *_COMPLEX,
    *_CORNERS,
    *_LARGE,
    *_CALLS,
    *_PRODUCERS,
    *_BEYOND_DENSE,
)

CONTROLS = (*mutations_mma.CONTROLS, *mutations_hopper.CONTROLS)


def asked(whom: str, mutations: tuple[Mutation, ...]) -> list[Mutation]:
    """Those that the GPU, or the emulator, is asked about."""
    return [mutation for mutation in mutations if whom in mutation.where]


def originals() -> dict[str, tuple[str, ...]]:
    """Every spec that a mutation for the GPU is made of, and all the problems that its mutations run."""
    table: dict[str, dict[str, None]] = {}
    for mutation in asked(GPU, MUTATIONS):
        table.setdefault(mutation.spec, {}).update(dict.fromkeys(mutation.problems))
    return {spec: tuple(problems) for spec, problems in table.items()}


def project(spec: str, name: str) -> dict[str, bytes]:
    """The files of the project that `spec`, of specs/ or of odd/, makes when it is called `name`."""
    path = next(path for folder in (SPECS, ODD) if (path := folder / f"{spec}.yaml").is_file())
    loaded = load(path.read_bytes(), path.name).spec
    return render(plan(loaded.model_copy(update={"name": name})))


def mutated(mutation: Mutation, name: str = "") -> dict[str, bytes]:
    """The mutation's project, called `name` or as the mutation is; AssertionError when the text to edit is not there as
    often as stated."""
    name = name or mutation.name
    files = project(mutation.spec, name)
    for edit in mutation.edits:
        path = edit.file.format(name=name)
        text = files[path].decode()
        assert text.count(edit.old) == edit.count, f"{path} has {text.count(edit.old)} x {edit.old!r}, not {edit.count}"
        files[path] = text.replace(edit.old, edit.new).encode()
    return files
