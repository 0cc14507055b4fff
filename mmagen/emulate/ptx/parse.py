"""PTX text -> Module: every statement decoded, scopes resolved, source lines attached. Executes nothing."""

from __future__ import annotations

import re
from dataclasses import replace
from functools import cache

from mmagen.emulate.errors import EmulationError, reported
from mmagen.emulate.ptx.functions import END, Function, functions_of, read_call, without_return
from mmagen.emulate.ptx.limits import limits_of
from mmagen.emulate.ptx.model import (
    Address,
    Entry,
    Instruction,
    Limits,
    Location,
    Module,
    Name,
    Operand,
    Symbol,
    Variable,
    Vector,
)
from mmagen.emulate.ptx.operands import OperandReader, size_of
from mmagen.emulate.ptx.statements import LABEL, statements_of

_COMMENT = re.compile(r"/\*.*?\*/|//[^\n]*", re.S)
_LOC = re.compile(r"\.loc\s+(\d+)\s+(\d+)\s+(\d+)\s*(?:,\s*function_name\s+[^,]+,\s*inlined_at\s+(\d+)\s+(\d+)\s+(\d+))?$")
_FILE = re.compile(r'\.file\s+(\d+)\s+"((?:[^"\\]|\\.)*)"')
_INSTRUCTION = re.compile(r"(?:@\s*(!?)\s*([%$\w]+)\s+)?([a-z][\w]*)((?:(?:\.|::)[\w]+)*)\s*(.*)$", re.S)
_VARIABLE = re.compile(
    r"((?:\.(?:visible|extern|weak|common)\s+)*)\.(param|shared|local|const|global)\s+((?:\.attribute\([^)]*\)\s*)?)"
    r"((?:\.(?:align\s+\d+|ptr\b|const\b|global\b|shared\b|local\b|v2\b|v4\b)\s*)*)"
    r"\.(\w+)\s+((?:\.ptr\s*(?:\.\w+\s*)?(?:\.align\s+\d+\s*)?)?)([$\w%]+)((?:\s*\[\s*\w*\s*\])*)(?:\s*=\s*(.*))?$",
    re.S,
)
_DOT = re.compile(r"\.(?!:)")
_REG = re.compile(r"\.reg\s+((?:\.v[24]\s+)?)\.(\w+)\s+(.*)$", re.S)
_ENTRY = re.compile(r"((?:\.(?:visible|extern|weak)\s+)*)\.(entry|func)\s*(\([^()]*\)\s*)?([$\w%]+)\s*(?:\((.*)\))?", re.S)
# Directives that do not change what the instructions do.
_IDLE = [
    ".version",
    ".target",
    ".address_size",
    ".maxntid",
    ".minnctapersm",
    ".maxnreg",
    ".reqntid",
    ".maxnctapersm",
    ".pragma",
    ".file",
    ".loc",
    ".alias",
    ".noreturn",
    ".explicitcluster",
    ".reqnctapercluster",
    ".maxclusterrank",
    ".branchtargets",
    ".callprototype",
    ".blocksareclusters",
]


@reported("while it read the PTX")
def parse(text: str, file: str = "") -> Module:
    """Decodes a PTX text.

    file: the name for messages. Raises EmulationError with file, line and text where the syntax is wrong.
    """
    return _Parser(text, file).module()


