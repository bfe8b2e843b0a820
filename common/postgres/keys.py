"""The API keys of projects.

A key belongs to one project and one user, is shown once, and is stored only as a hash. It is ``<prefix>.<secret>``: 8
characters that find and list it, and a secret of 64 hexadecimal digits. Its scopes say what it may do in its project.
"""

from __future__ import annotations

import asyncio
import hashlib
import re
import secrets
from collections.abc import AsyncIterator, Collection, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from hmac import compare_digest
from pathlib import Path
from typing import Any, Final, NamedTuple
from uuid import UUID, uuid4

from common.errors import Conflict, NotFound, ServiceError
from common.ids import DEFAULT_USER_ID
from common.named_sql import load_named_sql
from common.postgres.pool import Database, Transaction
from common.remembering import REMEMBERED_MAX, Remembering
from common.running_requests import RunningRequests
from common.scopes import KeyScope, with_included
from common.settings import AccessSettings
from common.telemetry import get_logger
from common.times import Clock

_TEXTS: Final = load_named_sql(Path(__file__).with_name("keys.sql"))
_SQL: Final = {
    name: text.replace("{shown_columns}", _TEXTS["shown_columns"]).replace("{in_force}", _TEXTS["in_force"])
    for name, text in _TEXTS.items()
}

VALID_FOR_S: Final = 0.5
"""How long a key that was revoked in another process may still begin requests."""

WATCH_S: Final = 0.4
"""How often the keys of running requests are looked up: together with ``VALID_FOR_S`` less than a second."""

INVALID_FOR_S: Final = 1.0

ALONE_FOR_S: Final = 1.0
"""How long a project counts as the only one with keys after that was read."""

NEIGHBOURS_FOR_S: Final = 30.0
"""How long a project counts as one of several with keys after that was read."""

EXPIRES_AT_MAX: Final = datetime(9999, 1, 1, tzinfo=UTC)
"""The last time at which a key may expire: Python has no times after that year."""

_log: Final = get_logger("clearspan.keys")
_SHAPE: Final = re.compile(r"([A-Za-z0-9_-]{8})\.([0-9a-f]{64})")


@dataclass(frozen=True, slots=True)
class KeyWanted:
    """What a new key may do, for how long, and how much."""

    name: str
    scopes: Collection[KeyScope] = (KeyScope.ADMIN,)
    requests_per_s: float | None = None
    """Requests a second, in each process of the API; ``None`` is no limit."""

    concurrent_max: int | None = None
    """Requests at the same time, in each process of the API; ``None`` is no limit."""

    expires_at: datetime | None = None


class Key(NamedTuple):
    """One key, without its secret."""

    id: UUID
    project_id: UUID
    user_id: UUID
    name: str
    prefix: str
    scopes: list[str]
    requests_per_s: float | None
    concurrent_max: int | None
    created_at: datetime
    expires_at: datetime | None
    revoked_at: datetime | None
    last_used_at: datetime | None
    """Up to a minute old."""


class NewKey(NamedTuple):
    """A new key, with the text that is shown only once."""

    key: Key
    text: str


class KeyOwner(NamedTuple):
    """The project that a request with the key may see, the user recorded as the author of its changes, and what the key
    may do."""

    project_id: UUID
    user_id: UUID
    scopes: frozenset[KeyScope] = frozenset(KeyScope)
    """With those that they include."""

    key_id: UUID | None = None
    """``None`` for a request without a key."""

    requests_per_s: float | None = None
    concurrent_max: int | None = None


class _Proof(NamedTuple):
    """Whose key a text is, ``None`` if it is none, and whether it is valid now."""

    owner: KeyOwner | None
    is_in_force: bool


@dataclass(eq=False, slots=True)
class _LookUp:
    """A key that is being looked up."""

    ended_ids: set[UUID] = field(default_factory=set)
    """The keys and projects that have ended since it began."""


