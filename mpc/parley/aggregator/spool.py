"""Where a party's share waits for its round: short ones in memory, long ones on disk, sealed under a key of its own.

A file of the spool has no name: its room is the disk's again when it is closed, by whatever ends the process, and no
backup and no restart can come upon it. Its key is drawn for one upload and is in memory only, so what is left on the
disk's surface is worthless to whoever takes it, beside the other server's disk too. Blocks are sealed one by one
(AES-256-GCM, numbered): what a disk changes is noticed before it is added to a sum.
"""

import errno
import os
import tempfile
from pathlib import Path
from typing import IO

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from parley.aggregator.refusals import CallWaitsError
from parley.federation.rounds import PIECE_BYTES
from parley.mpc import crash
from parley.mpc.packing import BLOCK_WORDS, packed_bytes
from parley.node import logs

SPOOLED_FROM = PIECE_BYTES + 1
"""Bytes of a payload: what takes more than one message. Below that a hundred parties' two rounds are 200 MB at most."""
SPARE_BYTES = 256 << 20
"""Of the disk, left to what must be written: the store of openings, its log, the trail."""
CANNOT_RESERVE = (errno.EOPNOTSUPP, errno.EINVAL)
"""Said by disks that reserve nothing: there an upload that does not fit is noticed amid its bytes."""
TAG_BYTES, NONCE_BYTES = 16, 12
log = logs.logger()
PREFIX = ".upload-"
"""Of the name that a file has for a moment where the disk knows none without: of those no backup takes any."""


class Room:
    """What uploads may take on this server, over all runs: of memory, and of its disk."""

    def __init__(self, folder: Path, most_bytes: int) -> None:
        self.folder, self._most, self.held = folder, most_bytes, 0
        self.disk_error = ""
        """Why the disk took no upload, until it has taken one."""
        for left in folder.glob(f"{PREFIX}*"):
            left.unlink(missing_ok=True)

    def take(self, size: int) -> None:
        """Reserve memory, or have the party come again when rounds were opened."""
        if self.held + size > self._most:
            raise CallWaitsError(
                f"uploads take {self.held:,} of {self._most:,} bytes on this server", "wait for rounds to be opened"
            )
        self.held += size

    def give_back(self, size: int) -> None:
        self.held -= size

    def full(self, error: str) -> CallWaitsError:
        """The party comes again later, and this server's status says why."""
        what = f"this server's disk takes no upload now ({error})"
        if not self.disk_error:
            log.warning("uploads wait for room on the disk", error=what)
        self.disk_error = what
        return CallWaitsError(what, "free it, or wait for rounds to be opened")

    def store(self, size: int, bits: int) -> "InMemory | OnDisk":
        """For the numbers of one upload."""
        return OnDisk(self, size, bits) if size >= SPOOLED_FROM else InMemory(self, size, bits)


class InMemory:
    """Numbers as they came."""

    on_disk = False

    def __init__(self, room: Room, size: int, bits: int) -> None:
        room.take(size)
        self._room, self._size = room, size
        self._block = packed_bytes(BLOCK_WORDS, bits)
        self._held, self._end = bytearray(size), 0

    def append(self, data: memoryview) -> None:
        self._held[self._end : self._end + len(data)] = data
        self._end += len(data)

    def block(self, index: int) -> memoryview:
        """Of BLOCK_WORDS numbers; the last one of what is left."""
        return memoryview(self._held)[index * self._block :][: self._block]

    def restart(self) -> None:
        """Overwritten: what comes next is the first byte."""
        self._held[:] = bytes(len(self._held))
        self._end = 0

    def erase(self) -> None:
        self.restart()
        self._room.give_back(self._size)
        self._size = 0


class OnDisk:
    """Numbers in a file without a name, each block sealed as it is full."""

    on_disk = True

    def __init__(self, room: Room, size: int, bits: int) -> None:
        self._room, self._size = room, size
        self._block = packed_bytes(BLOCK_WORDS, bits)
        self._file: IO[bytes] | None = None
        room.take(self._block)
        self.restart()

    def append(self, data: memoryview) -> None:
        """It may wait for the disk."""
        try:
            self._file = self._file or self._made()
            while data:
                taken = data[: self._block - len(self._partial)]
                self._partial += taken
                data = data[len(taken) :]
                self._end += len(taken)
                if len(self._partial) == self._block or self._end == self._size:
                    self._write(self._file)
        except OSError as error:
            raise self._room.full(error.strerror or str(error)) from None
        self._room.disk_error = ""

    def _made(self) -> IO[bytes]:
        """Its room is reserved, so that a disk is full before the first byte and not amid them."""
        size = self._size + -(-self._size // self._block) * TAG_BYTES
        free = os.statvfs(self._room.folder)
        if free.f_bavail * free.f_frsize < size + SPARE_BYTES:
            left = f"{free.f_bavail * free.f_frsize:,} bytes are left and {size + SPARE_BYTES:,} needed"
            raise OSError(errno.ENOSPC, left)
        made = tempfile.TemporaryFile(prefix=PREFIX, dir=self._room.folder, buffering=0)  # noqa: SIM115 (until erased)
        try:
            os.posix_fallocate(made.fileno(), 0, size)
        except OSError as error:
            if error.errno not in CANNOT_RESERVE:
                made.close()
                raise
        return made

    def _write(self, file: IO[bytes]) -> None:
        """The block that is full: under one key each number is used once."""
        index = (self._end - 1) // self._block
        sealed = self._key.encrypt(index.to_bytes(NONCE_BYTES, "big"), bytes(self._partial), None)
        if os.pwrite(file.fileno(), sealed, index * (self._block + TAG_BYTES)) != len(sealed):
            raise OSError(errno.ENOSPC, "a part of a block was written")
        self._forget_partial()
        crash.point("aggregator.spooled")

    def block(self, index: int) -> bytes:
        """Of BLOCK_WORDS numbers; the last one of what is left."""
        size = min(self._block, self._size - index * self._block) + TAG_BYTES
        try:
            if self._file is None:
                raise OSError(errno.ENOENT, "it is erased")
            sealed = os.pread(self._file.fileno(), size, index * (self._block + TAG_BYTES))
            return self._key.decrypt(index.to_bytes(NONCE_BYTES, "big"), sealed, None)
        except (OSError, InvalidTag) as error:
            raise self._room.full(f"a block is not what was written: {type(error).__name__}") from None

    def restart(self) -> None:
        """What comes next is the first byte, under a new key."""
        self._key = AESGCM(AESGCM.generate_key(256))
        self._partial, self._end = bytearray(), 0

    def erase(self) -> None:
        """The key is forgotten, and the disk has its room back."""
        if self._size:
            self._forget_partial()
            self.restart()
            if self._file is not None:
                self._file.close()
                self._file = None
            self._room.give_back(self._block)
            self._size = 0

    def _forget_partial(self) -> None:
        self._partial[:] = bytes(len(self._partial))
        self._partial.clear()
