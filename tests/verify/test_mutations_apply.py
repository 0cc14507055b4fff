"""The planted faults of tests/support/mutations.py fit the projects of today; that they are seen, a GPU must show."""

from __future__ import annotations

import json

import pytest

from tests.support.mutations import CONTROLS, MUTATIONS, mutated, originals, project


def test_there_are_enough_of_them():
    assert len(MUTATIONS) >= 24
    names = [mutation.name for mutation in (*MUTATIONS, *CONTROLS)] + list(originals())
    assert len(set(names)) == len(names), "projects of one name do not compile together"
    assert all(mutation.seen for mutation in MUTATIONS)


@pytest.mark.parametrize("mutation", (*MUTATIONS, *CONTROLS), ids=lambda mutation: mutation.name)
def test_it_applies_and_changes_what_it_says(mutation):
    plain, changed = project(mutation.spec, mutation.name), mutated(mutation)
    differ = {path for path in plain if plain[path] != changed[path]}
    assert differ == {edit.file.format(name=mutation.name) for edit in mutation.edits}
    fixed = json.loads(plain["mmagen.json"])["kernel"] != "gemm"
    assert bool(mutation.problems) != fixed, "a gemm needs problems, a kernel of fixed shape has none"