class Keys:
    """The keys of all projects. A project has at most ``count_max`` in force, and as many that have ended."""

    def __init__(self, database: Database, clock: Clock, *, count_max: int = AccessSettings().keys_max) -> None:
        self._database = database
        self._clock = clock
        self._count_max = count_max
        self._remembered: Remembering[bytes, _Proof] = Remembering(clock, count_max=REMEMBERED_MAX)
        self._neighbors: Remembering[UUID, bool] = Remembering(clock, count_max=REMEMBERED_MAX)
        self._used_ns: dict[UUID, int] = {}
        self._look_ups: set[_LookUp] = set()
        self.running_requests = RunningRequests()

    async def create(self, project_id: UUID, /, wanted: KeyWanted, *, user_id: UUID = DEFAULT_USER_ID) -> NewKey:
        """Create a key of a project for an existing user.

        Raises ``NotFound`` if the project does not exist, ``Conflict`` if it has too many keys.
        """
        async with self._changing_keys_of(project_id) as transaction:
            return await insert_key(transaction, project_id, wanted, user_id=user_id)

    async def of_project(self, project_id: UUID, /) -> list[Key]:
        """Return the keys of a project, oldest first, revoked and expired ones included."""
        return [Key(**row) for row in await self._database.fetch_all(_SQL["list_keys"], project_id)]

    async def rotate(self, project_id: UUID, key_id: UUID, /, *, overlap: timedelta) -> NewKey:
        """Create a key like this one, with as long a life; the old one expires after ``overlap``, or when it would.

        Raises ``NotFound`` if the project has no such key in force, ``Conflict`` if it would have too many with both,
        or if the key was replaced before.
        """
        prefix, secret = _new_text()
        async with self._changing_keys_of(project_id) as transaction:
            arguments = (project_id, key_id, overlap, uuid4(), prefix, _hash(secret), EXPIRES_AT_MAX)
            row = await transaction.fetch_one(_SQL["rotate_key"], *arguments)
            if row is None:
                replaced = await transaction.fetch_one(_SQL["find_replacement"], project_id, key_id)
                if replaced is None:
                    raise NotFound(f"There is no key {key_id} in force in this project.")
                raise Conflict(
                    f"The key {key_id} was replaced by {replaced['replaced_by']} before: rotate that one,"
                    " or create a key."
                )
        self._forget({key_id})
        if not overlap:
            await self.running_requests.end_key(key_id)
        return NewKey(Key(**row), f"{prefix}.{secret}")

    async def revoke(self, project_id: UUID, key_id: UUID, /) -> Key:
        """Revoke a key, end its requests, and return it; other processes do so within a second. May be repeated.

        Raises ``NotFound`` if the project has no such key.
        """
        row = await self._database.fetch_one(_SQL["revoke_key"], project_id, key_id)
        if row is None:
            raise NotFound(f"There is no key {key_id} in this project.")
        self._forget({key_id})
        await self.running_requests.end_key(key_id)
        return Key(**row)

    async def end_project(self, project_id: UUID, /) -> None:
        """Forget the keys of a deleted project, and end its requests; other processes do so within a second."""
        self._forget({project_id})
        await self.running_requests.end_project(project_id)

    async def find(self, key_text: str, /) -> KeyOwner | None:
        """Return the owner of a valid key, else ``None``. Raises ``Unavailable`` if Postgres cannot say."""
        shape = _SHAPE.fullmatch(key_text)
        if shape is None:
            return None
        known = self._remembered.recall(_hash(key_text))
        while known is None:
            with self._looking_up() as ended_ids:
                proof, for_s = await self._prove(prefix=shape[1], secret=shape[2])
            if not _is_of(proof, ended_ids):  # else the key may have ended after it was read
                self._remembered.remember(_hash(key_text), proof, for_s=for_s)
                known = (proof,)
        owner, is_in_force = known[0]
        if owner is None or not is_in_force:
            return None
        if owner.key_id is not None:
            self._used_ns[owner.key_id] = self._clock.now_ns()
        return owner

    @asynccontextmanager
    async def running(self, owner: KeyOwner, /) -> AsyncIterator[None]:
        """Run a request inside, right after ``find``. Raises ``Unauthorized`` when its key or its project ends."""
        if owner.key_id is None:
            yield
            return
        async with self.running_requests.running(owner.project_id, owner.key_id):
            yield

    async def watch(self) -> None:
        """End the requests whose keys end in another process, or expire, until cancelled."""
        while True:
            await asyncio.sleep(WATCH_S)
            key_ids = self.running_requests.key_ids
            try:
                rows = await self._database.fetch_all(_SQL["find_ended_keys"], list(key_ids)) if key_ids else ()
            except ServiceError as error:
                _log.warning("Whether the keys of running requests have ended is not known.", reason=error.detail)
                continue
            ended_ids = {row["id"] for row in rows}
            if ended_ids:
                self._forget(ended_ids)
                self.running_requests.cancel(ended_ids)

    def ended(self, key_text: str, /) -> KeyOwner | None:
        """Return the owner of a key that was just refused because it is revoked or has expired, else ``None``."""
        known = self._remembered.recall(_hash(key_text))
        return None if known is None or known[0].is_in_force else known[0].owner

    async def has_neighbors(self, project_id: UUID, /) -> bool:
        """Return whether another project has a valid key; a second project is seen within ``ALONE_FOR_S``.

        True if Postgres cannot say: a share that is too small for a moment harms no other project.
        """
        known = self._neighbors.recall(project_id)
        if known is not None:
            return known[0]
        try:
            row = await self._database.fetch_one(_SQL["another_project_has_a_key"], project_id)
        except ServiceError:
            row = None
        has_some = row is None or bool(row["is_so"])
        is_sure = row is not None and has_some
        self._neighbors.remember(project_id, has_some, for_s=NEIGHBOURS_FOR_S if is_sure else ALONE_FOR_S)
        return has_some

    async def store_uses(self) -> None:
        """Store when each key was last used. Raises ``Unavailable``; then the next call stores it."""
        if not self._used_ns:
            return
        used, self._used_ns = self._used_ns, {}
        times = [datetime.fromtimestamp(used_ns / 1e9, UTC) for used_ns in used.values()]
        try:
            await self._database.fetch_all(_SQL["store_uses_of_keys"], list(used), times)
        except ServiceError:
            self._used_ns = {**used, **self._used_ns}
            raise

    @contextmanager
    def _looking_up(self) -> Iterator[Collection[UUID]]:
        """Look a key up inside; yield the keys and projects that end meanwhile."""
        look_up = _LookUp()
        self._look_ups.add(look_up)
        try:
            yield look_up.ended_ids
        finally:
            self._look_ups.discard(look_up)

    def _forget(self, ended_ids: set[UUID]) -> None:
        """Forget keys, or all keys of projects, also those that are being looked up."""
        for look_up in self._look_ups:
            look_up.ended_ids |= ended_ids
        self._remembered.forget_where(lambda proof: _is_of(proof, ended_ids))

    @asynccontextmanager
    async def _changing_keys_of(self, project_id: UUID) -> AsyncIterator[Transaction]:
        """Yield a transaction that adds a key. Rolls back and raises ``Conflict`` if that is one too many."""
        async with self._database.transaction() as transaction:
            await transaction.fetch_one(_SQL["lock_keys_of_project"], project_id)
            yield transaction
            row = await transaction.fetch_one(_SQL["count_keys_in_force"], project_id)
            if row is not None and row["n"] > self._count_max:
                raise Conflict(
                    f"A project may have {self._count_max:,} keys in force: revoke one first, or rotate one with an"
                    " overlap of 0."
                )
            await transaction.fetch_all(_SQL["forget_ended_keys"], project_id, self._count_max)

    async def _prove(self, *, prefix: str, secret: str) -> tuple[_Proof, float]:
        """Return what is known of a key, and for how many seconds that may be remembered."""
        row = await self._database.fetch_one(_SQL["find_key"], prefix)
        if row is None or not compare_digest(row["secret_hash"], _hash(secret)):
            return _Proof(None, is_in_force=False), INVALID_FOR_S
        proof = _Proof(_owner(row), row["is_in_force"])
        return proof, min(VALID_FOR_S, row["expires_in_s"]) if proof.is_in_force else INVALID_FOR_S


