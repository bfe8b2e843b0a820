"""Consumer groups: who is a member, and the offsets that are committed. Members are in memory, offsets on disk.

A restart of the broker ends all memberships: members get ``UNKNOWN_MEMBER_ID`` and join again. Source: Kafka protocol
guide, "Group Membership API".
"""

from __future__ import annotations

import asyncio
import json
import os
import time
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from io import FileIO
from pathlib import Path
from typing import Any, Final, NamedTuple, TypeAlias

from clearspan.embedded.broker_server.messages import Error
from clearspan.embedded.broker_server.wire import Message

SESSION_S_MAX: Final = 1_800.0
GROUPS_MAX: Final = 1_000
MEMBERS_MAX: Final = 100
METADATA_CHARACTERS_MAX: Final = 4_096
REWRITE_LINES: Final = 10_000
"""Lines from which on the file of offsets is written anew, if they are twice as many as the offsets."""

Future: TypeAlias = asyncio.Future[Message]


class GroupState(StrEnum):
    """The states of a group, as Kafka's tools show them."""

    EMPTY = "Empty"
    JOINING = "PreparingRebalance"
    SYNCING = "CompletingRebalance"
    STABLE = "Stable"


@dataclass(eq=False, slots=True)
class GroupMember:
    """A member, and its requests that wait for the other members."""

    id: str
    client_id: str
    session_s: float
    rebalance_s: float
    protocols: Mapping[str, bytes]
    assignment: bytes = b""
    seen_s: float = field(default_factory=time.monotonic)
    joining: Future | None = None
    syncing: Future | None = None

    def reply_join(self, reply: Message) -> None:
        """Reply to a join that waits."""
        self.seen_s = time.monotonic()
        joining, self.joining = self.joining, None
        if joining is not None and not joining.done():
            joining.set_result(reply)

    def reply_sync(self, error: Error = Error.NONE) -> None:
        """Reply to a sync that waits."""
        self.seen_s = time.monotonic()
        syncing, self.syncing = self.syncing, None
        if syncing is not None and not syncing.done():
            syncing.set_result({"error": error, "assignment": b"" if error else self.assignment})


