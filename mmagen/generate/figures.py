"""The pictures beside README.md of a project: who owns which element of the tile, operands in the banks of shared memory, and the
pipeline. Those of `mmagen inspect`, smaller."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from html import escape

from mmagen.draw import timeline
from mmagen.draw.svg import Picture
from mmagen.families import family_of, pipelines
from mmagen.generate.licence import licensed
from mmagen.plan.maps import Map
from mmagen.plan.project import ProjectPlan

_MOST_PIPELINES = 4  # of 13 to 20 KB each
_FOLDER = "figures"
_STAGE = "-banks.svg"


@dataclass(frozen=True)
class Figure:
    """path: in the project; of: what it shows, in a few words; title: a sentence; content: of the file."""

    path: str
    of: str
    title: str
    content: bytes


@dataclass(frozen=True)
class Figures:
    """layouts: of the CTA tile, of a library that of its first kernel, which is `kernel` (else ""). pipelines: of each kernel."""

    layouts: tuple[Figure, ...]
    kernel: str
    pipelines: tuple[Figure, ...]

    @property
    def staged(self) -> bool:
        """Is there a picture of shared memory?"""
        return any(one.path.endswith(_STAGE) for one in self.layouts)

    @property
    def files(self) -> dict[str, bytes]:
        """Content by path."""
        return {one.path: one.content for one in (*self.layouts, *self.pipelines)}


NONE = Figures((), "", ())


def figures(plan: ProjectPlan) -> Figures:
    """All of a project, at most 150 KB."""
    kernel, first = next(iter(plan.by_config.items()))
    layouts = tuple(one for last in family_of(first).maps(first)[-1:] for one in _layouts(last))
    return Figures(layouts, kernel, tuple(_pipelines(plan)[:_MOST_PIPELINES]))


@lru_cache(maxsize=16)  # specs of one call are often alike
def _layouts(of: Map) -> tuple[Figure, ...]:
    from mmagen.draw import maps  # imports the layout algebra, as making the maps does

    return tuple(_figure(one, one.title.partition(":")[0], one.name) for one in maps.still(of))


def _pipelines(plan: ProjectPlan) -> list[Figure]:
    """Of equal ones the first."""
    found: dict[str, Figure] = {}
    for kernel, pipeline in pipelines(plan):
        of = kernel or plan.name
        drawn = timeline.picture(pipeline, of, "pipeline")
        equal = drawn.svg.replace(escape(of), "")
        found.setdefault(equal, _figure(drawn, f"Pipeline of {of}", f"pipeline{'-' if kernel else ''}{kernel}"))
    return list(found.values())


def _figure(drawn: Picture, of: str, name: str) -> Figure:
    path = f"{_FOLDER}/{name}.svg"
    return Figure(path, of, drawn.title, licensed(path, drawn.svg.encode()))
