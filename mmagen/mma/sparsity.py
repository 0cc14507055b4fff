"""The compressed form of a sparse A on numpy: the reference for what the libraries' functions do (sparse_format.cuh).

It is derived from the catalogue's layouts of metadata, which the emulator and the recorded results of an H200 agree with
(tests/emulate/recorded), not from the C++ code.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import numpy.typing as npt

from mmagen.mma import catalogue
from mmagen.mma.sparse_atoms import PAD_BLOCKS, ROWS, WORDS, SparseAtom

Codes = npt.NDArray[Any]
Magnitudes = npt.NDArray[np.float64]

_GROUPS = 8  # whose metadata one word has
_ONE_OF_TWO = np.array([0b0100, 0b1110], np.uint32)  # PTX ISA, sparse .tf32


def columns_stored(atom: SparseAtom, k: int) -> int:
    """Elements of a row of values."""
    return -(-k // atom.group) * atom.kept


def blocks(atom: SparseAtom, m: int, k: int) -> tuple[int, int]:
    """Blocks of metadata along M, and along K with the padding."""
    return -(-m // ROWS), -(-k // (atom.block_k * PAD_BLOCKS)) * PAD_BLOCKS


def metadata_words(atom: SparseAtom, m: int, k: int) -> int:
    """32-bit words of the metadata of one matrix."""
    rows, columns = blocks(atom, m, k)
    return rows * columns * WORDS


def kept(atom: SparseAtom, magnitudes: Magnitudes) -> npt.NDArray[np.bool_]:
    """Which elements (..., m, k) are stored: of each group those of largest magnitude, of equal ones the first. A NaN is larger
    than every number."""
    *lead, k = magnitudes.shape
    padded = np.full((*lead, -(-k // atom.group) * atom.group), 0.0)
    padded[..., :k] = np.where(np.isnan(magnitudes), np.inf, magnitudes)
    nan = np.zeros(padded.shape, bool)
    nan[..., :k] = np.isnan(magnitudes)
    groups = padded.reshape(*lead, -1, atom.group)
    order = np.lexsort((-groups, ~nan.reshape(groups.shape)), axis=-1)[..., : atom.kept]
    chosen = np.zeros(groups.shape, bool)
    np.put_along_axis(chosen, order, True, axis=-1)
    result: npt.NDArray[np.bool_] = chosen.reshape(*lead, -1)
    return result


def compress(atom: SparseAtom, codes: Codes, stored: npt.NDArray[np.bool_]) -> tuple[Codes, npt.NDArray[np.uint32]]:
    """(values (batch, m, columns_stored), metadata (batch, words)) of codes (batch, m, k). stored: of `kept`."""
    batch, m, k = codes.shape
    padded = np.zeros((batch, m, stored.shape[2]), codes.dtype)
    padded[..., :k] = codes
    values = padded[stored].reshape(batch, m, columns_stored(atom, k))
    nibbles = _nibbles(atom, stored.reshape(batch, m, -1, atom.group))
    rows, columns = blocks(atom, m, k)
    # Behind the matrix metadata are those of zeros.
    every = np.full((batch, rows * ROWS, columns * atom.block_k // atom.group), 0b0100, np.uint32)
    every[:, :m, : nibbles.shape[2]] = nibbles
    tiles = every.reshape(batch, rows, ROWS, columns, -1).swapaxes(2, 3)  # batch, rows, columns, row, group
    row, group = _places(atom)
    shifts = 4 * np.arange(_GROUPS, dtype=np.uint32)
    words = np.bitwise_or.reduce(tiles[..., row, group] << shifts, axis=-1)
    return values, words.reshape(batch, -1)


def positions(atom: SparseAtom, metadata: npt.NDArray[np.uint32], m: int, k: int) -> npt.NDArray[np.intp]:
    """The column of each stored element: (batch, m, columns_stored). Raises ValueError for metadata that are not legal."""
    batch = len(metadata)
    rows, columns = blocks(atom, m, k)
    row, group = _places(atom)
    shifts = 4 * np.arange(_GROUPS, dtype=np.uint32)
    tiles = np.zeros((batch, rows, columns, ROWS, atom.block_k // atom.group), np.uint32)
    tiles[..., row, group] = (metadata.reshape(batch, rows, columns, WORDS, 1) >> shifts) & 15
    nibbles = tiles.swapaxes(2, 3).reshape(batch, rows * ROWS, -1)
    legal = ~np.isin(nibbles, illegal_codes(atom))
    if not legal.all():
        at = tuple(map(int, np.argwhere(~legal)[0]))
        raise ValueError(f"metadata {int(nibbles[at])} of (batch, row, group) {at} name no legal places")
    within = nibbles[..., None] >> 3 if atom.kept == 1 else np.stack((nibbles & 3, nibbles >> 2), axis=-1)
    first = np.arange(nibbles.shape[2])[:, None] * atom.group
    places: npt.NDArray[np.intp] = (first + within.astype(np.intp)).reshape(batch, rows * ROWS, -1)
    return places[:, :m, : columns_stored(atom, k)]


def illegal_codes(atom: SparseAtom) -> npt.NDArray[np.uint32]:
    """The codes of 4 bits that are not the metadata of any group."""
    codes = np.arange(16, dtype=np.uint32)
    legal = np.isin(codes, _ONE_OF_TWO) if atom.kept == 1 else (codes & 3) < (codes >> 2)
    return codes[~legal]


def decompress(atom: SparseAtom, values: Codes, metadata: npt.NDArray[np.uint32], k: int) -> Codes:
    """The matrices (batch, m, k) of values (batch, m, columns_stored) of any type and their metadata, which all may share."""
    batch, m, _ = values.shape
    places = np.broadcast_to(positions(atom, metadata, m, k), values.shape)
    full = np.zeros((batch, m, -(-k // atom.group) * atom.group), values.dtype)
    np.put_along_axis(full, places, values, axis=2)
    return full[..., :k]


def _nibbles(atom: SparseAtom, stored: npt.NDArray[np.bool_]) -> npt.NDArray[np.uint32]:
    """Metadata of groups (..., group)."""
    places = np.argsort(~stored, axis=-1, kind="stable")[..., : atom.kept].astype(np.uint32)
    if atom.kept == 1:
        return _ONE_OF_TWO[places[..., 0]]
    return places[..., 0] | places[..., 1] << np.uint32(2)


@cache
def _places(atom: SparseAtom) -> tuple[npt.NDArray[np.intp], npt.NDArray[np.intp]]:
    """(row, group along K) in a block, of the eight groups of each word: intp[WORDS, 8] each."""
    atom = atom.of_format
    operation = catalogue.find(atom.name)
    table = np.array(operation.layout("E").table(), np.intp)  # (thread, value) -> row + ROWS * column
    first = table[:, :: table.shape[1] // _GROUPS]
    column = first // ROWS
    if atom.selectors > 1:  # half of a quad's lanes have the metadata of the one instruction, the others those of the other
        column = column + (np.arange(WORDS)[:, None] % 4 // 2) * atom.k
    return first % ROWS, column // atom.group
