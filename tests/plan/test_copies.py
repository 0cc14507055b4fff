"""Which operands that TMA cannot address are copied."""

from __future__ import annotations

from itertools import product

import yaml

from mmagen.families import plan
from mmagen.plan.copies import Loads, loads
from mmagen.spec.load import load
from mmagen.spec.model import Problem
from tests.support.mutations import ODD


def test_the_kernel_without_tma_takes_whole_tiles_whatever_launches_compute():
    """A library whose launches compute some of a tile's columns copies what the same library without such launches copies."""
    document = yaml.safe_load((ODD / "tile_n_s8.yaml").read_text())
    some = plan(load(yaml.safe_dump(document), "some.yaml").spec)
    for config in document["configs"]:
        config["clusters"] = [{"cost": config["clusters"][0]["cost"], "cluster": [1, 1]}]
    whole = plan(load(yaml.safe_dump(document), "whole.yaml").spec)
    problems = [Problem(shape=(m, n, k), ld_pad=1) for m, n, k in product((17, 136, 1000, 8191), repeat=3)]
    found = [loads(some, one) for one in problems]
    assert found == [loads(whole, one) for one in problems] and {Loads.COPIES, Loads.THREADS} <= {*found}
