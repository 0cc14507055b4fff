"""One launch of an entry: its extents and parameters, and where the variables of the entry lie."""

from __future__ import annotations

from dataclasses import dataclass
from weakref import WeakKeyDictionary

from mmagen.emulate.errors import EmulationError
from mmagen.emulate.memory.global_memory import GlobalMemory
from mmagen.emulate.program.specials import SPECIALS
from mmagen.emulate.ptx.facts import access_size, is_asynchronous, may_access
from mmagen.emulate.ptx.model import Address, Entry, Module, Name, Operand, Symbol, Variable, Vector

Dim = tuple[int, int, int]
_SHARED_MAX = 232448
_MOST_CLUSTER_CTAS = 16  # of sm_90, with cudaFuncAttributeNonPortableClusterSizeAllowed; 8 without


class Places:
    """What compiled code needs to know of an entry: its variables' addresses, and where special registers are kept."""

    def __init__(self, entry: Entry, outside: frozenset[str]):
        self.known = {p.name: p.offset for p in entry.params}
        self._outside = outside
        self._registers = len(entry.registers)

    def place_of(self, name: str) -> int | None:
        """A variable's address in its own space; None for global memory. Raises EmulationError for an unknown one."""
        if name in self.known:
            return self.known[name]
        if name not in self._outside:
            raise EmulationError(f"{name} has no address")
        return None

    def special(self, name: str) -> str:
        """The generated source's expression for a special register."""
        if name not in SPECIALS:
            raise EmulationError(f"the special register %{name} is not supported")
        return f"R[{self._registers + SPECIALS.index(name)}]"


class Program:
    """One launch: entry, extents, parameters and the places of variables.

    cluster: CTAs that form one; cluster_extents: in x, y, z. CTAs are numbered cluster by cluster, and within one by rank.
    overlaps: the launch may begin before the one before it ends. asynchronous: the entry has mbarriers, wgmma, bulk copies,
    clusters, flags or barriers of a part of the CTA, or overlaps.
    Raises EmulationError where the parameter block has another size than the entry declares.
    """

    def __init__(
        self, module: Module, entry: Entry, grid: Dim, block: Dim, dynamic_smem: int, params: bytes, memory: GlobalMemory,
        cluster: Dim = (1, 1, 1), overlaps: bool = False,
    ):  # fmt: skip
        self.module, self.entry, self.grid, self.block, self.memory = module, entry, grid, block, memory
        self.params, self.dynamic_smem, self.cluster_extents = params, dynamic_smem, cluster
        self.overlaps = overlaps
        self.cluster = cluster[0] * cluster[1] * cluster[2]
        facts = _facts_of(entry)
        self.asynchronous = self.cluster > 1 or overlaps or facts.asynchronous
        if not 1 <= self.cluster <= _MOST_CLUSTER_CTAS:
            raise EmulationError(f"clusters of {_extents(cluster)} CTAs: they have 1 to {_MOST_CLUSTER_CTAS} CTAs")
        if any(g % c for g, c in zip(grid, cluster, strict=True)):
            raise EmulationError(f"a grid of {_extents(grid)} CTAs is no whole number of clusters of {_extents(cluster)}")
        self.threads = block[0] * block[1] * block[2]
        self.padded_threads = -(-self.threads // 32) * 32
        self.cta_count = grid[0] * grid[1] * grid[2]
        if len(params) != entry.param_bytes:
            raise EmulationError(f"{entry.name} takes {entry.param_bytes} bytes of parameters, not {len(params)}")
        if self.threads > 1024:
            raise EmulationError(f"a CTA of {self.threads} threads; at most 1024 are possible")
        self._variables = {v.name: v for v in (*module.variables, *entry.variables)}
        self.places = Places(entry, frozenset(v.name for v in self._variables.values() if v.space in ("global", "const")))
        used = facts.names
        self.shared_bytes = self._place_shared(used)
        self.local_bytes = self._place("local", used, 0)
        if self.shared_bytes > _SHARED_MAX:
            raise EmulationError(f"{entry.name} needs {self.shared_bytes} bytes of shared memory; no GPU has that")
        for variable in (*self._of("global", used), *self._of("const", used)):
            self.address_of(variable.name)
        self.shared_granule = facts.shared_granule
        # TMA clips boxes at elements of any size.
        self.global_granule = 1 if self.asynchronous else facts.global_granule

    def _place_shared(self, used: frozenset[str]) -> int:
        """Static variables first, then the dynamic ones, which all begin at the same byte."""
        end = self._place("shared", used, 0)
        dynamic = [v for v in self._of("shared", used) if v.external]
        alignment = max((v.alignment for v in dynamic), default=1)
        start = -(-end // alignment) * alignment
        for variable in dynamic:
            self.places.known[variable.name] = start
        return (start if dynamic else end) + self.dynamic_smem

    def _of(self, space: str, used: frozenset[str]) -> list[Variable]:
        return [v for v in self._variables.values() if v.space == space and v.name in used]

    def _place(self, space: str, used: frozenset[str], end: int) -> int:
        for variable in self._of(space, used):
            if not variable.external:
                end = -(-end // variable.alignment) * variable.alignment
                self.places.known[variable.name] = end
                end += variable.size
        return end

    def address_of(self, name: str) -> int:
        """The address of a variable in global or constant memory; several launches on one memory share it."""
        allocations = self.memory.allocations
        if name not in allocations:
            variable = self._variables[name]
            data = variable.data.ljust(variable.size, b"\0")
            self.memory.allocate(name, data, writable=variable.space == "global")
        return allocations[name].address


def _extents(dim: Dim) -> str:
    return " x ".join(map(str, dim))


@dataclass(frozen=True)
class _Facts:
    """Facts of an entry that do not depend on the launch. names: of the variables that they use. granules: bytes of the
    smallest access."""

    names: frozenset[str]
    asynchronous: bool
    shared_granule: int
    global_granule: int


_FACTS: WeakKeyDictionary[Entry, _Facts] = WeakKeyDictionary()


def _facts_of(entry: Entry) -> _Facts:
    """The facts of an entry, kept as long as the entry is."""
    if entry not in _FACTS:
        names: set[str] = set()
        for i in entry.instructions:
            for operand in i.operands:
                _collect_names(operand, names)
        asynchronous = any(map(is_asynchronous, entry.instructions))
        sizes = [(i, size) for i in entry.instructions if (size := access_size(i))]
        shared, device = (min((s for i, s in sizes if may_access(i, space)), default=16) for space in ("shared", "global"))
        _FACTS[entry] = _Facts(frozenset(names), asynchronous, shared, device)
    return _FACTS[entry]


def _collect_names(operand: Operand | None, names: set[str]) -> None:
    if isinstance(operand, (Name, Symbol)):
        names.add(operand.name)
    elif isinstance(operand, Vector):
        for element in operand.elements:
            _collect_names(element, names)
    elif isinstance(operand, Address):
        _collect_names(operand.base, names)
