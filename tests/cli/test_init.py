"""`mmagen init`, and the CI files and the Action, whose steps are run one after another."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from mmagen.core.templates import templates_folder
from tests.support.fakes import typed

ROOT = Path(__file__).resolve().parents[2]
# As small as a kernel can be: the steps are what is tested.
SMALL = (ROOT / "specs/fma_micro.yaml").read_bytes()


def test_what_is_written_is_accepted(tmp_path, capsys):
    code, out, _ = typed(capsys, "init", tmp_path / "new")
    assert code == 0 and "mmagen verify" in out
    assert typed(capsys, "build", tmp_path / "new/kernels", "-o", tmp_path / "generated")[0] == 0
    assert (tmp_path / "generated/sm80_gemm_f16_tn/CMakeLists.txt").is_file()
    assert (tmp_path / "new/.github/workflows/kernels.yml").is_file() and not (tmp_path / "new/.gitlab-ci.yml").exists()


def test_what_comes_next_can_be_pasted(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert "mmagen verify 'a b/kernels'  " in typed(capsys, "init", "a b")[1]
    _, _, err = typed(capsys, "new", "--kernel", "ownership", "a b/own.yaml")
    assert "mmagen inspect 'a b/own.yaml', mmagen verify 'a b/own.yaml'" in err


def test_twice_changes_nothing_and_hand_edits_are_kept(tmp_path, capsys):
    typed(capsys, "init", tmp_path)
    code, out, _ = typed(capsys, "init", tmp_path)
    assert code == 0 and out.count("already there") == 2
    spec = tmp_path / "kernels/gemm.mma.yaml"
    spec.write_text("mine")
    code, _, err = typed(capsys, "init", tmp_path, "--ci", "gitlab")
    assert code == 2 and "gemm.mma.yaml: already there" in err
    assert spec.read_text() == "mine" and not (tmp_path / ".gitlab-ci.yml").exists()


def test_an_example_instead(tmp_path, capsys):
    assert typed(capsys, "init", tmp_path, "--spec", "sm90_gemm_bf16_tn", "--ci", "none")[0] == 0
    assert (tmp_path / "kernels/sm90_gemm_bf16_tn.mma.yaml").read_bytes() == (
        ROOT / "specs/sm90_gemm_bf16_tn.yaml"
    ).read_bytes()
    assert [path.name for path in tmp_path.iterdir()] == ["kernels"]
    code, _, err = typed(capsys, "init", tmp_path, "--spec", "sm90_gem_bf16_tn")
    assert code == 2 and "did you mean sm90_gemm_bf16_tn" in err and "mmagen init --list lists all" in err


def test_an_example_that_is_like_none(tmp_path, capsys, monkeypatch):
    code, _, err = typed(capsys, "init", tmp_path, "--spec", "WRONG")
    assert code == 2 and "\n    hello: hello_micro, hello_ownership, hello_peak\n" in err and "sm90_gemm_*" in err
    assert len(err.splitlines()) < 16 and max(map(len, err.splitlines())) <= 80
    code, out, _ = typed(capsys, "init", tmp_path, "--list")
    assert code == 0 and not any(tmp_path.iterdir())
    listed = [line.split()[0] for line in out.splitlines() if line[:1].strip()]
    assert listed == sorted(path.stem for path in (ROOT / "specs").glob("*.yaml"))


def test_a_folder_that_cannot_be_written(tmp_path, capsys):
    (tmp_path / "kernels").write_text("a file")
    code, _, err = typed(capsys, "init", tmp_path)
    assert code == 2 and "kernels" in err and "internal" not in err


# --- Steps of CI ------------------------------------------------------------------------------------------------------


class Runner:
    """Runs the scripts of CI steps in a folder as CI's bash does, but for `pip install`."""

    def __init__(self, folder: Path):
        self.folder = folder
        scripts = folder / "bin"
        scripts.mkdir()
        for name, what in (("mmagen", '-m mmagen "$@"'), ("python", '"$@"')):
            (scripts / name).write_text(f'#!/bin/sh\nexec "{sys.executable}" {what}\n')
            (scripts / name).chmod(0o755)
        keep = {
            name: os.environ[name]
            for name in ("MMAGEN_CACHE_DIR", "HOME", "CUDACXX", "CUTLASS_DIR", "CXX")
            if name in os.environ
        }
        self.env = {**keep, "PATH": f"{scripts}:{os.environ['PATH']}", "PYTHONPATH": str(ROOT)}
        self.installed: list[str] = []

    def run(self, script: str, env: dict[str, str]) -> tuple[int, str]:
        if "pip install" in script:
            self.installed.append(_expanded(script, env))
            return 0, ""
        done = subprocess.run(
            ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", script],
            cwd=self.folder,
            env={**self.env, **env},
            capture_output=True,
            text=True,
        )
        return done.returncode, done.stdout + done.stderr


def _expanded(text: str, env: dict[str, str]) -> str:
    return re.sub(r"\$(\w+)", lambda found: env.get(found[1], found[0]), text)