class _Parser:
    def __init__(self, text: str, file: str):
        self.file = file or "<ptx>"
        self.text = _COMMENT.sub(lambda m: "\n" * m.group(0).count("\n"), text)
        self.sources = {int(n): name for n, name in _FILE.findall(text)}
        self.target = ""
        self.entries: dict[str, Entry] = {}
        self.variables: list[Variable] = []
        self.functions: set[str] = set()
        self.body: _Body | None = None
        self.bodies: dict[str, Function] = {}

    def fail(self, line: int, text: str, why: str) -> EmulationError:
        return EmulationError(f"{self.file}:{line}: {why}: {' '.join(text.split())[:200]}")

    def module(self) -> Module:
        statements = list(statements_of(self.text, self.fail))
        self.bodies = functions_of(statements) if ".func" in self.text else {}
        for line, kind, statement in statements:
            if kind == "{":
                self.open(line, statement)
            elif kind == "}":
                self.close(line)
            elif self.body is not None:
                self.body.statement(line, statement)
            else:
                self.outside(line, statement)
        if self.body is not None:
            raise self.fail(self.body.line, self.body.name, "this entry has no closing brace")
        return Module(self.file, self.target, self.entries, tuple(self.variables), frozenset(self.functions))

    def open(self, line: int, header: str) -> None:
        if self.body is not None:
            self.body.open_scope()
            return
        found = _ENTRY.search(header)
        if not found:
            raise self.fail(line, header, "expected an .entry or .func before '{'")
        self.body = _Body(self, found.group(4), line, found.group(2) == "entry", found.group(5) or "")
        self.body.limits = limits_of(header)

    def close(self, line: int) -> None:
        if self.body is None:
            raise self.fail(line, "}", "a closing brace without an opening one")
        if self.body.close_scope():
            if self.body.is_entry:
                self.entries[self.body.name] = self.body.entry()
            else:
                self.functions.add(self.body.name)
            self.body = None

    def outside(self, line: int, statement: str) -> None:
        word = statement.split(None, 1)[0]
        if word == ".target":
            self.target = statement.split(None, 1)[1].strip()
        elif found := _VARIABLE.match(statement):
            self.variables.append(self.variable(line, statement, found))
        elif found := _ENTRY.search(statement):
            self.functions.add(found.group(4))
        elif word not in _IDLE:
            raise self.fail(line, statement, "not a PTX statement")

    def variable(self, line: int, statement: str, found: re.Match[str]) -> Variable:
        linkage, space, _, qualifiers, kind, _, name, extents, initial = found.groups()
        element = size_of(kind)
        if element is None:
            raise self.fail(line, statement, f"unknown type .{kind}")
        count = 1
        for extent in re.findall(r"\[\s*(\w*)\s*\]", extents or ""):
            count *= int(extent, 0) if extent else 0
        for vector in re.findall(r"\.v([24])", qualifiers):
            element *= int(vector)
        alignment = re.search(r"align\s+(\d+)", qualifiers)
        return Variable(
            name=name,
            space=space,
            size=element * count,
            alignment=int(alignment.group(1)) if alignment else element,
            external="extern" in linkage or (space == "shared" and count == 0),
            data=_initial(initial, element) if initial else b"",
            kind=kind,
        )


