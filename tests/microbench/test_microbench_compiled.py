"""Peak loops as nvcc compiles them: one that is broken costs itself alone, and in the emulator the sums are as predicted."""

from __future__ import annotations

import re
import resource
import struct
from dataclasses import replace

import numpy as np
import pytest

from mmagen import emulate
from mmagen.core.process import capture
from mmagen.core.templates import templates_folder
from mmagen.families.peak import loops
from mmagen.microbench import program
from mmagen.mma.catalogue import find, select
from mmagen.toolchain.find import COMPILE, find_toolchain

pytestmark = pytest.mark.nvcc

SPARSE = "SM90::GMMA::SPARSE::GMMA_64x8x32_F32F16F16_SS"
BATCH = (
    "SM80_16x8x16_F32BF16BF16F32_TN",
    "SM80_16x8x32_S32U8U8S32_TN",
    "SM90_64x16x16_F32BF16BF16_SS",
    "SM90_64x16x32_F16E4M3E4M3_RS_TN",
    SPARSE,
)
# Of sm_120a: elements of 4 and 6 bits in a byte each; packed ones, and ones of a sparse A, have scale factors besides.
NARROW = (
    "SM120_16x8x32_TN<float_e2m1_t,float_e3m2_t,float>",
    "SM120_16x8x32_TN<float_e2m3_t,float_e2m1_t,half_t>",
    "SM120::BLOCKSCALED::SM120_16x8x64_TN_VS<float_e2m1_t,float_e2m1_t,float,float_ue4m3_t,16>",
    "SM120::BLOCKSCALED::SPARSE::SM120_SPARSE_16x8x64_TN_VS<float_e4m3_t,float_e2m1_t,float,float_ue8m0_t,64>",
)
# Enough to read the names and limits of C++'s enumeration off its definition.
_ELEMENTS = re.search(r"enum class Element \{([^}]*)\}", (templates_folder() / "runtime/peak/element.cuh").read_text())[1]
ELEMENTS = {name.strip()[1:]: number for number, name in enumerate(_ELEMENTS.split(","))}


@pytest.fixture(scope="module")
def toolchain():
    return find_toolchain(want=COMPILE)


def test_a_loop_that_does_not_compile_leaves_the_others(tmp_path, toolchain):
    good = [loops.loop(find(name), "sm_90a") for name in ("SM90_64x8x16_F32BF16BF16_SS", SPARSE)]
    broken = replace(good[0], name="broken", kernels=((1, 8, "wgmma_loop<cute::NoSuchThing, 8, 1, 8, 512>"),))
    env = {"MMAGEN_CACHE_DIR": str(tmp_path), "PATH": "/usr/bin:/bin"}
    made = program.build([good[0], broken, good[1]], "sm_90a", toolchain, jobs=2, env=env)
    assert list(made.failed) == ["broken"] and "NoSuchThing" in made.failed["broken"] and not made.warnings
    listed = capture([made.path, "--list"], timeout_s=60).stdout.split()
    assert sorted(listed) == sorted(loop.name for loop in good)
    again = program.build(good, "sm_90a", toolchain, env=env)
    assert again.path == made.path and again.seconds == 0  # what compiled was kept
    assert program.build([good[0], broken, good[1]], "sm_90a", toolchain, env=env).failed == made.failed  # what did not was not


