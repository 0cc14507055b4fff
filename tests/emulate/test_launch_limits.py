"""Launches that an entry's directives forbid, and defects of the emulator outside of a kernel's instructions."""

from __future__ import annotations

import pytest

from mmagen.emulate import EmulationError, Report, launch, parse
from mmagen.emulate.exec import batches
from mmagen.emulate.exec import launch as launch_module


def launched(directives: str, grid=4, block=64, **options) -> Report:
    text = (
        f".version 8.0\n.target sm_90a\n.address_size 64\n.visible .entry k()\n{directives}\n{{ .reg .b32 %r<3>; BODY ret; }}"
    )
    body = "mov.u32 %r1, %cluster_nctarank;"
    return launch(parse(text.replace("BODY", body), "k.ptx"), "k", grid=grid, block=block, **options)


@pytest.mark.parametrize(
    "directives, options, message",
    [
        (".maxntid 32", {}, r"k \(line 4\) cannot be launched with CTAs of 64 threads: .* at most 32 \(\.maxntid\)"),
        (".maxntid 8, 7, 1", {}, "at most 56"),
        (".reqntid 32", {}, r"CTAs of 64 x 1 x 1 threads: it is compiled for 32 x 1 x 1 \(\.reqntid\)"),
        (".reqntid 64, 1, 1", {"block": (32, 2)}, "CTAs of 32 x 2 x 1 threads"),
        (".explicitcluster .reqnctapercluster 2, 1, 1", {"cluster": 4}, r"compiled for 2 x 1 x 1 \(\.reqnctapercluster\)"),
        (".explicitcluster", {}, r"no cluster: it requires one \(\.explicitcluster\)"),
        (".maxntid 64\n.maxclusterrank 2", {"cluster": 4}, r"clusters of 4 CTAs: .* at most 2 \(\.maxclusterrank\)"),
        (".reqnctapercluster 3", {}, "no whole number of clusters"),
        ("", {"block": (1, 1, 65)}, "CTAs of 1 x 1 x 65 threads: 1024 x 1024 x 64 are the largest extents"),
        ("", {"block": (1025, 1)}, "CTAs of 1025 x 1 x 1 threads"),
        ("", {"grid": (1, 65536)}, "a grid of 1 x 65536 x 1 CTAs: 2147483647 x 65535 x 65535 are the largest extents"),
        ("", {"grid": (1, 1, 65536)}, "a grid of 1 x 1 x 65536 CTAs"),
        ("", {"grid": 1 << 31}, "a grid of 2147483648 x 1 x 1 CTAs"),
    ],
)
def test_launches_that_the_entry_forbids(directives, options, message):
    with pytest.raises(EmulationError, match=message):
        launched(directives, **options)


@pytest.mark.parametrize(
    "directives, options",
    [
        (".maxntid 64, 1, 1\n.minnctapersm 2\n.maxnreg 128", {}),
        (".maxntid 8, 8, 1", {"block": (64, 1)}),
        (".reqntid 64", {"block": (64, 1, 1)}),
        (".explicitcluster .reqnctapercluster 2, 1, 1", {}),
        (".explicitcluster .reqnctapercluster 2", {"cluster": 2}),
        (".explicitcluster", {"cluster": 2}),
        (".maxclusterrank 4", {"cluster": 4}),
    ],
)
def test_launches_that_the_entry_allows(directives, options):
    assert launched(directives, **options).completed


def test_what_fails_outside_of_the_instructions_is_an_emulation_error(monkeypatch):
    def broken(*_: object) -> None:
        raise IndexError("index 64 is out of bounds")

    monkeypatch.setattr(batches, "make_batch", broken)
    with pytest.raises(EmulationError, match=r"please report it: IndexError: index 64 is out of bounds \(test_launch_limits"):
        launched("")
    monkeypatch.setattr(launch_module, "compiled", broken)
    with pytest.raises(EmulationError, match="the emulator failed outside of the kernel's instructions, please report it"):
        launched("")

    def full(*_: object) -> None:
        raise MemoryError("Unable to allocate 1 TiB")

    monkeypatch.setattr(batches, "make_batch", full)
    monkeypatch.setattr(launch_module, "compiled", full)
    with pytest.raises(EmulationError, match=r"the emulator has not enough memory .*: Unable to allocate 1 TiB"):
        launched("")


def test_a_text_that_the_parser_does_not_survive_is_an_emulation_error():
    with pytest.raises(EmulationError):
        parse(".version 8.0\n.entry k() {\n .shared .align 4 .b8 a[2x]; ret; }", "k.ptx")
    with pytest.raises(EmulationError):
        parse(".version 8.0\n.entry k() { .reg .b32 %r<4>; mov.u32 %r1, {}; bra; call; ret; }", "k.ptx")
