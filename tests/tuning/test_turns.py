"""turns.cuh: candidates that take turns, and which of them is the fastest."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

HEADERS = Path(__file__).resolve().parents[2] / "templates" / "runtime"
# The first two samples of all take twice as long, as if the clock were still low.
PROGRAM = """
#include <cstdio>
#include "turns.cuh"
using namespace mmagen::test;
int main() {
  double const ms[] = {1.0, 1.2, 1.1, 3.0};
  int calls = 0, of[4] = {};
  auto const sample = [&](std::size_t i) { ++of[i]; return ms[i] * (calls++ < 2 ? 2.0 : 1.0); };
  std::vector<double> const medians = medians_in_turns(4, 5, 7, sample);
  for (double const one : medians) { std::printf("%.2f ", one); }
  for (int const one : fastest_first(medians)) { std::printf("%d ", one); }
  for (int const one : of) { std::printf("%d ", one); }
  bool same = true;
  Shuffler one(1), other(1);
  std::vector<std::size_t> const first = one.order(8);
  for (int i = 0; i < 4; ++i) { same = same && one.order(8) == first; }
  std::printf("%d %d ", same, first == other.order(8));
  std::vector<std::vector<double>> const samples = {{3, 1, 2}, {1.5}, {1.9, 1.9, 1.9}, {}, {1, 1, 1}};
  std::printf("%d ", fastest_of(samples, {true, true, true, true, true}));
  std::printf("%d ", fastest_of(samples, {true, true, true, true, false}));
  std::printf("%d ", fastest_of(samples, {true, true, false, true, false}));
  std::printf("%d ", fastest_of(samples, {false, true, false, true, false}));
  std::printf("%d", fastest_of({{}, {}}, {true, true}));
}
"""


@pytest.mark.skipif(shutil.which("g++") is None, reason="no g++")
def test_candidates_take_turns_and_the_median_tells_the_fastest(tmp_path):
    (tmp_path / "turns.cpp").write_text(PROGRAM)
    subprocess.run(
        ["g++", "-std=c++17", "-Wall", "-I", HEADERS / "bench", "-I", HEADERS / "test", "turns.cpp", "-o", "turns"],
        cwd=tmp_path,
        check=True,
    )
    said = subprocess.run([tmp_path / "turns"], capture_output=True, text=True, check=True).stdout.split()
    assert said[:4] == ["1.00", "1.20", "1.10", "3.00"]  # one slow sample of five changes no median
    assert said[4:8] == ["0", "2", "1", "3"]
    assert said[8:12] == ["5"] * 4
    assert said[12:14] == ["0", "1"]  # a new order each time, and the same orders for the same seed
    # The lowest median; without that one, not 1.5, which was given up after one sample; only the first; none.
    assert said[14:] == ["4", "2", "0", "-1", "-1"]
