"""render: contexts, strictness, manifests; that committed projects are up to date is tests/render's."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

import pytest
from jinja2 import UndefinedError

import mmagen.render
from mmagen.load import load
from mmagen.plan import plan
from mmagen.render import render, templates_folder

SPECS = Path(__file__).resolve().parents[2] / "specs"


def planned(of: str, **changes):
    spec = load((SPECS / f"{of}.yaml").read_bytes(), of).spec
    return plan(spec.model_copy(update=changes))


@pytest.fixture
def other_templates(tmp_path, monkeypatch):
    """A templates folder of one's own, and no trace of it afterwards."""
    caches = (templates_folder, mmagen.render._environment, mmagen.render._part_files, mmagen.render._bytes)

    def forget():
        for cached in caches:
            cached.cache_clear()

    real = templates_folder()
    (tmp_path / "runtime").symlink_to(real / "runtime")
    for part in ("common", "ownership"):
        (tmp_path / "project" / part).mkdir(parents=True)
    forget()
    monkeypatch.setattr(mmagen.render, "templates_folder", lambda: tmp_path)
    yield tmp_path / "project"
    for cached in caches[1:]:
        cached.cache_clear()


def test_an_unknown_variable_in_a_template_fails(other_templates):
    (other_templates / "common" / "NAME.txt.j2").write_text("{{ plan.name }} {{ upper }}\n")
    assert render(planned("hello_ownership"))["hello_ownership.txt"] == b"hello_ownership HELLO_OWNERSHIP\n"
    for unknown in ("{{ nobody }}", "{{ plan.nobody }}", "{% if nobody %}x{% endif %}", "{% for x in nobody %}{% endfor %}"):
        (other_templates / "common" / "NAME.txt.j2").write_text(unknown)
        mmagen.render._environment.cache_clear()
        with pytest.raises(UndefinedError, match="nobody"):
            render(planned("hello_ownership"))


def test_a_later_part_replaces_an_earlier_one_and_underscored_files_are_for_including(other_templates):
    (other_templates / "common" / "a.txt").write_text("common {{ not rendered }}")
    (other_templates / "common" / "_part.j2").write_text("nobody")
    (other_templates / "ownership" / "a.txt").write_text("ownership")
    files = render(planned("hello_ownership"))
    assert files["a.txt"] == b"ownership"
    assert not [path for path in files if "_part" in path]


@pytest.mark.parametrize("name", ["hello_ownership", "hello_micro", "sm80_gemm_classic", "sm75_gemm_f16"])
def test_a_project_has_what_its_plan_says_and_a_manifest_of_it(name):
    it = planned(name)
    files = render(it)
    headers = {path for path in files if path.startswith("include/mmagen/")}
    assert headers == {f"include/mmagen/{header}.cuh" for header in it.runtime}
    assert list(files) == [*sorted(set(files) - {"mmagen.json"}), "mmagen.json"]
    manifest = json.loads(files["mmagen.json"])
    assert manifest["files"] == {path: hashlib.sha256(data).hexdigest() for path, data in files.items() if path != "mmagen.json"}
    assert (manifest["name"], manifest["kernel"], manifest["spec_sha"]) == (name, it.kernel, it.spec_sha)
    assert not [path for path, data in files.items() if b"{{" in data and b"}}" in data and b"{%" in data]


def test_the_name_is_everywhere_and_only_the_name_changes():
    one, two = render(planned("hello_micro")), render(planned("hello_micro", name="other_name"))
    assert {path.replace("hello_micro", "other_name") for path in one} == set(two)
    config = one["include/hello_micro/config.cuh"].decode()
    assert two["include/other_name/config.cuh"].decode() == config.replace("hello_micro", "other_name")
    assert b"other_name_run" in two["src/other_name.cu"]


def test_the_spec_in_the_project_makes_the_project_again():
    files = render(planned("sm80_gemm_classic"))
    again = plan(load(files["spec.yaml"], "spec.yaml").spec)
    assert render(again) == files


def test_the_config_says_what_was_planned():
    it = planned("sm80_gemm_classic", stages=5)
    config = render(it)["include/sm80_gemm_classic/config.cuh"].decode()
    for line in ("kStages = 5;", f"kSmemBytes = {it.smem_bytes};", "kThreads = 128;", "kEpilogueVector = 8;",
                 "using MmaOp = cute::SM80_16x8x16_F32F16F16F32_TN;", "mmagen::MainloopMultistage<Config>"):
        assert line in config
