"""A library's host code is asked for its choice: on either side of each bound of its rules, and where predicted times decide."""

from __future__ import annotations

import re
from types import SimpleNamespace

import pytest

from mmagen.families import plan
from mmagen.families.library import choose
from mmagen.host_runtime.library import Reply
from mmagen.spec.load import load
from mmagen.spec.model import Problem
from mmagen.verify.emulated import choices
from tests.support.mutations import ODD, SPECS


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


def by_times(mistaken):
    """What a library whose predicted times decide is told of by choices.wrong(). mistaken: takes and returns whether the call has a
    workspace, and one with room for copies."""
    path = ODD / "clusters.yaml"
    of = plan(load(path.read_text(), path.name).spec)

    def ask(words):
        calls = [eval(bytes.fromhex(word[1:])) for word in words if word.startswith("@")]
        assert len({repr(call) for call in calls}) == len(calls), "each call once"
        return Reply(texts=[said(call) for call in calls])

    def said(call):
        problem = Problem(shape=(call["m"], call["n"], call["k"]), ld_pad=call["lda"] - call["k"])
        return choose(of, problem, *mistaken(call.get("workspace", 1) != 0, call.get("workspace_bytes", 1) != 0)).name

    one = interface(of, None)
    one.ask = ask
    return choices.wrong(one)


def test_predicted_times_decide_as_they_should():
    assert by_times(lambda workspace, room: (workspace, room)) == []


NONE, EMPTY = " without a workspace", " with a workspace of 0 bytes"


@pytest.mark.parametrize(
    ("mistaken", "ways"),
    [
        (lambda workspace, room: (True, room), {NONE}),
        (lambda workspace, room: (workspace, workspace), {EMPTY}),
        (lambda workspace, room: (workspace, not room), {"", EMPTY}),
    ],
    ids=["always a workspace", "always room for copies", "room where there is none, and the reverse"],
)
def test_a_choice_that_takes_a_workspace_for_another_is_named(mistaken, ways):
    found = [re.search(r" for \d+x\d+x\d+( ld\+1)?(.*); by the spec's rules", one) for one in by_times(mistaken)]
    assert {match[2] for match in found} == ways
    assert ways == {NONE} or all(match[1] for match in found), "copies are made of operands that TMA cannot address"
