"""Faults planted in the PTX of kernels of others, to show that they are seen there as in generated kernels."""

from __future__ import annotations

import re
from dataclasses import dataclass


@dataclass(frozen=True)
class Fault:
    """kernel: a name of the table. pattern, instead: what is replaced in its PTX, by what (re.sub's syntax). which: of the
    matches, from 0; None: all. seen: kinds of findings of which one has to be reported; "wrong": a wrong result."""

    kernel: str
    what: str
    pattern: str
    instead: str
    which: int | None
    seen: tuple[str, ...]

    def plant(self, text: str) -> str:
        """The PTX with the fault. Raises ValueError where there is nothing to change."""
        places = list(re.finditer(self.pattern, text))
        if not places or (self.which is not None and self.which >= len(places)):
            raise ValueError(f"{self.kernel}: {self.what}: the PTX has {len(places)} places of {self.pattern}")
        for place in reversed(places if self.which is None else [places[self.which]]):
            text = text[: place.start()] + place.expand(self.instead) + text[place.end() :]
        return text


_WAIT = r"mbarrier\.try_wait\.parity\.shared::cta\.b64 +(P1|p|%p\w*), \[[^;]*;"
_SYNC = r"bar\.sync\s+0;|barrier\.sync\s+0;"

FAULTS = (
    Fault(
        kernel="cute_sgemm_1_nt",
        what="no barrier before the tiles are overwritten",
        pattern=_SYNC,
        instead="",
        which=1,
        seen=("shared_race",),
    ),
    Fault(
        kernel="cute_sgemm_sm80_tn",
        what="one cp.async group fewer is waited for",
        pattern=r"cp\.async\.wait_group 1;",
        instead="cp.async.wait_group 2;",
        which=None,
        seen=("cp_async_unwaited",),
    ),
    Fault(
        kernel="cutlass2_f16_tn",
        what="no barriers between the stages of the mainloop",
        pattern=_SYNC,
        instead="",
        which=None,
        seen=("shared_race",),
    ),
    Fault(
        kernel="cutlass2_f16_nt_split_k",
        what="the semaphore of split-K is read without acquire",
        pattern=r"ld\.global\.acquire\.gpu\.b32",
        instead="ld.relaxed.gpu.global.b32",
        which=None,
        seen=("global_race",),
    ),
    Fault(
        kernel="cutlass3_ws_f16_tn",
        what="no fence after mbarrier.init",
        pattern=r"fence\.mbarrier_init[^;]*;",
        instead="",
        which=None,
        seen=("proxy_fence",),
    ),
    Fault(
        kernel="cutlass3_pingpong_bf16_nt",
        what="sums are read before the last wgmma is complete",
        pattern=r"wgmma\.wait_group\.sync\.aligned 0;",
        instead="",
        which=None,
        seen=("wgmma_order",),
    ),
    Fault(
        kernel="cutlass3_pingpong_bf16_nt",
        what="no proxy fence before the TMA store",
        pattern=r"fence\.proxy\.async[^;]*;",
        instead="",
        which=None,
        seen=("proxy_fence",),
    ),
    Fault(
        kernel="cutlass3_pingpong_bf16_nt",
        what="one wait for a phase is left out",
        pattern=_WAIT,
        instead=r"setp.eq.u32 \1, 0, 0;",
        which=0,
        seen=("async_race", "mbarrier", "deadlock"),
    ),
    Fault(
        kernel="cutlass3_stream_k_f16_tn",
        what="a stage is released one wgmma group early",
        pattern=r"wgmma\.wait_group\.sync\.aligned 1;",
        instead="wgmma.wait_group.sync.aligned 2;",
        which=None,
        seen=("async_race",),
    ),
    Fault(
        kernel="cutlass3_stream_k_f16_tn",
        what="the flag of a partial tile is read without acquire",
        pattern=r"ld\.global\.acquire\.gpu\.b32",
        instead="ld.relaxed.gpu.global.b32",
        which=None,
        seen=("global_race",),
    ),
    Fault(
        kernel="deepgemm_bf16",
        what="16 bytes too few are announced",
        pattern=r"(mbarrier\.arrive\.expect_tx[^;]*), %r\d+;",
        instead=r"\1, 28656;",
        which=None,
        seen=("deadlock", "mbarrier"),
    ),
    Fault(
        kernel="deepgemm_fp8_1d2d",
        what="no warp releases a stage",
        pattern=r"mbarrier\.arrive\.shared::(?:cta|cluster)\.b64[^;]*;",
        instead="",
        which=None,
        seen=("deadlock",),
    ),
    Fault(
        kernel="kittens_bf16_h100",
        what="no wait before the sums are stored",
        pattern=r"wgmma\.wait_group\.sync\.aligned 0;",
        instead="",
        which=None,
        seen=("wgmma_order",),
    ),
)