def _is_of(proof: _Proof, ids: Collection[UUID]) -> bool:
    """Return whether a key, or the key of a project, is among these."""
    return proof.owner is not None and (proof.owner.key_id in ids or proof.owner.project_id in ids)


async def insert_key(
    executor: Database | Transaction, project_id: UUID, wanted: KeyWanted, /, *, user_id: UUID
) -> NewKey:
    """Create a key like ``Keys.create``, also within a transaction."""
    prefix, secret = _new_text()
    row = await executor.fetch_one(
        _SQL["create_key"],
        uuid4(),
        project_id,
        wanted.name,
        prefix,
        _hash(secret),
        user_id,
        sorted(wanted.scopes),
        wanted.requests_per_s,
        wanted.concurrent_max,
        wanted.expires_at,
    )
    if row is None:
        raise NotFound(f"There is no project {project_id}.")
    return NewKey(Key(**row), f"{prefix}.{secret}")


def _owner(row: Any) -> KeyOwner:
    return KeyOwner(
        row["project_id"],
        row["user_id"],
        with_included(row["scopes"]),
        row["id"],
        row["requests_per_s"],
        row["concurrent_max"],
    )


def _new_text() -> tuple[str, str]:
    """Return the prefix and the secret of a new key. On a command line, a key must not look like an option."""
    prefix = secrets.token_urlsafe(6)
    while prefix.startswith("-"):
        prefix = secrets.token_urlsafe(6)
    return prefix, secrets.token_hex(32)


def _hash(text: str) -> bytes:
    return hashlib.sha256(text.encode()).digest()
