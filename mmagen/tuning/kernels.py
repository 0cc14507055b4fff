"""Configurations that are one compiled kernel: those that differ in nothing but what is set at launch, the cluster and tile_n."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from mmagen.families.library_faults import MOST_AT_LAUNCH
from mmagen.plan.plans import GemmPlan

AT_LAUNCH = ("cluster", "tile_n")  # keys that a launch decides on


def decides_at_launch(plan: GemmPlan) -> bool:
    """Can the kernel be launched in other clusters than the plan's?"""
    return not plan.compiled_for_cluster and plan.scheduler.cluster_ctas <= MOST_AT_LAUNCH


def suffix(plan: GemmPlan) -> str:
    """Of the name of a configuration, after the name of its kernel."""
    return plan.scheduler.launch.suffix


def as_configs(
    found: Sequence[tuple[str, Mapping[str, Any]]], kernels: Mapping[str, str], costs: Mapping[str, Any]
) -> list[dict[str, Any]]:
    """The configs of a library spec, as YAML has them.

    found: name and keys of each configuration. kernels: the name of the kernel by that of the configuration, the same name where
    it is compiled for the cluster. costs: by name. A kernel with a single configuration is compiled for its cluster, which saves
    its producer some instructions.
    """
    configs: dict[str, dict[str, Any]] = {}
    launches = Counter(kernels[name] for name, _ in found)
    for name, keys in found:
        kernel, cost = kernels[name], costs[name]
        if launches[kernels[name]] == 1 and not keys.get("tile_n"):
            configs[name] = {"name": name, **keys, "cost": cost}
            continue
        own = {key: value for key, value in keys.items() if key not in AT_LAUNCH}
        config = configs.setdefault(kernel, {"name": kernel, **own, "clusters": []})
        columns = {"tile_n": keys["tile_n"]} if keys.get("tile_n") else {}
        config["clusters"].append({"cluster": list(keys.get("cluster") or (1, 1)), **columns, "cost": cost})
    return list(configs.values())
