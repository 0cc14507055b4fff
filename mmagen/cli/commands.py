"""The group of all verbs."""

from __future__ import annotations

import click

from mmagen import __version__
from mmagen.cli import diff, new
from mmagen.cli.verbs import descriptions, housekeeping, measurements, projects, results

_EPILOG = """Exit codes: 0 success; 1 a result is incorrect (build --check: a project differs); 2 bad spec or usage;
3 build failed; 4 run failed, or only part of the request was done; 77 nothing was verified because no
suitable GPU is present; 130 interrupted; 70 a bug in mmagen. If several apply: 1, then 2, 3, 4, 77.
A refused spec does not stop the other specs."""


class _InOrder(click.Group):
    """Lists the verbs in the order in which they were added: that of their use."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return [*self.commands]


@click.group(cls=_InOrder, epilog=_EPILOG, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110})
@click.version_option(__version__, prog_name="mmagen", message="%(prog)s %(version)s")
def commands() -> None:
    """Generate and verify CuTe/CUDA projects from YAML specs of tensor-core matrix multiplies."""


for _verb in (
    projects.init,
    new.command,
    projects.build,
    results.verify,
    projects.vendor,
    descriptions.inspect,
    descriptions.atoms,
    measurements.peak,
    measurements.tune,
    results.compare,
    diff.command,
    housekeeping.cache,
    descriptions.schema,
    descriptions.doctor,
):
    commands.add_command(_verb)
