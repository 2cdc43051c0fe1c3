"""Large uploads wait on disk: sealed, without a name, exact when they are added, gone with the round or the process."""

import asyncio
import os
import resource
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import grpc
import numpy as np
import pytest

from parley.aggregator.opening import Contributions, summed
from parley.aggregator.opening_store import RefusedError
from parley.aggregator.refusals import CallRefusedError, CallWaitsError
from parley.aggregator.spool import PREFIX, SPOOLED_FROM, Room
from parley.aggregator.uploads import Upload
from parley.federation.manifest import Manifest
from parley.federation.rounds import PIECE_BYTES, commitment_a, half_a, numbers_in
from parley.mpc.randomness import Csprng
from parley.v1 import aggregator_pb2 as wire
from tests.support import documents
from tests.support.rounds_of_servers import STATE
from tests.support.servers import WAIT, Contribution, Federation, contributions, is_noised, query_of

LENGTH = 230_000
"""Packed to 39 bits: a little over a mebibyte."""
OWN = {"noise.security": "malicious", "noise.own": 1.0}
"""No noise session is waited for."""


def large(run: str = "large", **changes: Any) -> Manifest:
    fields = {"model.dimension": LENGTH, "rounds.uploads": "packed", **OWN, **changes}
    return documents.manifest(run=run, **fields)


def half_of(manifest: Manifest, seed: int, length: int = LENGTH) -> bytes:
    return half_a(bytes(32), Csprng(bytes([seed]) * 32).words(length), manifest.share_bits)


def request(manifest: Manifest, half: bytes, offset: int = 0, committed: bytes | None = None) -> wire.UploadRequest:
    return wire.UploadRequest(
        manifest_digest=manifest.digest,
        query_digest=query_of(0),
        commitment_a=committed or commitment_a(half),
        commitment_b=bytes(32),
        size=len(half),
        offset=offset,
        data=half[offset : offset + PIECE_BYTES],
    )


def upload_to(room: Room, manifest: Manifest, half: bytes) -> Upload:
    return Upload(manifest, 0, "hospital-a", request(manifest, half), room)


def sent(upload: Upload, manifest: Manifest, half: bytes, committed: bytes | None = None) -> wire.UploadResponse:
    async def go() -> wire.UploadResponse:
        answer = wire.UploadResponse()
        for offset in range(0, len(half), PIECE_BYTES):
            answer = await upload.add(request(manifest, half, offset, committed))
        return answer

    return asyncio.run(go())


def added(upload: Upload) -> Any:
    made = Contributions(LENGTH)
    upload.add_to(made)
    return summed(LENGTH, [share for _, share in made.shares.values()])


@pytest.fixture
def room(tmp_path: Path) -> Room:
    return Room(tmp_path, 1 << 30)


def test_what_was_sent_is_what_is_added_and_nothing_of_it_has_a_name_or_can_be_read(room: Room, tmp_path: Path) -> None:
    manifest = large()
    half = half_of(manifest, 1)
    assert len(half) > SPOOLED_FROM
    upload = upload_to(room, manifest, half)
    assert sent(upload, manifest, half).complete
    assert (added(upload) == numbers_in(half, LENGTH, manifest.share_bits)).all()
    assert (added(upload) == numbers_in(half, LENGTH, manifest.share_bits)).all()  # anew, after a crash of the other
    assert list(tmp_path.iterdir()) == []
    assert room.held < PIECE_BYTES
    file = upload._store._file  # type: ignore[union-attr]
    assert file is not None
    assert os.fstat(file.fileno()).st_mode & 0o777 == 0o600
    kept = os.pread(file.fileno(), 2 * len(half), 0)
    assert len(kept) > len(half) - 32
    assert not any(half[start : start + 16] in kept for start in range(0, len(half), 1000))
    upload.erase()
    assert room.held == 0
    assert file.closed
    with pytest.raises(RefusedError, match="not here any more"):
        added(upload)


def test_a_half_that_fits_into_one_message_stays_in_memory(room: Room) -> None:
    manifest = large()
    half = half_of(manifest, 1, 200_000)
    upload = upload_to(room, manifest, half)
    assert sent(upload, manifest, half).complete
    assert (room.held, upload._store.on_disk) == (len(half) - 32, False)