@pytest.fixture
def checkout(tmp_path) -> Path:
    (tmp_path / "kernels").mkdir()
    (tmp_path / "kernels/fma.mma.yaml").write_bytes(SMALL)
    return tmp_path


def loaded(path: Path) -> Any:
    # YAML 1.1 reads the key `on` as true.
    return yaml.safe_load(path.read_text())


@pytest.mark.nvcc
def test_the_steps_of_the_github_workflow(checkout):
    document = loaded(templates_folder() / "init/.github/workflows/kernels.yml")
    steps = document["jobs"]["verify"]["steps"]
    runner = Runner(checkout)
    assert [step["uses"].partition("@")[0] for step in steps if "uses" in step] == [
        "actions/checkout",
        "actions/setup-python",
        "actions/cache",
        "actions/upload-artifact",
    ]
    for step in steps:
        if "run" in step:
            code, said = runner.run(step["run"], {})
            assert code == 0, f"{step['name']}: {said}"
    assert runner.installed == ["python -m pip install 'mmagen[cuda]'"]
    assert '<testsuites name="mmagen"' in (checkout / "verdicts.xml").read_text() and (checkout / "verdicts.json").is_file()


@pytest.mark.nvcc
def test_the_steps_of_the_gitlab_job(checkout):
    (job,) = loaded(templates_folder() / "init/.gitlab-ci.yml").values()
    runner = Runner(checkout)
    for script in (*job["before_script"], *job["script"], *job["after_script"]):
        code, said = runner.run(script, {})
        assert code == 0, said
    assert (checkout / job["artifacts"]["reports"]["junit"]).is_file()
    assert all((checkout / path).is_file() for path in job["artifacts"]["paths"])


def of_action(runner: Runner, **given: str) -> dict[str, tuple[int, str]]:
    """What each step of the Action with these inputs ends with, until one fails; then those that always run."""
    action = loaded(ROOT / "action.yml")
    inputs = {name: one["default"] for name, one in action["inputs"].items()}
    unknown = {*given} - {*inputs}
    assert not unknown
    inputs |= given
    done: dict[str, tuple[int, str]] = {}
    failed = False
    for step in action["runs"]["steps"]:
        condition = step.get("if", "")
        if named := re.fullmatch(r"inputs\.(\S+) != ''", condition):
            if not inputs[named[1]]:
                continue
        elif condition not in ("", "always()"):
            raise AssertionError(f"a condition that this test does not know: {condition}")
        if "run" not in step or (failed and condition != "always()"):
            continue
        assert step["shell"] == "bash" and "${{" not in step["run"], "inputs reach a script as variables: no injection"
        env = {
            name: re.sub(r"\$\{\{ inputs\.(\S+) \}\}", lambda found: inputs[found[1]], text)
            for name, text in step.get("env", {}).items()
        }
        assert not any("${{" in text for text in env.values())
        done[step["name"]] = runner.run(step["run"], env)
        failed = failed or done[step["name"]][0] != 0
    return done


@pytest.mark.nvcc
def test_the_steps_of_the_action(checkout):
    runner = Runner(checkout)
    done = of_action(runner, on="cpu", baseline="main.json")
    assert "no main.json to compare with" in done.pop("Compare")[1]
    assert {name: code for name, (code, _) in done.items()} == dict.fromkeys(
        ("Install", "Tools", "Verify", "Prune the cache"), 0
    ), done
    assert runner.installed == ['python -m pip install "mmagen[cuda]"']
    done = of_action(runner, on="cpu", baseline="verdicts.json", reports="new", install="", arguments="--seed 2")
    assert done["Compare"][0] == 0 and "0 regressions" in done["Compare"][1] and "Install" not in done
    assert (checkout / "new.xml").is_file()


@pytest.mark.nvcc
def test_the_action_fails_where_a_kernel_does_and_still_prunes(checkout):
    (checkout / "kernels/bad.mma.yaml").write_text("mmagen: 1\nname: bad\n")
    done = of_action(Runner(checkout), on="cpu")
    assert done["Verify"][0] == 2 and "bad.mma.yaml" in done["Verify"][1] and done["Prune the cache"][0] == 0
    assert 'errors="1"' in (checkout / "verdicts.xml").read_text(), "the refused spec is in the report"


def test_the_action_keeps_the_folder_that_the_verbs_use():
    (cache,) = (step for step in loaded(ROOT / "action.yml")["runs"]["steps"] if "cache" in step.get("uses", ""))
    assert cache["with"]["path"] == "${{ env.MMAGEN_CACHE_DIR || '~/.cache/mmagen' }}"


def test_the_action_s_inputs_are_described():
    action = loaded(ROOT / "action.yml")
    assert all(one["description"] and "default" in one for one in action["inputs"].values())
    outputs = {one["value"] for one in action["outputs"].values()}
    assert outputs == {"${{ inputs.reports }}.json", "${{ inputs.reports }}.xml"}
