"""The port between replicas, which clickhouse-server opens and clickhouse-local, the program in chDB's wheel, does not.

A node whose parts other nodes fetch needs three things that only the start of clickhouse-server does: an address that
it tells the others, handlers of the protocol between servers on a port, and credentials of that protocol, here empty.
They are put into the code of the running process, whose bytes are compared first. The offsets are those of one wheel,
so ``is_possible`` says whether it is this one.
"""

from __future__ import annotations

import ctypes
import platform
import struct
from importlib.metadata import version
from pathlib import Path
from typing import Final

WHEEL: Final = "26.9.0"
MACHINE: Final = "x86_64"

ADDRESS_GETTER: Final = 0x147217C0
"""``Context::getInterserverIOAddress``. The function is long enough for what replaces it and the code of ``CHOOSER``."""

ADDRESS_GETTER_BYTES: Final = bytes.fromhex("415653 4883ec48 4c8b36")
CHOOSER: Final = ADDRESS_GETTER + 0x60
"""Where the code stands that chooses the handlers of a listener: HTTP, the next time those between servers, and so on."""

EMPTY_TEXTS: Final = ADDRESS_GETTER + 0x90
HTTP_HANDLERS: Final = 0x190976B1
INTERSERVER_HANDLERS: Final = 0x19097446
JUMP_TO_HTTP: Final = 0x190973C0
CREDENTIALS_LOAD: Final = 0x1860F7C0
CREDENTIALS_LOAD_BYTES: Final = bytes.fromhex("488b83c000000080 7817000f88")
READ_WRITE_EXECUTE: Final = 7
READ_EXECUTE: Final = 5
SHORT_TEXT_BYTES: Final = 24
"""A text of up to 22 bytes in libc++ is stored in place, with its length last."""

_counter: Final = ctypes.create_string_buffer(8)
"""How many listeners were started; the code has its address."""


def is_possible() -> bool:
    """Whether this machine has the wheel whose offsets are known."""
    return platform.machine() == MACHINE and version("chdb-core") == WHEEL


def open_interserver(library: str, host: str, port: int) -> None:
    """Make this process tell other nodes ``host:port``, and give each second HTTP listener the handlers of replicas.

    ``library`` is the path of the extension, which is loaded. Raises ``RuntimeError`` if its bytes are others.
    """
    base = _base_of(library)
    code = _address_code(host, port)
    jump = b"\x0f\x84"  # je
    _replace(base + ADDRESS_GETTER, ADDRESS_GETTER_BYTES, code.ljust(CHOOSER - ADDRESS_GETTER, b"\xcc") + _chooser())
    _replace(
        base + JUMP_TO_HTTP, jump + _offset(JUMP_TO_HTTP + 6, HTTP_HANDLERS), jump + _offset(JUMP_TO_HTTP + 6, CHOOSER)
    )
    _replace(base + EMPTY_TEXTS, b"", bytes(2 * SHORT_TEXT_BYTES))
    load_address = b"\x48\x8d\x05" + _offset(CREDENTIALS_LOAD + 7, EMPTY_TEXTS)  # lea rax, [rip + …]
    _replace(base + CREDENTIALS_LOAD, CREDENTIALS_LOAD_BYTES, load_address)


def _address_code(host: str, port: int) -> bytes:
    """Return code that writes the host as a short text and the port to the result, and ``http`` to the context."""
    text = host.encode().ljust(SHORT_TEXT_BYTES - 1, b"\0") + bytes([len(host)])
    code = b""
    for first in range(0, SHORT_TEXT_BYTES, 8):
        store = b"\x48\x89\x07" if first == 0 else b"\x48\x89\x47" + bytes([first])
        code += b"\x48\xb8" + text[first : first + 8] + store  # mov rax, text; mov [rdi + first], rax
    code += b"\x48\x8b\x06"  # mov rax, [rsi]
    code += b"\xc7\x80" + struct.pack("<I", 0x170) + b"http"  # mov dword [rax + 0x170], "http"
    code += b"\xc6\x80" + struct.pack("<I", 0x187) + b"\x04"  # mov byte [rax + 0x187], 4
    code += b"\x66\xc7\x47\x18" + struct.pack("<H", port)  # mov word [rdi + 24], port
    return code + b"\x48\x89\xf8\xc3"  # mov rax, rdi; ret


def _chooser() -> bytes:
    code = b"\x48\xb8" + struct.pack("<Q", ctypes.addressof(_counter))  # mov rax, counter
    code += b"\xff\x00\xf6\x00\x01"  # inc dword [rax]; test byte [rax], 1
    code += b"\x0f\x85" + _offset(CHOOSER + len(code) + 6, HTTP_HANDLERS)  # jnz
    return code + b"\xe9" + _offset(CHOOSER + len(code) + 5, INTERSERVER_HANDLERS)  # jmp


def _offset(after: int, target: int) -> bytes:
    return struct.pack("<i", target - after)


def _base_of(library: str) -> int:
    mapped = [line for line in Path("/proc/self/maps").read_text().splitlines() if line.endswith(library)]
    return min(int(line.split("-")[0], 16) for line in mapped)


def _replace(address: int, expected: bytes, new: bytes) -> None:
    if ctypes.string_at(address, len(expected)) != expected:
        raise RuntimeError(f"the code at {address:#x} is another one: {ctypes.string_at(address, 16).hex()}")
    page_bytes = 4096
    first = address // page_bytes * page_bytes
    size = -(-(address + len(new) - first) // page_bytes) * page_bytes
    protect = ctypes.CDLL(None, use_errno=True).mprotect
    for protection in (READ_WRITE_EXECUTE, READ_EXECUTE):
        if protect(ctypes.c_void_p(first), ctypes.c_size_t(size), protection):
            raise OSError(ctypes.get_errno(), "mprotect")
        if protection == READ_WRITE_EXECUTE:
            ctypes.memmove(address, new, len(new))
