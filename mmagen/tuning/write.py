"""Writes a library spec: the configurations with their coefficients, and a comment that says where these come from."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Mapping, Sequence
from typing import Any

import yaml

from mmagen.spec.cost import Cost
from mmagen.spec.model import Spec
from mmagen.tuning.candidates import dispensable_keys
from mmagen.tuning.kernels import as_configs

_WIDTH = 128
_LAYOUT = re.compile(r"\((\d+),(\d+),(\d+)\):\(1,(\d+),(\d+)\)")


class _Dumper(yaml.SafeDumper):
    """Without anchors, which a spec refuses."""

    def ignore_aliases(self, data: Any) -> bool:
        return True


def library_text(
    spec: Spec,
    configs: Sequence[tuple[str, Mapping[str, Any]]],
    kernels: Mapping[str, str],
    costs: Mapping[str, Cost],
    comment: str,
) -> str:
    """The spec of a library as YAML.

    spec: what it is made from; its configs with a rule stay, and come first. configs: name and keys of each new config, as YAML
    has them. kernels: the name of the compiled kernel of each. costs: by name. comment: lines that say what was measured where.
    """
    document = spec.model_dump(mode="json", by_alias=True, exclude_unset=True)
    kept = [config for config in document.pop("configs", None) or () if config.get("when")]
    # The new configs do not inherit them; those that stay have them as their own.
    inherited = {key: document.pop(key) for key in dispensable_keys(spec)}
    kept = [{"name": config["name"], "when": config["when"], **inherited, **config} for config in kept]
    problems = document.pop("problems", None)
    lines = [f"# {line}".rstrip() for text in comment.splitlines() for line in textwrap.wrap(text, _WIDTH - 2) or [""]]
    lines += [_yaml(document).rstrip(), "configs:"]
    for config in kept:
        lines.append(_item(config))
    written = {name: costs[name].model_dump(exclude_defaults=True) for name, _ in configs}
    of_each = {name: {key: _short(value) for key, value in of_one.items()} for name, of_one in written.items()}
    lines += [_item(config) for config in as_configs(configs, kernels, of_each)]
    if problems:
        lines.append("problems:")
        lines += [f"  - {_flow(_brief(problem))}" for problem in problems]
    return "\n".join(lines) + "\n"


def _item(keys: Mapping[str, Any]) -> str:
    text = textwrap.indent(_yaml(keys).rstrip(), "    ")
    return f"  - {text.lstrip()}"


def _yaml(document: Mapping[str, Any]) -> str:
    return yaml.dump(
        {key: _plain(value) for key, value in document.items()},
        Dumper=_Dumper,
        sort_keys=False,
        default_flow_style=None,
        width=_WIDTH - 4,
    )


def _plain(value: Any) -> Any:
    """A compact layout as the extents that it is written with."""
    match = _LAYOUT.fullmatch(value) if isinstance(value, str) else None
    if not match:
        return value
    m, n, k, along_n, along_k = map(int, match.groups())
    return [m, n, k] if (along_n, along_k) == (m, m * n) else value


def _flow(value: Any) -> str:
    return yaml.dump(value, Dumper=_Dumper, sort_keys=False, default_flow_style=True, width=10**6).rstrip()


def _brief(problem: Mapping[str, Any]) -> Any:
    """A problem as one would write it: its shape alone where that is all."""
    return problem["shape"] if set(problem) == {"shape"} else problem


def _short(value: float) -> float | int:
    return int(value) if float(value).is_integer() else value