class _Body:
    """One entry while its statements arrive."""

    def __init__(self, parser: _Parser, name: str, line: int, is_entry: bool, params: str):
        self.parser, self.name, self.line, self.is_entry = parser, name, line, is_entry
        self.reader = OperandReader()
        self.instructions: list[Instruction] = []
        self.labels: dict[str, int] = {}
        self.variables: list[Variable] = []
        self.call_params: set[str] = set()
        self.calling: list[str] = []
        self.limits = Limits()
        self.location: Location | None = None
        self.places: dict[tuple[int, int, int], Location] = {}
        self.label = ""
        self.tables: dict[str, tuple[str, ...]] = {}  # of brx.idx: label of .branchtargets -> its labels
        self.branches: dict[int, tuple[dict[str, str], ...]] = {}
        self.params = self._params(params)

    def _params(self, text: str) -> tuple[Variable, ...]:
        params: list[Variable] = []
        offset = 0
        for part in filter(None, (p.strip() for p in text.split(","))):
            found = _VARIABLE.match(part)
            if not found:
                raise self.parser.fail(self.line, part, "not a parameter")
            param = self.parser.variable(self.line, part, found)
            offset = -(-offset // param.alignment) * param.alignment
            params.append(replace(param, space="param", offset=offset))
            offset += param.size
        return tuple(params)

    def open_scope(self) -> None:
        self.reader.open_scope()

    def close_scope(self) -> bool:
        """Whether that was the entry's own brace."""
        return self.reader.close_scope()

    def statement(self, line: int, statement: str) -> None:
        try:
            self._statement(line, statement)
        except ValueError as error:
            raise self.parser.fail(line, statement, str(error)) from None

    def _statement(self, line: int, statement: str) -> None:
        if statement[0] == ".":
            self._directive(line, statement)
            return
        if statement[-1] == ":" and (found := LABEL.fullmatch(statement)):
            self.label = self.reader.declare_label(found.group(1))
            self.labels[self.label] = len(self.instructions)
            return
        found = _INSTRUCTION.match(statement)
        if not found:
            raise ValueError("not an instruction")
        negated, guard, base, modifiers, rest = found.groups()
        if base == "call" and self._copied(line, rest, guard and (negated or "") + guard):
            return
        if base in ("bra", "brx"):
            # Targets may follow their branch: they are resolved when the entry is complete.
            self.branches[len(self.instructions)] = self.reader.visible_labels()
        operands = self.reader.operands(rest, base)
        self.instructions.append(
            Instruction(
                index=len(self.instructions),
                base=base,
                modifiers=self._modifiers(base, modifiers, operands),
                operands=operands,
                guard=self.reader.guard(guard, bool(negated)) if guard else None,
                line=line,
                text=" ".join(statement.split()),
                location=self.location,
            )
        )

    def _modifiers(self, base: str, modifiers: str, operands: tuple[Operand, ...]) -> tuple[str, ...]:
        """Parameters of calls are in local memory, and so are those of a function that a register points to."""
        parts = _parts(modifiers)
        if base not in ("ld", "st") or "param" not in parts:
            return parts
        place = next((x.base for x in operands if isinstance(x, Address)), None)
        moved = place.name in self.call_params if isinstance(place, Symbol) else bool(self.calling)
        return tuple("local" if moved and part == "param" else part for part in parts)

    def _copied(self, line: int, operands: str, guard: str | None) -> bool:
        """Copies the body of the function that is called to here; False where it has none or calls itself."""
        call = read_call(operands)
        function = self.parser.bodies.get(call.name)
        if function is None or call.name in self.calling:
            return False
        formal, actual = (*function.results, *function.params), (*call.results, *call.arguments)
        if len(formal) != len(actual):
            raise ValueError(f"{call.name} takes {len(formal)} parameters and results, not {len(actual)}")
        unique = [self.reader.variable(name) for name in actual]
        self.calling.append(call.name)
        self.open_scope()
        for name, variable in zip(formal, unique, strict=True):
            self.reader.rename(name, variable)
        if guard:
            self.statement(line, f"@{guard[1:] if guard[0] == '!' else '!' + guard} bra {END}")
        for at, kind, text in function.statements:
            if kind == "{":
                self.open_scope()
            elif kind == "}":
                self.close_scope()
            else:
                self.statement(at, without_return(text))
        self.statement(line, f"{END}:")
        self.close_scope()
        self.calling.pop()
        return True

    def _directive(self, line: int, statement: str) -> None:
        if found := _LOC.match(statement):
            self._loc(found)
        elif found := _REG.match(statement):
            self.reader.declare(found.group(2), found.group(3), found.group(1))
        elif statement.startswith(".branchtargets"):
            self.tables[self.label] = tuple(statement.split(None, 1)[1].replace(",", " ").split())
        elif found := _VARIABLE.match(statement):
            self._declare(self.parser.variable(line, statement, found))
        elif statement.split(None, 1)[0] not in _IDLE:
            raise ValueError("unknown directive")

    def _declare(self, variable: Variable) -> None:
        name = self.reader.declare_variable(variable.name)
        if variable.space == "param":
            self.call_params.add(name)
        self.variables.append(replace(variable, name=name, space="local" if variable.space == "param" else variable.space))

    def _loc(self, found: re.Match[str]) -> None:
        file, line, column, *inlined = (int(n) if n else None for n in found.groups())
        parent = self._place(*inlined) if inlined[0] is not None else None
        key = file or 0, line or 0, column or 0
        self.location = Location(self.parser.sources.get(key[0], "?"), key[1], key[2], parent)
        self.places[key] = self.location

    def _place(self, file: int | None, line: int | None, column: int | None) -> Location:
        """The place that code was inlined into: as it was last described, else with no caller of its own."""
        key = file or 0, line or 0, column or 0
        return self.places.get(key) or Location(self.parser.sources.get(key[0], "?"), key[1], key[2])

    def entry(self) -> Entry:
        for index, scopes in self.branches.items():
            self.instructions[index] = self._branch(self.instructions[index], scopes)
        return Entry(
            name=self.name,
            params=self.params,
            registers=tuple(self.reader.registers),
            instructions=tuple(self.instructions),
            labels=self.labels,
            variables=tuple(self.variables),
            line=self.line,
            limits=self.limits,
        )

    def _branch(self, instruction: Instruction, scopes: tuple[dict[str, str], ...]) -> Instruction:
        """With the labels that it may branch to as the entry names them."""
        target = instruction.operands[-1] if instruction.operands else None

        def resolved(name: str) -> Name:
            found = next((scope[name] for scope in scopes if name in scope), None)
            if found is None:
                raise self.parser.fail(instruction.line, instruction.text, "no such label in this entry")
            return Name(found)

        label = resolved(target.name if isinstance(target, Name) else "")
        if instruction.base == "bra":
            return replace(instruction, operands=(label,))
        table = tuple(map(resolved, self.tables.get(label.name, ())))
        return replace(instruction, operands=(*instruction.operands[:-1], Vector(table)))


@cache
def _parts(modifiers: str) -> tuple[str, ...]:
    """ ".global.v4.u32" -> ("global", "v4", "u32")."""
    return tuple(_DOT.split(modifiers)[1:])


def _initial(text: str, element: int) -> bytes:
    """An initialiser's bytes; what is not a plain number (an address of something) becomes zero."""
    data = b""
    for word in re.findall(r"[-\w.$]+", text):
        try:
            value = int(word.rstrip("U"), 0)
        except ValueError:
            value = 0
        data += (value % (1 << (8 * element))).to_bytes(element, "little")
    return data
