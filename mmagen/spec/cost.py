"""The coefficients of a config's predicted time. `mmagen tune` writes them; mmagen.plan.cost has the formula."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import AllowInfNan, BeforeValidator, Field

from mmagen.spec.values import Model, refuse

_MOST = 1e9


def _number(value: Any) -> Any:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise refuse(f"{value!r} is not a number")
    return float(value)


def _at_least_zero(what: str) -> Any:
    return Field(ge=0, le=_MOST, description=f"{what}, a number of at least 0")


def _positive(what: str) -> Any:
    return Field(gt=0, le=_MOST, description=f"{what}, a positive number")


def _fraction(what: str) -> Any:
    """Of a coefficient that specs may lack."""
    return Field(default=0.0, ge=0, le=1, description=f"{what}, a number from 0 to 1")


def _or_zero(what: str) -> Any:
    """Of a coefficient that specs may lack, since earlier versions did not have it."""
    return Field(default=0.0, ge=0, le=_MOST, description=f"{what}, a number of at least 0")


_Number = Annotated[float, BeforeValidator(_number), AllowInfNan(False)]


class Cost(Model):
    """Coefficients of the time that a config takes, as `mmagen tune` fits them to measurements on one device.

    The time of a call is launch_us, overlap_us where CTAs fill more than half of the device, tile_us and odd_store_us for each
    wave, the fixups of split K, and the mainloop: the fourth root of the sum of the fourth powers of its times if limited by
    wgmma (or mma.sync), by TMA's lines, by DRAM and by L2. Coefficients that a spec may lack are 0 then, and have no effect.
    """

    ctas: Annotated[int, Field(ge=1, le=1 << 20, strict=True)] = Field(
        description="ctas is how many CTAs of the config run at once on the device, an integer of at least 1"
    )
    launch_us: _Number = _at_least_zero("launch_us is the time of a launch besides its tiles, in microseconds")
    overlap_us: _Number = _at_least_zero(
        "overlap_us is the additional time of a launch if the next one finds no free SM, in microseconds"
    )
    tile_us: _Number = _at_least_zero("tile_us is the time of an output tile besides its mainloop, in microseconds")
    store_pitch: _Number = _at_least_zero(
        "store_pitch is the fraction by which tile_us grows if the pitch of D is not a multiple of 32 bytes"
    )
    odd_store_us: _Number = _or_zero(
        "odd_store_us is the additional time of an output tile if the pitch of D is not a multiple of 16 bytes and K is not split "
        "over a workspace, in microseconds"
    )
    k_tile_us: _Number = _positive("k_tile_us is the time of a k tile if limited by the tensor core, in microseconds")
    throttle: _Number = _or_zero(
        "throttle is the fraction by which k_tile_us grows in the longest calls, when the power limit lowers the clock"
    )
    fixed_part: _Number = _fraction(
        "fixed_part is the fraction of tile_us, odd_store_us and k_tile_us that does not depend on the width if tile_n is a list"
    )
    line_ns: _Number = _at_least_zero(
        "line_ns is the time of a 128-byte line of a k tile if the pitch is not a multiple of 32 bytes, in nanoseconds"
    )
    dram_tbps: _Number = _positive("dram_tbps is the rate of reading A and B from DRAM with all CTAs, in TB/s")
    dram_spread: _Number = _at_least_zero(
        "dram_spread is the exponent with which that rate falls with the fraction of CTAs that is busy"
    )
    dram_rows: _Number = _or_zero(
        "dram_rows is how much slower reads from DRAM become, relative to the fraction of the rows of tiles that are outside D"
    )
    dram_columns: _Number = _or_zero("dram_columns is the same for columns of a tile")
    store_tbps: _Number = _positive("store_tbps is the rate of storing D, in TB/s")
    l2_tbps: _Number = _positive("l2_tbps is the rate of loading tiles of A and B from L2, in TB/s")
    l2_spread: _Number = _at_least_zero(
        "l2_spread is the exponent with which that rate falls with the fraction of CTAs that is busy"
    )
    l2_pitch: _Number = _at_least_zero(
        "l2_pitch is the fraction by which loads from L2 are slower if the pitch is a multiple of 32 but not of 128 bytes"
    )
    l2_odd_pitch: _Number = _at_least_zero(
        "l2_odd_pitch is the fraction by which loads from L2 are slower if the pitch is not a multiple of 32 bytes"
    )
    l2_ragged: _Number = _at_least_zero(
        "l2_ragged is the fraction by which loads from L2 are slower if the last tile of M is partial"
    )
    fixup_us: _Number = _at_least_zero(
        "fixup_us is the time of adding one partial sum of a tile (stream_k), or of the second kernel (split_k), in microseconds"
    )
    part_us: _Number = _or_zero("part_us is the time for each part of K in the second kernel (split_k), in microseconds")
    fixup_tbps: _Number = _positive("fixup_tbps is the rate at which partial sums are written and read, in TB/s")


COST = Field(
    default=None,
    description="cost is a mapping of the coefficients of the config's predicted time, which `mmagen tune` writes; of the configs "
    "without when, all or none have one",
)
