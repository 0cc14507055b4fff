"""Random specs up to their projects: no exception, every fault with a remedy, and what is printed mends the spec."""

from __future__ import annotations

import json
from collections import Counter

import pytest

from mmagen.plan.project import ProjectPlan
from mmagen.spec.model import Spec, json_schema
from tests.properties import __main__ as runner
from tests.properties import reach, summary
from tests.properties.draw import WILD, Drawn, drawn, named
from tests.properties.planned import planned

COUNT = 500  # 12 s
LEAST_MENDED = 0.95
DOCUMENTS = 3000  # 5 s
LEAST_DRAWN = 2


@pytest.fixture(scope="module")
def results() -> list[ProjectPlan | dict]:
    return [planned(Drawn(2026, index)) for index in range(COUNT)]


def test_a_spec_depends_on_seed_and_index_alone():
    one, again, other = Drawn(7, 41).text, named("s7_00041").text, Drawn(8, 41).text
    assert one == again and one != other
    assert one.startswith("mmagen: 1\nname: s7_00041\n")


def test_shards_divide_the_specs():
    whole = drawn(3)
    first = [next(whole).index for _ in range(6)]
    shards = [drawn(3, (i, 3)) for i in (1, 2, 3)]
    assert first == [next(shard).index for _ in range(2) for shard in shards] == list(range(6))


def test_all_keys_and_families_are_drawn(results):
    documents = [Drawn(2026, index).document for index in range(COUNT)]
    assert set(Spec.model_fields) <= {key for document in documents for key in document}
    assert set(Spec.model_fields) - {"mmagen", "name"} <= set(WILD)
    families = {plan.family.removeprefix("mmagen.families.") for plan in results if not isinstance(plan, dict)}
    assert families >= {"ownership", "micro", "instruction.family", "mma_gemm", "dmma_gemm"}
    assert families >= {"wgmma.ownership", "wgmma.micro", "wgmma.gemm"}


def test_all_that_the_schema_has_is_drawn():
    counts = Counter(one for index in range(DOCUMENTS) for one in set(reach.settings(Drawn(2026, index).document)))
    seldom = sorted(one for one in reach.possible(json_schema()) if counts[one] < LEAST_DRAWN)
    assert seldom == [], "a key or a value of the schema that tests/properties draws too seldom"


def test_what_is_possible_follows_the_schema():
    schema = {"properties": {"a": {"$ref": "#/$defs/A"}, "name": {"type": "string"}}}
    item = {"anyOf": [{"type": "null"}, {"enum": ["x", 3]}, {"prefixItems": [{"const": "y"}]}]}
    schema["$defs"] = {"A": {"properties": {"b": {"type": "array", "items": item}}}}
    assert reach.possible(schema) == {"a", "a.b", "a.b[]", "a.b[]=null", "a.b[]=x", "a.b[][]", "a.b[][]=y"}
    assert set(reach.settings({"a": {"b": [None, ["y"]]}})) == {"a", "a.b", "a.b[]", "a.b[]=null", "a.b[][]", "a.b[][]=y"}


def test_specs_are_accepted_or_refused_and_nothing_else(results):
    records = [one for one in results if isinstance(one, dict)]
    assert [one for one in records if one["outcome"] not in summary.REFUSED] == []
    assert COUNT // 10 < len(records) < COUNT - COUNT // 10, "both must be frequent"
    assert all(fault["what"] and fault["remedy"] for one in records for fault in one["faults"])


def test_refusals_are_mended_by_their_own_remedy(results):
    refused = [one for one in results if isinstance(one, dict)]
    unmended = [one["name"] for one in refused if not one["mended"]]
    assert len(unmended) <= (1 - LEAST_MENDED) * len(refused), unmended


def test_a_run_continues_where_it_was_interrupted(tmp_path, capsys):
    out = tmp_path / "specs.jsonl"
    arguments = ["--on", "plan", "--seed", "5", "--shard", "2/3", "--out", str(out)]
    assert runner.main([*arguments, "--count", "6"]) == 0
    before = out.read_text().splitlines()
    out.write_text("\n".join([*before[:-1], before[-1][:20]]))  # killed while it wrote
    assert runner.main([*arguments, "--count", "12"]) == 0
    records = [json.loads(line) for line in out.read_text().splitlines() if line != before[-1][:20]]
    names = [one["name"] for one in records]
    assert len(set(names)) == len(names) and sum(map(summary.accepted, records)) == 4
    assert {int(name[-5:]) % 3 for name in names} == {1}
    assert "accepted" in capsys.readouterr().out
