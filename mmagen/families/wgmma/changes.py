"""Changes to the spec of a wgmma kernel: as the rules try them, as YAML has them, and in words."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from mmagen.core.errors import ABSENT, Key
from mmagen.core.layout_text import LayoutText
from mmagen.plan import tiling
from mmagen.spec.epilogue import Epilogue
from mmagen.spec.model import Layout
from mmagen.spec.values import Model

# Values of a Spec's fields by key; None for the default.
Change = dict[str, Any]


def written(change: Change) -> Mapping[Key, Any]:
    """The change as YAML has it."""
    return {(key,): ABSENT if value is None else _plain(value) for key, value in change.items()}


def _plain(value: Any) -> Any:
    if isinstance(value, LayoutText):
        return list(tiling.atoms_per_mode(value))
    if isinstance(value, Model):
        return value.model_dump(mode="json")
    return list(value) if isinstance(value, tuple) else value


def spelled(key: str, value: Any) -> str:
    """One value of a change in a sentence."""
    if value is None:
        return f"no {key}"
    if isinstance(value, Epilogue):
        return f"epilogue.out {value.out or 'null'}"
    plain = value.letters if isinstance(value, Layout) else _plain(value)
    return f"{key} {str(plain).replace('None', 'null')}"
