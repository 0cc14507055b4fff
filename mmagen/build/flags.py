"""What a project's CMakeLists.txt has nvcc compile with, beyond what every generated one says."""

from __future__ import annotations

import re
from collections.abc import Iterator

# Commands that add options or definitions, whatever target they name; those in the body of an if() depend on what CMake finds.
_COMMAND = re.compile(
    r"\b(target_compile_options|add_compile_options|target_compile_definitions|add_compile_definitions|add_definitions"
    r"|set|string|if|endif)\s*\(((?:[^()\"]|\"[^\"]*\"|\([^()]*\))*)\)",
    re.IGNORECASE,
)
_COMMENT = re.compile(r"(?m)#.*$")
_OF_CUDA = re.compile(r"\$<\$<COMPILE_LANGUAGE:CUDA>:([^<>]*)>")
_CONDITIONAL = re.compile(r"\$<(?:[^<>]|<(?:[^<>]|<[^<>]*>)*>)*>")
_FLAGS_OF_CUDA = re.compile(r"\s*(?:APPEND\s+)?CMAKE_CUDA_FLAGS(?:_RELEASE)?\s")
_SCOPES = {"PRIVATE", "PUBLIC", "INTERFACE", "BEFORE"}
# Options that change PTX, each a single word. Others are for the host compiler, ptxas or warnings, or every project has them.
_CHANGES_PTX = re.compile(r"(SHELL:)?(--?(use_fast_math|(ftz|prec-div|prec-sqrt|fmad)=\w+)|-[DU]\w.*)")


def options(cmake: str) -> tuple[str, ...]:
    """The options and definitions that a CMakeLists.txt adds for CUDA and that change PTX, as words of nvcc's command line. Not
    those that CMake variables hold, nor those of commands in the body of an if()."""
    return tuple(dict.fromkeys(_words(_COMMENT.sub("", cmake))))


def _words(text: str) -> Iterator[str]:
    depth = 0
    for match in _COMMAND.finditer(text):
        command, given = match[1].lower(), match[2]
        if command in ("if", "endif"):
            depth += 1 if command == "if" else -1
        elif depth == 0 and command in ("set", "string"):
            if _FLAGS_OF_CUDA.match(given):
                yield from _chosen(given)
        elif depth == 0:
            of_target = command.startswith("target_")
            yield from _chosen(given, definitions="definitions" in command, skip=int(of_target))


def _chosen(given: str, *, definitions: bool = False, skip: int = 0) -> Iterator[str]:
    """The options among the words of a command behind the first `skip`."""
    plain = _CONDITIONAL.sub(" ", _OF_CUDA.sub(r" \1 ", given))
    for quoted in plain.split()[skip:]:
        # The quotes of a string are CMake's, those inside of a definition its value's.
        word = quoted.strip('"') if quoted.startswith('"') or quoted.count('"') == 1 else quoted
        if "$" in word or word in _SCOPES or word in ("NDEBUG", "-D"):
            continue
        if definitions:
            yield word if word.startswith("-D") else f"-D{word}"
        elif _CHANGES_PTX.fullmatch(word):
            yield word.removeprefix("SHELL:")
