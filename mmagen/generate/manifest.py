"""mmagen.json: facts about a project and the digest of each file, by which hand edits are detected."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping

MANIFEST = "mmagen.json"
# Prefix of temporary names in a project's folder, which are not files of the project.
RESERVED = ".mmagen-"


def digest(content: bytes) -> str:
    """Of a file, as mmagen.json has it."""
    return hashlib.sha256(content).hexdigest()


def digests(files: Mapping[str, bytes]) -> dict[str, str]:
    """What stands under "files": {path: digest}, in the order of `files`."""
    return {path: digest(content) for path, content in files.items()}


def to_bytes(facts: Mapping[str, object]) -> bytes:
    """A mmagen.json with `facts`, in order."""
    return (json.dumps(facts, indent=1) + "\n").encode()


def recorded(content: bytes | None) -> dict[str, str] | None:
    """{path: digest} of a mmagen.json; None if it is invalid."""
    try:
        listed = json.loads(content or b"null")["files"]
        if all(isinstance(path, str) and _is_inside(path) and path != MANIFEST for path in listed):
            return {path: str(digest) for path, digest in listed.items()}
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
        pass
    return None


def has_tests(content: bytes | None) -> bool:
    """Was the project of this mmagen.json built with its tests/? True where it is no mmagen.json."""
    try:
        return bool(json.loads(content or b"{}").get("tests", True))
    except (ValueError, AttributeError, RecursionError):
        return True


def check_files(files: Mapping[str, bytes]) -> None:
    """ValueError unless `files` ({relative POSIX path: content}) can be a project: no path leads out or goes through
    another file, and its mmagen.json lists the others."""
    for path in files:
        if not _is_inside(path):
            raise ValueError(f"{path!r} is no relative POSIX path inside a project")
        parent = path.rpartition("/")[0]
        while parent:
            if parent in files:
                raise ValueError(f"{parent!r} is a file and the folder of {path!r}")
            parent = parent.rpartition("/")[0]
    listed = recorded(files.get(MANIFEST))
    if listed is None or listed.keys() != files.keys() - {MANIFEST}:
        raise ValueError(f"{MANIFEST} must list the other files of the project, with their digests")


def _is_inside(path: str) -> bool:
    leads_out = not {"", ".", ".."}.isdisjoint(path.split("/")) or not set("\\:\0").isdisjoint(path)
    return not leads_out and not path.startswith(RESERVED)


def with_vendored(files: Mapping[str, bytes], headers: Mapping[str, bytes]) -> dict[str, bytes]:
    """`files` and `headers` as one project, whose manifest has the digests of both."""
    if not headers:
        return dict(files)
    facts = json.loads(files[MANIFEST])
    facts["files"] = dict(sorted((facts["files"] | digests(headers)).items()))
    return {**files, **headers, MANIFEST: to_bytes(facts)}