def test_what_was_not_committed_to_is_forgotten_and_comes_again_under_another_key(room: Room) -> None:
    manifest = large()
    half, other = half_of(manifest, 1), half_of(manifest, 2)
    upload = upload_to(room, manifest, half)
    answer = sent(upload, manifest, other, commitment_a(half))
    assert (answer.received, answer.complete, answer.rejection) == (0, False, 4)
    assert sent(upload, manifest, half).complete
    assert (added(upload) == numbers_in(half, LENGTH, manifest.share_bits)).all()


def test_a_call_that_is_given_up_amid_a_piece_leaves_what_the_next_one_goes_on_from(room: Room) -> None:
    manifest = large()
    half = half_of(manifest, 1)
    upload = upload_to(room, manifest, half)

    async def go() -> bool:
        for _ in range(3):
            call = asyncio.ensure_future(upload.add(request(manifest, half)))
            await asyncio.sleep(0)
            call.cancel()
            await asyncio.gather(call, return_exceptions=True)
        said = await upload.add(request(manifest, half))
        assert said.received == PIECE_BYTES
        return bool((await upload.add(request(manifest, half, PIECE_BYTES))).complete)

    assert asyncio.run(go())
    assert (added(upload) == numbers_in(half, LENGTH, manifest.share_bits)).all()