@pytest.mark.more
def test_a_hundred_loops_compile_in_a_minute_of_two_cores(tmp_path, toolchain):
    """CPU time of all children, user and system together: who else works on the machine matters little."""
    kinds: dict[tuple, list] = {}
    for operation in select(target="sm_90a"):
        if not loops.refusal(operation):
            width = operation.kind == "wgmma" and (operation.n > 32) + (operation.n > 128)
            kind = operation.family, operation.kind, operation.sparse, operation.places["A"], width
            kinds.setdefault(kind, []).append(operation)
    sample = list(dict.fromkeys(found[i * len(found) // 3] for found in kinds.values() for i in range(3)))
    assert len(kinds) == 18 and len(sample) == 51
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    made = program.build(
        [loops.loop(operation, "sm_90a") for operation in sample],
        "sm_90a",
        toolchain,
        env={"MMAGEN_CACHE_DIR": str(tmp_path), "PATH": "/usr/bin:/bin"},
    )
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    assert made.path and not made.failed
    seconds = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    assert 2 * 60 / seconds * len(sample) >= 100, f"{len(sample)} loops took {seconds:.1f} s of CPU time"


@pytest.fixture(scope="module")
def module(toolchain, made_once):
    """All loops of BATCH and the filling kernel as PTX; its clocks stand still."""
    return _emulated(made_once("microbench", lambda folder: _compile_batch(folder, toolchain, BATCH, "sm_90a")))


@pytest.fixture(scope="module")
def narrow(toolchain, made_once):
    """The same of NARROW."""
    return _emulated(made_once("microbench-narrow", lambda folder: _compile_batch(folder, toolchain, NARROW, "sm_120a")))


def _emulated(folder):
    text = (folder / "unit.ptx").read_text()
    return emulate.parse(re.sub(r"%(clock64|globaltimer)\b", "0", text), "unit.ptx")


def _compile_batch(folder, toolchain, names, target):
    found = [loops.loop(find(name), target) for name in names]
    headers = dict.fromkeys(header for loop in found for header in loop.headers)
    calls = "".join(f"  {loop.kernels[-1][2]}<<<1, 1>>>(x);\n" for loop in found)
    unit = (
        "".join(f"#include <{header}>\n" for header in headers) + '#include "mmagen/fill_operands.cuh"\n'
        '#include "mmagen/register_loop.cuh"\n#include "mmagen/wgmma_loop.cuh"\nusing namespace mmagen::peak;\n'
        "void all(LoopArguments x) {\n"
        f"  fill_kernel<<<1, 1>>>(Element::kF16, Fill{{}}, 0, 0, 0, false, nullptr);\n{calls}}}\n"
    )
    (folder / "unit.cu").write_text(unit)
    program.lay_out(folder, unit)
    done = capture(
        [
            toolchain.nvcc.path,
            "-std=c++17",
            "-DNDEBUG",
            "--expt-relaxed-constexpr",
            f"-arch={target}",
            "-ptx",
            *(f"-I{folder / name}" for name in program.INCLUDES),
            "-isystem",
            toolchain.cutlass.path,
            "-o",
            "unit.ptx",
            "unit.cu",
        ],
        timeout_s=None,
        cwd=folder,
    )
    assert done.exit_code == 0, done.stderr


def fill(module, element: str, drawn: bool, limit: int, constant: int, seed: int, parts: int, words: int, turned: bool):
    memory = emulate.GlobalMemory()
    out = memory.allocate("out", size=4 * parts * words)
    params = struct.pack("<i?xxxiiIii?xxxQ", ELEMENTS[element], drawn, limit, constant, seed, parts, words, turned, out)
    (entry,) = [name for name in module.entries if "fill_kernel" in name]
    emulate.launch(module, entry, grid=4, block=128, params=params, memory=memory, checks=False)
    return memory.read("out")


def digests(module, loop: loops.Loop, a, b, blocks: int, alone: bool = False) -> np.ndarray:
    operation = find(loop.name)
    threads = loop.threads
    memory = emulate.GlobalMemory()
    pointers = [
        memory.allocate("a", a),
        memory.allocate("b", b),
        memory.allocate("e", size=4 * threads),
        memory.allocate("digests", size=4 * threads),
        memory.allocate("clocks", size=16),
    ]
    struct_name = operation.struct.rpartition("::")[2].partition("<")[0]
    types = re.findall(r"float_\w+", operation.name)  # the name of an entry has them in this order
    has = re.compile(f"{len(struct_name)}{struct_name}\\D" + ".*".join(["", *types]))
    (entry,) = [name for name in module.entries if has.search(name)]
    emulate.launch(
        module,
        entry,
        grid=1,
        block=threads,
        dynamic_smem=loop.smem_bytes,
        memory=memory,
        params=struct.pack("<IIQQQQQ", blocks, alone, *pointers),
    )
    return np.frombuffer(memory.read("digests").tobytes(), np.uint32)


def operands(module, loop: loops.Loop, drawn: bool, alternate: bool):
    a_words = (4, loop.words_a * loop.threads) if loop.words_a else (2, 64 * 32)
    b_words = (4, loop.words_b * loop.threads) if loop.words_b else (2, (loop.smem_bytes // 256 - 64) * 32)
    signed = loop.sums == "Return"
    a = fill(module, loop.element_a, drawn, loop.limit_a, 1, 0, *a_words, alternate and signed)
    return a, fill(module, loop.element_b, drawn, loop.limit_b, 1, 1 << 24, *b_words, False)


@pytest.mark.parametrize("name", NARROW[:2])  # the emulator knows no scale factors
def test_sums_of_narrow_elements_are_what_one_block_predicts(narrow, name):
    loop = loops.loop(find(name), "sm_120a")
    a, b = operands(narrow, loop, drawn=True, alternate=True)
    one, two, three = (digests(narrow, loop, a, b, blocks) for blocks in (1, 2, 3))
    assert np.all(one != 0) and np.all(two == 0) and np.array_equal(three, one)


def test_scale_factors_of_narrow_elements_are_ones(narrow):
    scaled = [text for text in narrow.entries if "VS" in text]
    assert len(scaled) == 2
    assert {loops.loop(find(name), "sm_120a").kernels[0][2].split(", ")[-1] for name in NARROW[2:]} == {
        "0x38383838u>",
        "0x7f7f7f7fu>",
    }


def test_a_wgmma_alone_adds_each_time(module):
    name = BATCH[2]
    loop = loops.loop(find(name), "sm_90a")
    a, b = operands(module, loop, drawn=False, alternate=False)
    wanted = np.zeros(loop.kernels[-1][0] * loop.accumulator_words, np.uint64)
    wanted[: loop.accumulator_words] = np.float32(3 * loop.products).view(np.uint32)
    weights = 2 * np.arange(len(wanted), dtype=np.uint64) + 1
    assert set(digests(module, loop, a, b, 3, alone=True).tolist()) == {int((wanted * weights).sum()) % 2**32}


# The emulator knows no sparse wgmma.
@pytest.mark.parametrize("name", BATCH[:-1])
def test_sums_are_what_one_block_predicts(module, name):
    loop = loops.loop(find(name), "sm_90a")
    a, b = operands(module, loop, drawn=True, alternate=True)
    one, two, three = (digests(module, loop, a, b, blocks) for blocks in (1, 2, 3))
    assert np.all(one != 0)
    if loop.sums == "Return":
        assert np.all(two == 0) and np.array_equal(three, one)
    else:
        assert np.array_equal(two, 2 * one) and np.array_equal(three, np.uint32(3) * one)


@pytest.mark.parametrize("name", BATCH[:-1])
def test_ones_count_the_products(module, name):
    operation, loop = find(name), loops.loop(find(name), "sm_90a")
    a, b = operands(module, loop, drawn=False, alternate=False)
    count, steps, _ = loop.kernels[-1]
    value = 2 * steps * loop.products
    word = {
        "f32": lambda: np.float32(value).view(np.uint32),
        "s32": lambda: np.uint32(value),
        "f16": lambda: np.float16([value, value]).view(np.uint32)[0],
    }[operation.type_d]()
    weights = 2 * np.arange(count * loop.accumulator_words, dtype=np.uint64) + 1
    assert set(digests(module, loop, a, b, 2).tolist()) == {int(weights.sum()) * int(word) % 2**32}