class ConsumerGroup:
    """The members of a group."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.state = GroupState.EMPTY
        self.generation = 0
        self.protocol_type = ""
        self.protocol = ""
        self.leader = ""
        self.members: dict[str, GroupMember] = {}
        self._joining_until_s = 0.0

    async def join(self, request: Message, client_id: str) -> Message:
        """Return when every member has joined, or the time of those that have not is over."""
        protocols = {each["name"]: bytes(each["metadata"] or b"") for each in request["protocols"]}
        session_s, member_id = request["session_ms"] / 1_000, str(request["member"] or f"{client_id}-{uuid.uuid4()}")
        if error := self._why_not_joined(request, protocols, session_s):
            return {"error": error, "generation": -1, "protocol": "", "leader": "", "member": request["member"]}
        rebalance_s = request["rebalance_ms"] / 1_000 if "rebalance_ms" in request else session_s
        member = self.members.get(member_id)
        is_same = member is not None and member.protocols == protocols
        if member is None:
            member = self.members[member_id] = GroupMember(member_id, client_id, session_s, rebalance_s, protocols)
        else:
            member.session_s, member.rebalance_s, member.protocols = session_s, rebalance_s, protocols
        member.reply_join({"error": Error.REBALANCE_IN_PROGRESS, "protocol": "", "leader": "", "member": member_id})
        if is_same and (
            self.state is GroupState.SYNCING or (self.state is GroupState.STABLE and member_id != self.leader)
        ):
            return self._joined(member)
        self.protocol_type = request["protocol_type"]
        joined: Future = asyncio.get_running_loop().create_future()
        member.joining = joined
        if self.state is not GroupState.JOINING:
            self._rebalance()
        self._complete_join_if_all()
        return await joined

    def _why_not_joined(self, request: Message, protocols: Mapping[str, bytes], session_s: float) -> Error:
        others = [each for id_, each in self.members.items() if id_ != request["member"]]
        if not 0 < session_s <= SESSION_S_MAX:
            return Error.INVALID_SESSION_TIMEOUT
        if request["member"] and request["member"] not in self.members:
            return Error.UNKNOWN_MEMBER_ID
        if not request["member"] and len(self.members) >= MEMBERS_MAX:
            return Error.GROUP_MAX_SIZE_REACHED
        common = set(protocols).intersection(*(each.protocols for each in others))
        if not common or (others and request["protocol_type"] != self.protocol_type):
            return Error.INCONSISTENT_GROUP_PROTOCOL
        return Error.NONE

    async def sync(self, request: Message) -> Message:
        """Return the member's assignment once the leader has sent it."""
        error = self.check(request["member"], request["generation"])
        if error or self.state is GroupState.JOINING:
            return {"error": error or Error.REBALANCE_IN_PROGRESS, "assignment": b""}
        member = self.members[request["member"]]
        if self.state is GroupState.STABLE:
            return {"error": Error.NONE, "assignment": member.assignment}
        member.reply_sync(Error.REBALANCE_IN_PROGRESS)
        synced: Future = asyncio.get_running_loop().create_future()
        member.syncing = synced
        if member.id == self.leader:
            assignments = {each["member"]: bytes(each["assignment"] or b"") for each in request["assignments"]}
            self.state = GroupState.STABLE
            for each in self.members.values():
                each.assignment = assignments.get(each.id, b"")
                each.reply_sync()
        return await synced

    def heartbeat(self, request: Message) -> Error:
        """Note that a member lives; return ``REBALANCE_IN_PROGRESS`` if it has to join again."""
        error = self.check(request["member"], request["generation"])
        return error or (Error.REBALANCE_IN_PROGRESS if self.state is GroupState.JOINING else Error.NONE)

    def leave(self, member_id: str) -> Error:
        """Remove a member."""
        if member_id not in self.members:
            return Error.UNKNOWN_MEMBER_ID
        self._remove([self.members[member_id]])
        return Error.NONE

    def check(self, member_id: str, generation: int) -> Error:
        """Return why a request is not one of a member of this generation; note that the member lives."""
        if member_id not in self.members:
            return Error.UNKNOWN_MEMBER_ID
        if generation != self.generation:
            return Error.ILLEGAL_GENERATION
        self.members[member_id].seen_s = time.monotonic()
        return Error.NONE

    def check_commit(self, member_id: str, generation: int) -> Error:
        """Return why a commit is not accepted; one from outside of the group is accepted while it has no members."""
        if generation < 0 and not member_id and not self.members:
            return Error.NONE
        error = self.check(member_id, generation)
        return error or (Error.REBALANCE_IN_PROGRESS if self.state is GroupState.SYNCING else Error.NONE)

    def expire(self, now_s: float) -> None:
        """Remove members that were not heard of, and end a join whose time is over. To be called often."""
        self._remove(
            [
                each
                for each in self.members.values()
                if not (each.joining or each.syncing) and now_s - each.seen_s > each.session_s
            ]
        )
        if self.state is GroupState.JOINING and now_s > self._joining_until_s:
            self._remove([each for each in self.members.values() if each.joining is None])
            self._complete_join_if_all()

    def _remove(self, members: Sequence[GroupMember]) -> None:
        if not members:
            return
        for member in members:
            del self.members[member.id]
            unknown = {"error": Error.UNKNOWN_MEMBER_ID, "protocol": "", "leader": "", "member": member.id}
            member.reply_join(unknown)
            member.reply_sync(Error.UNKNOWN_MEMBER_ID)
        if not self.members:
            self.state, self.leader = GroupState.EMPTY, ""
        elif self.state is not GroupState.JOINING:
            self._rebalance()
        self._complete_join_if_all()

    def _rebalance(self) -> None:
        """Let all members join again."""
        self.state = GroupState.JOINING
        self._joining_until_s = time.monotonic() + max(each.rebalance_s for each in self.members.values())
        for member in self.members.values():
            if member.syncing is not None:
                member.reply_sync(Error.REBALANCE_IN_PROGRESS)

    def _complete_join_if_all(self) -> None:
        members = self.members.values()
        if self.state is not GroupState.JOINING or any(each.joining is None for each in members):
            return
        self.state = GroupState.SYNCING
        self.generation += 1
        common = set.intersection(*(set(each.protocols) for each in members))
        first = next(iter(members))
        self.protocol = next(name for name in first.protocols if name in common)
        self.leader = self.leader if self.leader in self.members else first.id
        for member in members:
            member.assignment = b""
            member.reply_join(self._joined(member))

    def _joined(self, member: GroupMember) -> Message:
        is_leader = member.id == self.leader
        listed = [{"id": each.id, "metadata": each.protocols[self.protocol]} for each in self.members.values()]
        return {
            "generation": self.generation,
            "protocol": self.protocol,
            "leader": self.leader,
            "member": member.id,
            "members": listed if is_leader else [],
        }