@pytest.fixture
def small_files() -> Iterator[None]:
    """A disk on which no file grows beyond 100,000 bytes."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, before[1]))
    yield
    resource.setrlimit(resource.RLIMIT_FSIZE, before)


def test_where_the_disk_is_full_the_party_comes_again_later(
    room: Room, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    manifest = large()
    half = half_of(manifest, 1)
    upload = upload_to(room, manifest, half)
    request.getfixturevalue("small_files")
    for _ in range(2):
        with pytest.raises(CallWaitsError, match="disk takes no upload"):
            sent(upload, manifest, half)
        assert (upload.received, upload.complete) == (0, False)
    assert "large" in room.disk_error
    assert list(tmp_path.iterdir()) == []
    limit = resource.getrlimit(resource.RLIMIT_FSIZE)[1]
    resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))
    assert sent(upload, manifest, half).complete
    assert room.disk_error == ""


@pytest.mark.parametrize("place", [0, 200_000, -1])
def test_a_block_that_the_disk_has_changed_is_in_no_sum_and_is_asked_for_again(room: Room, place: int) -> None:
    manifest = large()
    half = half_of(manifest, 1)
    upload = upload_to(room, manifest, half)
    assert sent(upload, manifest, half).complete
    file = upload._store._file  # type: ignore[union-attr]
    assert file is not None
    at = place % os.fstat(file.fileno()).st_size
    (byte,) = os.pread(file.fileno(), 1, at)
    os.pwrite(file.fileno(), bytes([byte ^ 1]), at)
    with pytest.raises(CallWaitsError, match="not what was written"):
        added(upload)
    assert (upload.complete, upload.received) == (False, 0)
    assert sent(upload, manifest, half).complete
    assert (added(upload) == numbers_in(half, LENGTH, manifest.share_bits)).all()


def test_blocks_put_in_one_anothers_place_are_noticed(room: Room) -> None:
    manifest = large()
    half = half_of(manifest, 1)
    upload = upload_to(room, manifest, half)
    assert sent(upload, manifest, half).complete
    file, size = upload._store._file, upload._store._block + 16  # type: ignore[union-attr]
    assert file is not None
    first, second = (os.pread(file.fileno(), size, place * size) for place in (0, 1))
    os.pwrite(file.fileno(), second + first, 0)
    with pytest.raises(CallWaitsError, match="not what was written"):
        added(upload)


def test_sizes_of_another_width_and_a_second_spelling_are_refused(room: Room) -> None:
    manifest = large("narrow", **{"model.dimension": 1000})
    half = half_of(manifest, 1, 1000)
    as_words = half_a(bytes(32), np.zeros(1000, np.uint64), 64)
    for wrong in (as_words, half + b"\0", half_of(manifest, 1, 1001), half[:32], b"x"):
        with pytest.raises(CallRefusedError, match="a payload of"):
            upload_to(room, manifest, wrong)
    odd = half_of(manifest, 1, 999)
    again = odd[:-1] + bytes([odd[-1] | 128])
    upload = upload_to(room, manifest, again)
    with pytest.raises(CallRefusedError, match="one form"):
        sent(upload, manifest, again)
    assert (upload.received, upload.complete) == (0, False)
    unpacked = documents.manifest(**{"model.dimension": 1000})
    with pytest.raises(CallRefusedError, match="64 bits"):
        upload_to(room, unpacked, half)


def test_what_a_crash_leaves_of_a_name_is_gone_at_the_start(tmp_path: Path) -> None:
    (tmp_path / f"{PREFIX}abc").write_bytes(b"")
    (tmp_path / "openings.sqlite").write_bytes(b"kept")
    Room(tmp_path, 1)
    assert [path.name for path in tmp_path.iterdir()] == ["openings.sqlite"]


# ------------------------------------------------------------ two servers


@pytest.fixture
def federation(tmp_path: Path) -> Iterator[Federation]:
    made = Federation(tmp_path)
    for server in made.servers:
        policy = server.path / "policy.toml"
        policy.write_text(policy.read_text().replace("largest_dimension = 1000", f"largest_dimension = {LENGTH}"))
    yield made
    made.close()


def upload_whole(federation: Federation, role: int, made: Contribution) -> Any:
    half, answer = made.payloads[role], None
    for offset in range(0, len(half), PIECE_BYTES):
        answer = federation.upload(role, made, offset=offset, data=half[offset : offset + PIECE_BYTES])
    return answer


@pytest.mark.slow
@pytest.mark.parametrize(
    ("role", "point"),
    [(0, "spooled:1"), (0, "spooled:9"), (0, "adding:1"), (0, "adding:3"), (1, "adding:2")],
    ids=lambda each: str(each),
)
def test_a_crash_while_uploads_wait_or_are_added_leaves_nothing_and_one_opening(
    federation: Federation, role: int, point: str
) -> None:
    manifest = large("killed")
    federation.admit(manifest)
    federation.start(*(f"aggregator.{point}" if role == each else None for each in (0, 1)))
    for each in (0, 1):
        federation.propose(each, manifest)
    made = contributions(manifest, 0)

    def all_of(each: int) -> None:
        for contribution in made:
            assert upload_whole(federation, each, contribution).complete

    def back() -> None:
        federation.servers[role].died()
        state = federation.servers[role].path / "state"
        assert not list(state.rglob(f"{PREFIX}*"))
        federation.restart(role)
        federation.propose(role, manifest)
        for contribution in made:
            upload_whole(federation, role, contribution)

    all_of(1 - role)
    if point.startswith("spooled"):
        with pytest.raises(grpc.RpcError):
            all_of(role)
        back()
        answers = federation.open(manifest, 0)
    else:
        all_of(role)
        answers = []
        thread = threading.Thread(target=lambda: answers.extend(federation.open(manifest, 0)))
        thread.start()
        back()
        thread.join(2 * WAIT)
    assert [answer.state for answer in answers] == [STATE.STATE_OPENED] * 2, answers
    for each, answer in enumerate(answers):
        while len(answer.share) < answer.size:
            fetch = wire.FetchShareRequest(manifest_digest=manifest.digest, round=0, offset=len(answer.share))
            answer.share += federation.control(each).FetchShare(fetch).data
    assert answers[0].opening == answers[1].opening
    assert is_noised(manifest, 0, answers, 6.0)
    assert [end.openings for end in federation.end(manifest)] == [1, 1]


def test_servers_open_a_sum_of_packed_uploads_and_of_the_same_in_words_alike(federation: Federation) -> None:
    federation.start()
    for packed in (True, False):
        changes = {"model.dimension": 50, **OWN} | ({"rounds.uploads": "packed"} if packed else {})
        manifest = documents.manifest(run=f"packed-{int(packed)}", **changes)
        federation.admit(manifest)
        made = contributions(manifest, 0)
        assert len(made[0].payloads[0]) == 32 + (244 if packed else 400)
        federation.upload_all(made)
        assert is_noised(manifest, 0, federation.open(manifest, 0), 6.0)
