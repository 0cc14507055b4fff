"""What is asked of a C interface, of a host that answers as a test says."""

from __future__ import annotations

from dataclasses import replace
from itertools import count

import pytest
import yaml

from mmagen.build.ptx import Ptx
from mmagen.families import plan
from mmagen.host_runtime.arguments import struct_of
from mmagen.host_runtime.library import CapturedLaunch, Reply
from mmagen.spec.load import load
from mmagen.spec.model import Problem
from mmagen.verify.emulated.interface import interface_of
from mmagen.verify.emulated.task import Task

SPEC = {
    "mmagen": 1,
    "name": "g",
    "kernel": "gemm",
    "atom": "SM90_64x64x16_F32BF16BF16_SS",
    "tile": [128, 64, 64],
    "atoms_layout": [2, 1, 1],
    "schedule": "cooperative",
    "layout": "TN",
    "stream_k": "always",
}
PTX = Ptx("g", "gemm", "", "sm_90a", "", "", "", 0.0, True, {"g": ".version 8.0\n.target sm_90a\n"})


class Host:
    """Answers each call with the launch of a kernel that has the parameters `params(arguments, number)` of the call with this
    number among all; none where they are None."""

    def __init__(self, members, params):
        self.struct, self.params, self.calls = struct_of(members), params, count()

    def ask(self, device, kernels, directives):
        reply = Reply()
        for at, word in enumerate(directives):
            if word == "call":
                arguments, stream = directives[at + 3 : at + 5]
                given = self.struct.from_buffer_copy(bytes.fromhex(arguments.removeprefix("@")))
                params = self.params(given, next(self.calls))
                if params is not None:
                    one = CapturedLaunch("it", (8, 1, 1), (128, 1, 1), (1, 1, 1), 0, int(stream), True, params)
                    reply.launches.append(one)
        return reply


def interface(params):
    made = plan(load(yaml.safe_dump(SPEC), "g.yaml").spec)
    ptx = replace(PTX, host=Host(made.arguments.members, params))
    return interface_of(Task(made, ptx, Problem(shape=(64, 64, 64)), "uniform", 1))


def number(value):
    return int(value).to_bytes(8, "little")


@pytest.mark.parametrize(
    ("params", "found"),
    [
        (lambda call, at: number(call.k), None),
        (lambda call, at: number(call.k) + number(at), None),  # what nothing sets is what was on the stack
        (lambda call, at: number(call.workspace_bytes), "depend on its bytes"),
        (lambda call, at: None, "no launch"),
    ],
)
def test_a_workspace_that_is_null_has_no_bytes(params, found):
    wrong = interface(params)._about_no_workspace()
    assert [found in one for one in wrong] == ([True] if found else [])
