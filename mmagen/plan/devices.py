"""Devices whose launches `mmagen inspect` describes: numbers of their datasheets."""

from __future__ import annotations

from dataclasses import dataclass

from mmagen.core.targets import capability


@dataclass(frozen=True)
class Device:
    """name: as on the command line. capability: ten times the compute capability. clock_mhz: boost clock, at which the peaks of
    the datasheet hold; dram_gbps: GB/s; clusters: (CTAs of a cluster, clusters that run at once with a CTA on
    an SM) where some SMs stay idle, since a cluster lies within a GPC."""

    name: str
    title: str
    capability: int
    sms: int
    clock_mhz: int
    dram_gbps: int
    clusters: tuple[tuple[int, int], ...] = ()

    def at_once(self, group: int, per_sm: int) -> int:
        """CTAs that run at once in clusters of `group`, at least one cluster, if `per_sm` fit an SM."""
        known = dict(self.clusters).get(group)
        return group * max(1, known * per_sm if known else self.sms * per_sm // group)


# Datasheets and white papers: Tesla V100 SXM2, T4, A100 80 GB SXM, H100 SXM, H200 SXM. The clocks of Hopper are those that the
# H100 white paper's peaks of tensor cores are stated for. Clusters by cudaOccupancyMaxActiveClusters.
DEVICES = (
    Device("v100", "V100 SXM2", 70, 80, 1530, 900),
    Device("t4", "T4", 75, 40, 1590, 320),
    Device("a100", "A100 80 GB SXM", 80, 108, 1410, 2039),
    Device("h100", "H100 SXM", 90, 132, 1830, 3350, ((4, 30), (8, 15), (16, 7))),
    Device("h200", "H200 SXM", 90, 132, 1830, 4800, ((4, 30), (8, 15), (16, 7))),
)
NAMES = tuple(one.name for one in DEVICES)


def runs_on(arch: tuple[str, ...], device: Device) -> bool:
    """Does one of the architectures run there: itself, or an older one through its PTX?"""
    return any(
        capability(one) == device.capability or (one[-1].isdigit() and capability(one) < device.capability) for one in arch
    )


def device_for(arch: tuple[str, ...], name: str | None = None) -> Device | None:
    """The device of that name, or without one the first that has one of the architectures itself, the newest before others;
    then the newest that runs one through its PTX. None if no device does."""
    found = [one for one in DEVICES if runs_on(arch, one) and name in (None, one.name)]
    exact = [one for one in found if any(capability(target) == one.capability for target in arch)]
    best = exact or found
    return best[-1] if best else None