class GroupOffset(NamedTuple):
    """An offset that a group has committed, and the text with it."""

    offset: int
    metadata: str
    leader_epoch: int = -1


OffsetKey: TypeAlias = tuple[str, str, int]
"""ConsumerGroup, topic and partition."""


class Offsets:
    """The committed offsets, in a file with a line of JSON for each commit."""

    def __init__(self, path: Path, exists: Callable[[str, int], bool]) -> None:
        """Read the file; leave out what belongs to partitions that do not exist, and a last line that was cut off."""
        self._path = path
        self._offsets: dict[OffsetKey, GroupOffset] = {}
        for group, topic, partition, offset, metadata, epoch in self._lines():
            if exists(topic, partition):
                self._offsets[group, topic, partition] = GroupOffset(offset, metadata, epoch)
        self._file = self._written_anew()

    def get(self, group: str, topic: str, partition: int) -> GroupOffset | None:
        """Return what the group has committed."""
        return self._offsets.get((group, topic, partition))

    def of_group(self, group: str) -> dict[str, list[int]]:
        """Return the partitions of each topic in which the group has committed an offset."""
        partitions: dict[str, list[int]] = {}
        for name, topic, partition in self._offsets:
            if name == group:
                partitions.setdefault(topic, []).append(partition)
        return partitions

    def groups(self) -> set[str]:
        """Return the groups that have committed an offset."""
        return {group for group, _, _ in self._offsets}

    def commit(self, committed: Mapping[OffsetKey, GroupOffset]) -> None:
        """Store offsets. Raises ``OSError``."""
        self._file.write(b"".join(_line(key, value) for key, value in committed.items()))
        self._offsets.update(committed)
        self._lines_count += len(committed)
        if self._lines_count > max(REWRITE_LINES, 2 * len(self._offsets)):
            self._rewrite()

    def forget_topic(self, topic: str) -> None:
        """Remove the offsets of a topic that is deleted."""
        self._offsets = {key: value for key, value in self._offsets.items() if key[1] != topic}
        self._rewrite()

    def close(self) -> None:
        """Sync and close the file. Blocks."""
        os.fsync(self._file.fileno())
        self._file.close()

    def _lines(self) -> Iterator[list[Any]]:
        if self._path.exists():
            for line in self._path.read_bytes().splitlines():
                try:
                    yield json.loads(line)
                except ValueError:
                    continue

    def _rewrite(self) -> None:
        self._file.close()
        self._file = self._written_anew()

    def _written_anew(self) -> FileIO:
        fresh = self._path.with_suffix(".new")
        fresh.write_bytes(b"".join(_line(key, value) for key, value in self._offsets.items()))
        fresh.replace(self._path)
        self._lines_count = len(self._offsets)
        return FileIO(self._path, "ab")


def _line(key: OffsetKey, committed: GroupOffset) -> bytes:
    return json.dumps([*key, *committed]).encode() + b"\n"
