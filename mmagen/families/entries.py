"""The choices of a library as its spec has them: configs, and the clusters of configs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from mmagen.core.errors import Key
from mmagen.spec.cost import Cost
from mmagen.spec.kernel import Config, Launch, When
from mmagen.spec.model import Spec


@dataclass(frozen=True)
class Entry:
    """One choice. index: of its config. place: of its cluster within the config, if that has several. launch: that cluster."""

    index: int
    config: Config
    place: int = 0
    launch: Launch | None = None

    @property
    def name(self) -> str:
        return f"{self.config.name}_{self.launch.suffix}" if self.launch else self.config.name

    @property
    def kernel(self) -> str:
        """The name of the compiled kernel."""
        return self.config.name

    @property
    def when(self) -> When | None:
        return self.config.when

    @property
    def cost(self) -> Cost | None:
        return self.launch.cost if self.launch else self.config.cost

    @property
    def key(self) -> Key:
        """Its place in the spec."""
        return ("configs", self.index, *(("clusters", self.place) if self.launch else ()))

    @property
    def overrides(self) -> dict[str, Any]:
        """The keys that it overrides, with their values."""
        return {**self.config.overrides, **({"cluster": self.launch.cluster} if self.launch else {})}

    def inside(self, key: Key) -> Key:
        """Where a key of this choice is in the spec."""
        return (*self.key, *key) if key[:1] == ("cluster",) else ("configs", self.index, *key)


def entries(spec: Spec) -> list[Entry]:
    """All choices of a spec, in order."""
    found = []
    for i, config in enumerate(spec.configs or ()):
        if config.clusters:
            found += [Entry(i, config, j, launch) for j, launch in enumerate(config.clusters)]
        else:
            found.append(Entry(i, config))
    return found
