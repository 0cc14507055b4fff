"""Files and folders as a user names them: what is read must end, what is written must have a name, and a failure says of which."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import click
import pytest

from mmagen.cli.build import fit_for, load_specs
from mmagen.cli.commands import commands
from mmagen.cli.inputs import Place
from mmagen.cli.outputs import deliver
from mmagen.core.errors import UsageError
from tests.support.fake_builds import record
from tests.support.fakes import typed

ROOT = Path(__file__).resolve().parents[2]
SPEC = ROOT / "specs/hello_micro.yaml"
# Verbs that read a spec, before its name.
READERS = (("build",), ("inspect",), ("verify", "--on", "cpu"), ("vendor", "--into", "it"), ("tune",), ("diff", str(SPEC)))


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def leaves(group: click.Group, words: tuple[str, ...] = ()) -> list[tuple[tuple[str, ...], click.Command]]:
    found = []
    for name, verb in group.commands.items():
        found += leaves(verb, (*words, name)) if isinstance(verb, click.Group) else [((*words, name), verb)]
    return found


def places() -> list[tuple[tuple[str, ...], click.Parameter]]:
    """Every parameter of every verb that is a path."""
    found = [(words, one) for words, verb in leaves(commands) for one in verb.params]
    return [(words, one) for words, one in found if isinstance(one.type, click.Path) or one.metavar == "FILE"]


def test_every_path_is_refused_where_it_is_empty(capsys):
    assert len(places()) > 20
    for words, one in places():
        before = [] if isinstance(one, click.Argument) else [one.opts[0]]
        needed = [str(SPEC)] if before and words[0] in ("build", "verify", "vendor", "inspect", "tune") else []
        others = [str(SPEC)] if words[0] in ("diff", "compare") and one.name == "new" else []
        behind = [str(SPEC)] if words[0] in ("diff", "compare") and one.name == "old" else []
        code, _, err = typed(capsys, *words, *others, *before, "", *needed, *behind)
        assert code == 2 and "the path is empty" in err, (words, one.name, err)
        assert isinstance(one.type, Place) or before, "arguments are places"
    assert not os.listdir()


@pytest.mark.parametrize("verb", READERS, ids=" ".join)
def test_a_device_that_never_ends_is_refused(verb, capsys):
    code, _, err = typed(capsys, *verb, "/dev/zero")
    assert code == 2
    assert "/dev/zero is larger than 16 MiB, the most that is read of such a file" in err or "neither a spec" in err


@pytest.mark.parametrize("verb", READERS, ids=" ".join)
def test_a_link_to_nothing_is_no_suggestion(verb, capsys):
    Path("one.yaml").symlink_to("gone.yaml")
    code, _, err = typed(capsys, *verb, "one.yaml")
    assert code == 2 and "did you mean" not in err
    assert "link to gone.yaml, which does not exist" in err or "one.yaml cannot be read: No such file" in err


def test_a_pipe_in_a_folder_is_not_waited_for(capsys):
    Path("specs").mkdir()
    os.mkfifo("specs/a.yaml")
    assert "has no *.yaml files" in typed(capsys, "inspect", "specs")[2]
    Path("specs/b.yaml").write_bytes(SPEC.read_bytes())
    assert typed(capsys, "inspect", "specs")[0] == 0


def test_a_pipe_that_is_named_is_read(capsys):
    os.mkfifo("one.yaml")
    with subprocess.Popen(["cp", SPEC, "one.yaml"]) as writer:
        assert typed(capsys, "inspect", "one.yaml")[0] == 0
    assert writer.returncode == 0


@pytest.mark.parametrize("text", ["[" * 100_000, '{"name": ' * 100_000], ids=["lists", "objects"])
def test_a_report_that_nests_too_deep_is_no_report(text, capsys):
    Path("deep.json").write_text(text)
    Path("good.json").write_text(json.dumps(record(problem="16x8x16")))
    for pair in (("deep.json", "good.json"), ("good.json", "deep.json")):
        code, _, err = typed(capsys, "compare", *pair)
        assert code == 2 and "deep.json:1: it is no JSON object of a record" in err


@pytest.mark.parametrize("unbuffered", ["", "1"])
def test_a_full_disk_is_named(unbuffered):
    def run(*words: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "mmagen", *words]
        with Path("/dev/full").open("w") as full:
            environment = {**os.environ, "COLUMNS": "200", "PYTHONUNBUFFERED": unbuffered}
            return subprocess.run(
                command, stdout=full, stderr=subprocess.PIPE, text=True, cwd=ROOT, env=environment, check=False
            )

    for words in (("atoms",), ("--help",), ("inspect", str(SPEC))):
        done = run(*words)
        assert (done.returncode, done.stderr) == (2, "mmagen: standard output: No space left on device; free space there\n")


@pytest.mark.parametrize("option", ["--html", "--svg", "--png"])
def test_a_folder_of_pictures_that_is_a_file_is_refused(option, capsys):
    Path("it").write_text("mine")
    code, _, err = typed(capsys, "inspect", SPEC, option, "it")
    assert code == 2 and "it" in err and "is a file" in err and Path("it").read_text() == "mine"


def test_the_page_of_one_spec_may_be_named(capsys):
    other = str(ROOT / "specs/hello_ownership.yaml")
    assert typed(capsys, "inspect", str(SPEC), "--html", "new/page.html")[0] == 0
    assert Path("new/page.html").read_text().startswith("<!") and os.listdir("new") == ["page.html"]
    code, _, err = typed(capsys, "inspect", str(SPEC), other, "--html", "pages.html")
    assert code == 2 and "--html pages.html: each page is a file of its own; name a folder" in err
    Path("folder.html").mkdir()
    assert typed(capsys, "inspect", str(SPEC), other, "--html", "folder.html")[0] == 0
    assert sorted(os.listdir("folder.html")) == ["hello_micro.html", "hello_ownership.html"]


@pytest.mark.parametrize("suffix", ["svg", "png"])
def test_pictures_are_several_files(suffix, capsys):
    code, _, err = typed(capsys, "inspect", str(SPEC), f"--{suffix}", f"it.{suffix}")
    assert code == 2 and f"it.{suffix}: each picture is a file of its own; name a folder" in err and not os.listdir()


@pytest.mark.parametrize("verb", [("build", "--compile"), ("verify",)], ids=" ".join)
def test_an_architecture_that_lacks_the_kernel_is_refused_before_nvcc_is(verb, capsys):
    for arch, why in (("sm_75", "requires sm_80 or later"), ("sm_80,sm_80a", "there is no sm_80a")):
        code, _, err = typed(capsys, *verb, str(SPEC), "--arch", arch)
        assert code == 2 and why in err and not os.listdir()


def test_specs_that_an_architecture_lacks_do_not_stop_the_others(capsys):
    others = SPEC.parent / "sm90_gemm_bf16_tn.yaml"
    loaded = fit_for(("sm_80",), load_specs([SPEC, others]))
    assert [one.path for one in loaded.planned] == [SPEC] and loaded.exit_code == 2
    assert "1 of 2 specs refused for sm_80; continuing with the others" in capsys.readouterr().err
    with pytest.raises(UsageError, match=r"sm90_gemm_bf16_tn: --arch sm_80: .*requires exactly sm_90a"):
        fit_for(("sm_80",), load_specs([others]))


def test_a_report_names_files_whose_names_are_not_utf_8(capsys):
    name = os.fsdecode(b"a\xff.yaml")
    for file in ("it", "-"):
        deliver("", {"markdown": file}, {"markdown": lambda: f"mmagen verify {name} ä\n"})
    wanted = "mmagen verify a\\udcff.yaml ä\n"
    assert Path("it").read_text("utf-8") == wanted and capsys.readouterr().out.endswith(f"\n{wanted}")


def test_a_report_on_a_full_disk_is_named():
    with pytest.raises(OSError, match="/dev/full") as failed:
        deliver("", {"json": "/dev/full"}, {"json": lambda: "{}" * 10_000})
    assert failed.value.filename == "/dev/full"
