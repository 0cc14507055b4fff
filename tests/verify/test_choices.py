"""A library's host code is asked for its choice on either side of each bound of its rules."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from mmagen.families import plan
from mmagen.families.library import choose
from mmagen.host_runtime.library import Reply
from mmagen.spec.load import load
from mmagen.spec.model import Problem
from mmagen.verify.emulated import choices
from tests.support.mutations import SPECS


def library():
    path = SPECS / "sm90_gemm_bf16_rules.yaml"
    return plan(load(path.read_text(), path.name).spec)


def interface(of, said):
    """One whose calls are their arguments, and that answers what `said` makes of the extents."""

    def ask(words):
        calls = [eval(bytes.fromhex(word[1:])) for word in words if word.startswith("@")]
        return Reply(texts=[said(call["m"], call["n"], call["k"]) for call in calls])

    calls = SimpleNamespace(arguments=lambda changes: repr(changes).encode())
    task = SimpleNamespace(library=of, symbol=lambda name: f"library_{name}")
    return SimpleNamespace(task=task, calls=calls, ask=ask)


def test_a_right_choice_passes_and_no_kernel_alone_is_asked():
    of = library()
    right = interface(of, lambda m, n, k: choose(of, Problem(shape=(m, n, k))).name)
    assert choices.wrong(right) == []
    assert choices.wrong(interface(None, None)) == []


@pytest.mark.parametrize("late", [1, -1])
def test_a_rule_that_ends_at_another_bound_is_named(late):
    of = library()
    last, after = of.configs[0].when.m[1], of.configs[0].when.m[1] + 1
    assert choose(of, Problem(shape=(last, 256, 256))).name != choose(of, Problem(shape=(after, 256, 256))).name

    def said(m, n, k):
        wrong = after if late > 0 else last
        return choose(of, Problem(shape=(m - late if m == wrong else m, n, k))).name

    found = choices.wrong(interface(of, said))
    assert found and all(f"for {after if late > 0 else last}x" in one for one in found)
