"""kernel: micro of single instructions: every operation has a plan or is refused, and what the kernel computes of an element's
place is what `mmagen verify --atoms` lays out by."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest

from mmagen.core.errors import SpecFaults
from mmagen.families import family, plan
from mmagen.families.instruction.model import CoreMatrices, Fragment, InstructionPlan
from mmagen.mma import images
from mmagen.mma.catalogue import operations
from mmagen.op_tests import case
from mmagen.spec.model import Spec

# The families that build micro kernels of tiles.
TILED = [family("mmagen.families.micro"), family("mmagen.families.wgmma.micro")]


def planned(name: str, **changes):
    return plan(Spec(mmagen=1, name="x", kernel="micro", atom=name, **changes))


def _places(one: Fragment) -> np.ndarray:
    """[thread, stored value] -> row + rows * stored column, by the words of Fragment::place in fragment.cuh."""
    table = images.owners(str(one.layout))
    value = np.arange(table.shape[1] // one.group * one.kept)
    logical = table[:, value // one.kept * one.group]
    return logical % one.rows + one.rows * (logical // one.rows // one.group * one.kept + value % one.kept)


def test_every_operation_is_planned_as_it_is_laid_out_in_batches():
    kinds = Counter()
    for operation in operations():
        if operation.kind == "tcgen05" or operation.broken:
            with pytest.raises(SpecFaults):
                planned(operation.name)
            continue
        if any(one.builds(operation.name) for one in TILED):
            continue
        it = planned(operation.name)
        assert isinstance(it, InstructionPlan)
        kinds[operation.family, operation.kind] += 1
        for one in it.operands:
            if isinstance(one, Fragment):
                table, width = case._table(operation, one.name)
                assert (_places(one) == table).all() and one.part_bits == width, (operation.name, one.name)
            else:
                assert (
                    isinstance(one, CoreMatrices) and operation.places[one.name] == "shared memory" and one.row_bytes % 16 == 0
                )
        assert operation.thr_id == f"{operation.threads}:{1 if operation.threads > 1 else 0}", (
            "a CTA is the threads of the instruction"
        )
    assert kinds == {
        ("SM80", "mma.sync"): 32,
        ("SM90", "mma.sync"): 6,
        ("SM90", "wgmma"): 1056,
        ("SM100", "fma"): 2,
        ("SM120", "mma.sync"): 154,
    }


@pytest.mark.parametrize(
    ("changes", "key", "says"),
    [
        ({"tile": (16, 8, 32)}, ("tile",), "is a single instruction and has no tile"),
        ({"layout": {"a": "M", "b": "N"}}, ("layout",), "omit it"),
        ({"arch": ("sm_75",)}, ("arch", 0), "sm_80 or later"),
    ],
)
def test_what_one_instruction_has_no_use_for_is_refused(changes, key, says):
    with pytest.raises(SpecFaults) as caught:
        planned("SM80_16x8x32_S32S4S4S32_TN", **changes)
    (fault,) = caught.value.faults
    assert fault.key == key and says in f"{fault.what}; {fault.remedy}"


def test_what_cutlass_has_wrong_is_mended_and_said():
    assert "pull request 3140" in planned("SM80_16x8x32_S32S4S4S32_TN").note
    assert planned("SM80_16x8x64_S32S4S4S32_TN").note == ""
