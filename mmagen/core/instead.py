"""What to write instead of a word that is none of the known ones."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping, Sequence

# Words by what they have in common, or simply words.
Known = Sequence[str] | Mapping[str, Sequence[str]]
_SHORT = 80  # characters of a list that a sentence may end in
_INDENT = " " * 4


def like(word: str, known: Iterable[str], count: int = 3, cutoff: float = 0.6) -> list[str]:
    """At most `count` of the known words: those that differ in case alone; else those of nearly the same spelling, the most alike
    first; else those that have the word in them."""
    words = list(known)
    if same := [one for one in words if one.lower() == word.lower()]:
        return same[:count]
    close = difflib.get_close_matches(word, words, n=count, cutoff=cutoff)
    return close or [one for one in words if len(word) > 2 and word.lower() in one.lower()][:count]


def like_type(word: str, known: Iterable[str]) -> list[str]:
    """The known word of an element type that torch's, numpy's or CUDA's name of it means: [bf16] for bfloat16, [s8] for int8."""
    plain = word.lower().replace("float", "f").replace("fp", "f").replace("uint", "u").replace("int", "s")
    return like(plain, known, 1, 0.7)


def did_you_mean(near: Sequence[str]) -> str:
    """`did you mean a, b or c?`, "" for none."""
    return f"did you mean {' or '.join(part for part in (', '.join(near[:-1]), near[-1]) if part)}?" if near else ""


def instead(near: Sequence[str], known: Known, there_are: str, listed_by: str = "") -> str:
    """What to write instead of a word: the near ones; of few known words all of them, too. Without near ones, all words of a
    long list by their groups, a line for each.

    there_are: how the list of all words begins, e.g. "there are". listed_by: the command that lists them, "" if none does.
    """
    words = list(known) if not isinstance(known, Mapping) else [word for group in known.values() for word in group]
    listed = ", ".join(words)
    end = f"{listed_by} lists all" if listed_by else ""
    if len(listed) <= _SHORT:
        return " ".join(part for part in (did_you_mean(near), f"{there_are} {listed}") if part)
    if near:
        return " ".join(part for part in (did_you_mean(near), end) if part)
    if not isinstance(known, Mapping):
        return f"{there_are} {listed}" + (f"; {end}" if end else "")
    lines = [f"{group}: {', '.join(of)}" for group, of in known.items() if of]
    return f"\n{_INDENT}".join([there_are, *lines, *([end] if end else [])])
