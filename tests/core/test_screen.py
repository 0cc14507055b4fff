"""Tables and sentences at a number of columns."""

from __future__ import annotations

import random

import pytest

from mmagen.core.screen import fold, table

WORDS = (
    "a",
    "of",
    "shared",
    "memory",
    "accumulators",
    "--problem",
    "1,024",
    "SM80_16x8x16_F32F16F16F32_TN",
    "/a/path/that/has/parts",
)


def widest(text: str) -> int:
    return max(map(len, text.split("\n")))


def test_a_table_that_fits_is_not_folded():
    shown = table(("name", "n"), [("a b", "1"), ("c", "10")], 80, right=("n",))
    assert shown.split("\n") == ["name   n", "----  --", "a b    1", "c     10"] and shown == table(
        ("name", "n"), [("a b", "1"), ("c", "10")], right=("n",)
    )


def test_words_are_folded_within_their_column():
    assert table(("key", "says"), [("k", "one two three four")], 14).split("\n") == [
        "key  says",
        "---  ---------",
        "k    one two",
        "     three",
        "     four",
    ]


def test_a_long_first_cell_stands_alone_and_whole():
    name = "SM90_64x128x16_F32BF16BF16_SS"
    shown = table(("operation", "shape", "types"), [(name, "64x128x16", "f32 = bf16 x bf16")], 40)
    assert name in shown.split("\n") and "f32 = bf16 x bf16" in shown and widest(shown) <= 40


def test_numbers_are_never_broken_but_go_to_a_second_block():
    heads = ("problem", *(f"figure {i}" for i in range(8)))
    shown = table(heads, [("1x1x1", *["1,234,567.8"] * 8)], 60, right=heads[1:])
    assert widest(shown) <= 60 and shown.count("1,234,567.8") == 8 and shown.count("1x1x1") == len(shown.split("\n\n")) == 2


def test_a_title_stands_above_its_rows_in_the_first_block():
    shown = table(("p", "x"), ["one, TN", ("1x1x1", "2"), "two, NT", ("2x2x2", "3")], 80)
    assert shown.split("\n")[2:] == ["one, TN", "1x1x1  2", "", "two, NT", "2x2x2  3"]


@pytest.mark.parametrize("columns", [40, 60, 80, 120])
def test_whatever_is_in_a_table_it_fits_and_nothing_is_lost(columns):
    draw = random.Random(columns)
    for _ in range(200):
        count = draw.randint(1, 9)
        heads = [draw.choice(WORDS) for _ in range(count)]
        rows = [
            [" ".join(draw.choice(WORDS) for _ in range(draw.randint(0, 6))) for _ in range(count)]
            for _ in range(draw.randint(0, 5))
        ]
        shown = table(heads, rows, columns, indent=draw.choice(("", "  ")))
        assert widest(shown) <= columns, shown
        letters = "".join(shown.split())
        for row in rows:
            for word in " ".join(row).split():
                assert len(word) > 14 or word in letters


def test_sentences_are_folded_at_blanks_and_paths_at_slashes():
    assert fold("one two three", 9) == "one two\n  three"
    assert fold("  at /usr/lib/python/site-packages/x.py", 24).split("\n") == [
        "  at /usr/lib/python/",
        "    site-packages/x.py",
    ]
    assert fold("as it is " * 30, None) == "as it is " * 30
