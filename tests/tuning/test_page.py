"""The page of a library: ratios to cuBLASLt and to the fastest of its own kernels."""

from __future__ import annotations

from mmagen.tuning.measure import Session
from mmagen.tuning.page import rows, to_markdown


def record(name: str, problem: str, ms: float | None, disposition: str = "passed") -> dict[str, object]:
    where = {"device": "NVIDIA X", "driver": "1", "cuda": "13.0", "sm_clock_mhz": 1700.0, "cutlass": "4.2.0"}
    return {"name": name, "problem": problem, "ms_median": ms, "disposition": disposition, **where}


def session() -> Session:
    times = {"lib": (0.010, 0.020), "a": (0.010, 0.016), "b": (0.012, 0.020), "cublasLt_first": (0.011, 0.018)}
    times["cublasLt_best8"] = (0.010, 0.018)
    records = [record(name, problem, ms) for name, of in times.items() for problem, ms in zip("pq", of, strict=True)]
    records.append(record("c", "p", None, "incorrect"))
    return Session(records=records, chosen={"p": "a", "q": "b"}, skipped={"r": "out of memory"})


def test_the_choice_is_compared_with_cublaslt_and_with_the_fastest_kernel():
    first, second = rows(session(), "lib")
    assert (first.config, first.us, first.best, first.first, first.best8) == ("a", 10.0, ("a", 10.0), 11.0, 10.0)
    assert second.best == ("a", 16.0)


def test_the_page_has_a_summary_and_every_problem():
    page = to_markdown({"all": rows(session(), "lib")}, session(), "A library", "command", "2026-01-01")
    summary = next(line for line in page.splitlines() if line.startswith("| all"))
    cells = [cell.strip() for cell in summary.strip("|").split("|")]
    assert cells == ["all", "2", "0.949", "0.905", "0.900", "0.995", "0.894", "0.800"]
    assert "| q " in page and "- r: out of memory" in page and "NVIDIA X, driver 1, CUDA 13.0" in page


def test_a_problem_without_cublaslt_says_why():
    of = session()
    of.records.append(record("lib", "s", 0.030) | {"reason": "no baseline, cuBLASLt's result does not agree: 1 of 9"})
    of.records.append(record("lib", "p", 0.010) | {"reason": "beside a baseline"})
    page = to_markdown({"all": rows(of, "lib")}, of, "A library", "command", "2026-01-01")
    without, _, timed = page.partition("## How cuBLASLt was timed")
    assert "- s: cuBLASLt's result does not agree: 1 of 9" in without and "- p:" not in without
    assert "- p: beside a baseline" in timed and "- s:" not in timed
    assert "Without a figure" not in to_markdown(
        {"all": rows(session(), "lib")}, session(), "A library", "command", "2026-01-01"
    )


def test_kernels_of_others_have_columns_of_their_own():
    of = session()
    of.records += [record("x1", "p", 0.009), record("x2", "p", 0.008, "incorrect"), record("x1", "q", 0.025)]
    of.records.append(record("x2", "q", 0.022))
    first, second = rows(of, "lib", ("x1", "x2"))
    assert first.best == ("a", 10.0) and second.best == ("a", 16.0), "they are none of the library's own"
    assert first.rival == ("x1", 9.0) and second.rival == ("x2", 22.0), "a wrong kernel is not the fastest"
    page = to_markdown({"all": [first, second]}, of, "A library", "command", "2026-01-01", "X")
    summary = next(line for line in page.splitlines() if line.startswith("| all"))
    assert [cell.strip() for cell in summary.strip("|").split("|")][-2:] == ["0.995", "0.900"]
    assert "over X: geometric mean" in page and "| x2 " in page
    assert "over X" not in to_markdown({"all": rows(session(), "lib")}, session(), "A library", "command", "2026-01-01")
