"""Places in the text of PTX."""

from __future__ import annotations

import re


def places_in(text: str, kernel: str, pattern: str) -> list[re.Match[str]]:
    """Where `pattern` matches inside the entries whose names contain `kernel`. At least one entry must match."""
    entries = [*re.finditer(r"\.entry\s+([$\w]+)", text)]
    ends = [*(one.start() for one in entries[1:]), len(text)]
    spans = [(one.end(), end) for one, end in zip(entries, ends, strict=True) if kernel in one[1]]
    assert spans, f"no kernel is called {kernel}"
    return [place for start, end in spans for place in re.compile(pattern).finditer(text, start, end)]
