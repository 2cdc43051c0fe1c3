"""What is in a compiled library of another system: for which processor and system it is, and what it exports."""

import re
import struct
from functools import cache
from pathlib import Path

NATIVE = Path(__file__).parents[2] / "mpc" / "parley" / "mpc" / "native"
MACHINES = {"x86_64": (62, 0x01000007), "arm64": (183, 0x0100000C), "aarch64": (183, 0x0100000C)}
"""In the header of an ELF file, and of a Mach-O one."""

LINKERS = {"_mh_dylib_header", "__dso_handle"}
"""What a Mac's linker adds."""


@cache
def functions(source: str) -> frozenset[str]:
    """Those that a source marks as exported."""
    return frozenset(re.findall(r"^EXPORT[^(;]*?\b(\w+)\(", (NATIVE / source).read_text(), re.MULTILINE))


def _text(data: bytes, at: int) -> str:
    return data[at : data.index(b"\0", at)].decode()


def require_elf(data: bytes, machine: str, exports: frozenset[str]) -> None:
    """Of Linux, for glibc 2.28 or older ones."""
    assert data[:5] == b"\x7fELF\x02"
    assert int.from_bytes(data[16:20], "little") == 3 | MACHINES[machine][0] << 16  # a library, of this processor
    assert max([int(each) for each in re.findall(rb"GLIBC_2\.(\d+)", data)], default=0) <= 28
    (start,), (size, count) = struct.unpack_from("<Q", data, 0x28), struct.unpack_from("<2H", data, 0x3A)
    sections = [struct.unpack_from("<2I4Q2I2Q", data, start + size * each) for each in range(count)]
    (symbols,) = (each for each in sections if each[1] == 11)  # those for the dynamic linker
    names, found = sections[symbols[6]][4], set()
    for at in range(symbols[4], symbols[4] + symbols[5], 24):
        name, kind, _, section = struct.unpack_from("<IBBH", data, at)
        if kind >> 4 and section:
            found.add(_text(data, names + name))
    assert found == exports


def require_mach_o(data: bytes, machine: str, exports: frozenset[str], name: str) -> None:
    """Of a Mac, for macOS 11 or later; it knows no folder, and is signed: an ARM Mac loads no other."""
    magic, processor, _, kind, count, _, _, _ = struct.unpack_from("<8I", data)
    assert (magic, processor, kind) == (0xFEEDFACF, MACHINES[machine][1], 6)  # 64 bits, a library
    page, commands, at = {"arm64": 1 << 14}.get(machine, 1 << 12), {}, 32
    for _ in range(count):
        command, size = struct.unpack_from("<2I", data, at)
        commands[command] = data[at : at + size]
        if command == 0x19:  # a segment: its address, and where it lies in the file
            address, _, offset = struct.unpack_from("<3Q", data, at + 24)
            assert address % page == offset % page == 0
        at += size
    first, symbols, names, _ = struct.unpack_from("<4I", commands[0x2], 8)
    assert names % 8 == 0  # macOS 27 refuses others
    found = set()
    for each in range(symbols):
        symbol, sort, _, _, _ = struct.unpack_from("<IBBHQ", data, first + 16 * each)
        if sort & 0x0F == 0x0F:  # external, and in a section here
            found.add(_text(data, names + symbol).removeprefix("_"))
    assert found - LINKERS == exports
    assert commands[0xD][24:].rstrip(b"\0") == name.encode()  # its name, without the builder's folder
    assert struct.unpack_from("<2I", commands[0x32], 8) == (1, 11 << 16)  # for macOS 11.0 and later
    assert (0x1D in commands) or machine != "arm64", "not signed"
