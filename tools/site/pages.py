"""Pages of the site that are made: references from the schema, the command line and a generated header, and a gallery of specs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import click

from mmagen.cli.commands import commands
from mmagen.families import pipelines
from mmagen.families.reading import read
from mmagen.generate.render import render
from mmagen.inspect import flow
from mmagen.inspect.page import inspect
from mmagen.plan.project import ProjectPlan
from mmagen.spec.model import json_schema

ROOT = Path(__file__).resolve().parents[2]
_INTERFACE_OF = "sm80_gemm_classic"
_COPIED = {"CHANGELOG.md": "changelog.md", "CONTRIBUTING.md": "contributing.md"}


def pages() -> dict[str, str]:
    """Text by path within the site's sources."""
    return {
        "reference/spec.md": spec_reference(),
        "reference/commands.md": command_reference(),
        "reference/c.md": c_reference(),
        **{target: _copied(source) for source, target in _COPIED.items()},
        **dict(gallery()),
    }


def _copied(source: str) -> str:
    """A page of the repository's root, whose links are those of the site."""
    text = (ROOT / source).read_text("utf-8")
    return text.replace("](docs/", "](").replace("](generated/", "](gallery/index.md#")


# --- References ------------------------------------------------------------------------------------------------------


def spec_reference() -> str:
    """Every key with its description, which is also the remedy in messages."""
    schema = json_schema()
    parts = [
        "# The keys of a spec\n",
        "`mmagen schema` prints the same as a JSON Schema. What a key may be is also what a message about it says.\n",
        _keys(schema),
    ]
    for name, title in (
        ("Epilogue", "Keys of `epilogue`"),
        ("Operation", "Keys of an operation of `epilogue`"),
        ("Scale", "Keys of `scale`"),
        ("Problem", "Keys of a problem"),
        ("Groups", "Keys of `groups` of a problem"),
        ("Config", "Keys of a config"),
        ("When", "Keys of `when`"),
        ("Cache", "Keys of `cache`"),
        ("Cost", "Keys of `cost`"),
    ):
        parts.append(f"## {title}\n\n{_keys(schema['$defs'][name])}")
    return "\n".join(parts)


def long_form(schema: Mapping[str, Any]) -> Mapping[str, Any]:
    """The form with keys, which comes last, of what may also be written as a word or a list."""
    form: Mapping[str, Any] = schema.get("anyOf", [schema])[-1]
    return form


def _keys(schema: Mapping[str, Any]) -> str:
    schema = long_form(schema)
    required = schema.get("required", [])
    lines = ["| key | default | |", "|---|---|---|"]
    for key, field in schema["properties"].items():
        default = "required" if key in required else f"`{field['default']}`" if field.get("default") is not None else ""
        lines.append(f"| `{key}` | {default} | {_cell(field.get('description', ''))} |")
    return "\n".join(lines) + "\n"


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


def command_reference() -> str:
    """The help of every verb."""
    parts = ["# Commands\n", f"```text\n{_help(commands, ['mmagen'])}\n```\n"]
    for name, verb in sorted(commands.commands.items()):
        parts.append(f"## mmagen {name}\n\n```text\n{_help(verb, ['mmagen', name])}\n```\n")
        if isinstance(verb, click.Group):
            parts += [
                f"### mmagen {name} {inner}\n\n```text\n{_help(verb.commands[inner], ['mmagen', name, inner])}\n```\n"
                for inner in sorted(verb.commands)
            ]
    return "\n".join(parts)


def _help(command: click.Command, words: Sequence[str]) -> str:
    context: click.Context | None = None
    for word in words:
        context = click.Context(command, parent=context, info_name=word, max_content_width=100)
    assert context
    return command.get_help(context).rstrip()


def c_reference() -> str:
    """The header of a project; the others differ in the prefix of names."""
    header = render(_plan(ROOT / f"specs/{_INTERFACE_OF}.yaml"))[f"include/{_INTERFACE_OF}/{_INTERFACE_OF}.h"].decode()
    return (
        "# The C interface\n\nEvery kernel has the same functions and structs, with its name as prefix. This is the header of "
        f"[{_INTERFACE_OF}](../gallery/{_INTERFACE_OF}.md). Calls from Python are described in [From Python](../python.md).\n\n"
        f"```c\n{header}```\n"
    )


# --- Gallery ---------------------------------------------------------------------------------------------------------


def gallery() -> Iterator[tuple[str, str]]:
    """A page for each spec of specs/: its text, its pipeline and copies, and what inspect says; and a list of them."""
    rows = ["# All specs\n", "| spec | kernel | compiled for | what it is |", "|---|---|---|---|"]
    for path in sorted((ROOT / "specs").glob("*.yaml")):
        plan = _plan(path)
        yield f"gallery/{path.stem}.md", page(path)
        rows.append(f"| [{path.stem}]({path.stem}.md) | {plan.kernel} | {', '.join(plan.arch)} | {_cell(plan.text.title)} |")
    yield "gallery/index.md", "\n".join(rows) + "\n"


def page(path: Path) -> str:
    """The page of one spec."""
    plan = _plan(path)
    drawn = [one for one in flow.all_of(pipelines(plan), plan.name, ()) if not one.name.endswith("narrow")]
    figures = "\n\n".join(f"{one.svg}\n*{_cell(one.title)}*" for one in drawn)
    return (
        f"# {plan.name}\n\n{plan.text.title[0].upper()}{plan.text.title[1:]}.\n\n```yaml\n{path.read_text('utf-8')}```\n\n"
        f"`mmagen verify specs/{path.name}` builds and verifies it; `mmagen inspect --html out` with it draws all of it.\n\n"
        f"{figures}\n\n## What follows\n\n```text\n{inspect(plan)}```\n"
    )


def _plan(path: Path) -> ProjectPlan:
    plan, faults = read(path.read_bytes(), path.name)
    assert plan, faults
    return plan
