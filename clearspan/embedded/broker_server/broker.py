"""What the broker replies to each kind of request. It is the only node of its cluster, and has no transactions."""

from __future__ import annotations

import asyncio
import time
import uuid
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Final

from clearspan.embedded.broker_server.groups import (
    GROUPS_MAX,
    METADATA_CHARACTERS_MAX,
    ConsumerGroup,
    GroupOffset,
    GroupState,
)
from clearspan.embedded.broker_server.messages import APIS, Error
from clearspan.embedded.broker_server.partition import BatchRefused
from clearspan.embedded.broker_server.store import Store, Topic, TopicRefused
from clearspan.embedded.broker_server.wire import Api, Message

NODE_ID: Final = 1
LATEST: Final = -1
EARLIEST: Final = -2
FETCH_WAIT_S_MAX: Final = 30.0
FETCH_BYTES_MAX: Final = 32 * 1024 * 1024
SPACE_WAIT_S_MAX: Final = 15.0
"""How long a produce request waits for disk space; half of its own timeout if that is shorter."""

ACKS: Final = (-1, 0, 1)
OPERATIONS_UNKNOWN: Final = -(2**31)


class Broker:
    """Replies to requests from a store, and keeps the groups."""

    def __init__(self, store: Store, host: str, port: int) -> None:
        self._store = store
        self._host, self._port = host, port
        self._groups: dict[str, ConsumerGroup] = {}

    async def answer(self, api: Api, request: Message, client_id: str) -> Message | None:
        """Return the response; ``None`` if the client wants none. Raises what an invalid request leads to."""
        if api.name == "join_group":
            return await self._join_group(request, client_id)
        handler: Callable[[Message], Message | Awaitable[Message | None]] = getattr(self, f"_{api.name}")
        response = handler(request)
        return response if isinstance(response, dict) else await response

    def versions(self) -> Message:
        """Return which requests are answered, in which versions."""
        # Kafka itself claims the versions 0 to 2 of produce requests: librdkafka needs that to compress.
        return {
            "apis": [
                {"key": api.key, "min": api.versions[0] if api.key else 0, "max": api.versions[-1]}
                for api in APIS.values()
            ]
        }

    def expire_members(self, now_s: float) -> None:
        """Remove members of groups that were not heard of; forget groups without members."""
        for group in list(self._groups.values()):
            group.expire(now_s)
            if group.state is GroupState.EMPTY:
                del self._groups[group.name]

    def _api_versions(self, _request: Message) -> Message:
        return self.versions()

    def _metadata(self, request: Message) -> Message:
        store = self._store
        names = list(store.topics)
        if request["topics"] is not None:
            by_id = {topic.id: name for name, topic in store.topics.items()}
            names = [each["name"] or by_id.get(each.get("id"), "") for each in request["topics"]]
        topics = [_described(store.topics[name]) if name in store.topics else _absent(name) for name in names]
        return {
            "brokers": [{"id": NODE_ID, "host": self._host, "port": self._port}],
            "cluster_id": store.cluster_id,
            "controller": NODE_ID,
            "topics": topics,
            "operations": OPERATIONS_UNKNOWN,
        }

    async def _produce(self, request: Message) -> Message | None:
        refused: BatchRefused | None = None
        size = sum(len(each["records"] or b"") for topic in request["topics"] for each in topic["partitions"])
        timeout_s = min(max(request["timeout_ms"], 0) / 2_000, SPACE_WAIT_S_MAX)
        has_space = await self._store.reserve(size, timeout_s=timeout_s)
        if not has_space:
            refused = BatchRefused(Error.KAFKA_STORAGE_ERROR, self._store.full_message)
        if request["acks"] not in ACKS:
            refused = BatchRefused(Error.INVALID_REQUIRED_ACKS, f"acks is {request['acks']}; {ACKS} are allowed.")

        def append(name: str, asked: Message) -> Message:
            try:
                if refused is not None:
                    raise refused
                offset, first_offset = self._store.append(name, asked["index"], asked["records"] or memoryview(b""))
            except BatchRefused as exc:
                return {"error": exc.error, "base_offset": -1, "append_time": -1, "error_message": str(exc)}
            return {"base_offset": offset, "append_time": -1, "log_start": first_offset}

        try:
            topics = _for_each_partition(request, append)
        finally:
            if has_space:
                self._store.release(size)
        return {"topics": topics} if request["acks"] else None

    async def _fetch(self, request: Message) -> Message:
        deadline_s = time.monotonic() + min(max(request["max_wait_ms"], 0) / 1_000, FETCH_WAIT_S_MAX)
        with self._watched(request) as appended:
            while True:
                appended.clear()
                topics, size, has_error = self._read(request)
                left_s = deadline_s - time.monotonic()
                if has_error or size >= request["min_bytes"] or left_s <= 0:
                    return {"topics": topics}
                del topics
                try:
                    async with asyncio.timeout(left_s):
                        await appended.wait()
                except TimeoutError:
                    continue

    @contextmanager
    def _watched(self, request: Message) -> Iterator[asyncio.Event]:
        """Let appends to the partitions of a fetch set an event."""
        appended = asyncio.Event()
        partitions = [
            partition
            for topic in request["topics"]
            for each in topic["partitions"]
            if (partition := self._store.partition(topic["name"], each["index"])) is not None
        ]
        for partition in partitions:
            partition.waiting.add(appended)
        try:
            yield appended
        finally:
            for partition in partitions:
                partition.waiting.discard(appended)

    def _read(self, request: Message) -> tuple[list[Message], int, bool]:
        """Return the topics of a fetch response, the bytes of its records, and whether a partition has an error."""
        left, size, has_error = min(request["max_bytes"], FETCH_BYTES_MAX), 0, False

        def read(name: str, asked: Message) -> Message:
            nonlocal size, has_error
            partition = self._store.partition(name, asked["index"])
            absent = {"high_watermark": -1, "last_stable": -1, "log_start": -1, "preferred_replica": -1, "records": b""}
            if partition is None:
                has_error = True
                return {**absent, "error": Error.UNKNOWN_TOPIC_OR_PARTITION}
            if not partition.first_offset <= asked["offset"] <= partition.end:
                has_error = True
                return {**absent, "error": Error.OFFSET_OUT_OF_RANGE}
            bytes_max = max(min(asked["max_bytes"], left - size), 0)
            records = partition.read(asked["offset"], bytes_max, whole_first=size == 0)
            size += len(records)
            return {
                "high_watermark": partition.end,
                "last_stable": partition.end,
                "log_start": partition.first_offset,
                "preferred_replica": -1,
                "records": records,
            }

        return _for_each_partition(request, read), size, has_error

    def _list_offsets(self, request: Message) -> Message:
        def offset_of(name: str, asked: Message) -> Message:
            partition = self._store.partition(name, asked["index"])
            if partition is None:
                return {"error": Error.UNKNOWN_TOPIC_OR_PARTITION, "timestamp": -1, "offset": -1, "leader_epoch": -1}
            timestamp, offset = -1, partition.end
            if asked["timestamp"] == EARLIEST:
                offset = partition.first_offset
            elif asked["timestamp"] != LATEST:
                offset, timestamp = partition.offset_of_time(asked["timestamp"]) or (-1, -1)
                offset = max(offset, partition.first_offset) if offset >= 0 else offset
            return {"timestamp": timestamp, "offset": offset, "leader_epoch": -1}

        return {"topics": _for_each_partition(request, offset_of)}

    def _find_coordinator(self, request: Message) -> Message:
        if request.get("key_type", 0) != 0:
            return {"error": Error.INVALID_REQUEST, "error_message": "Transactions are not supported.", "host": ""}
        return {"node": NODE_ID, "host": self._host, "port": self._port}

    async def _join_group(self, request: Message, client_id: str) -> Message:
        name = request["group"]
        group = self._groups.get(name)
        if group is None:
            if not name or len(self._groups) >= GROUPS_MAX:
                error = Error.GROUP_MAX_SIZE_REACHED if name else Error.INVALID_GROUP_ID
                return {"error": error, "generation": -1, "protocol": "", "leader": "", "member": ""}
            group = self._groups[name] = ConsumerGroup(name)
        return await group.join(request, client_id)

    async def _sync_group(self, request: Message) -> Message:
        group = self._groups.get(request["group"])
        return await group.sync(request) if group else {"error": Error.UNKNOWN_MEMBER_ID, "assignment": b""}

    def _heartbeat(self, request: Message) -> Message:
        group = self._groups.get(request["group"])
        return {"error": group.heartbeat(request) if group else Error.UNKNOWN_MEMBER_ID}

    def _leave_group(self, request: Message) -> Message:
        group = self._groups.get(request["group"])
        return {"error": group.leave(request["member"]) if group else Error.UNKNOWN_MEMBER_ID}

    def _offset_commit(self, request: Message) -> Message:
        name = request["group"]
        group = self._groups.get(name) or ConsumerGroup(name)
        refused = group.check_commit(request["member"], request["generation"])
        committed = {}

        def commit(topic: str, asked: Message) -> Message:
            if refused:
                return {"error": refused}
            if self._store.partition(topic, asked["index"]) is None:
                return {"error": Error.UNKNOWN_TOPIC_OR_PARTITION}
            metadata = asked["metadata"] or ""
            if len(metadata) > METADATA_CHARACTERS_MAX:
                return {"error": Error.OFFSET_METADATA_TOO_LARGE}
            epoch = asked.get("leader_epoch", -1)
            committed[name, topic, asked["index"]] = GroupOffset(asked["offset"], metadata, epoch)
            return {}

        topics = _for_each_partition(request, commit)
        self._store.offsets.commit(committed)
        self._store.delete_old()
        return {"topics": topics}

    def _offset_fetch(self, request: Message) -> Message:
        name, offsets = request["group"], self._store.offsets
        wanted = request["topics"]
        if wanted is None:
            wanted = [{"name": topic, "partitions": each} for topic, each in offsets.of_group(name).items()]
        absent = GroupOffset(-1, "")

        def partition_of(topic: str, index: int) -> Message:
            committed = offsets.get(name, topic, index) or absent
            return {"index": index, **committed._asdict()}

        return {
            "topics": [
                {
                    "name": each["name"],
                    "partitions": [partition_of(each["name"], index) for index in each["partitions"]],
                }
                for each in wanted
            ]
        }

    def _describe_groups(self, request: Message) -> Message:
        return {"groups": [self._describe_group(name) for name in request["groups"]]}

    def _describe_group(self, name: str) -> Message:
        group = self._groups.get(name) or ConsumerGroup(name)
        is_known = name in self._groups or name in self._store.offsets.groups()
        members = [
            {
                "id": each.id,
                "client_id": each.client_id,
                "host": self._host,
                "metadata": each.protocols.get(group.protocol, b""),
                "assignment": each.assignment,
            }
            for each in group.members.values()
        ]
        state = group.state if is_known else "Dead"
        about = {"state": state, "protocol_type": group.protocol_type, "protocol": group.protocol}
        return {"group": name, **about, "members": members, "operations": OPERATIONS_UNKNOWN}

    def _list_groups(self, _request: Message) -> Message:
        names = dict.fromkeys(sorted(self._store.offsets.groups()), "") | {
            name: group.protocol_type for name, group in self._groups.items()
        }
        return {"groups": [{"group": name, "protocol_type": kind or "consumer"} for name, kind in names.items()]}

    def _create_topics(self, request: Message) -> Message:
        def create(asked: Message) -> None:
            configs: Mapping[str, str | None] = {each["name"]: each["value"] for each in asked["configs"]}
            count = len(asked["assignments"] or ()) or asked["partitions"]
            self._store.create_topic(asked["name"], count, configs, validate=request["validate_only"])

        return {"topics": [_changed(each["name"], create, each) for each in request["topics"]]}

    def _create_partitions(self, request: Message) -> Message:
        def grow(asked: Message) -> None:
            self._store.grow_topic(asked["name"], asked["count"], validate=request["validate_only"])

        return {"topics": [_changed(each["name"], grow, each) for each in request["topics"]]}

    def _delete_topics(self, request: Message) -> Message:
        return {"topics": [_changed(name, self._store.delete_topic, name) for name in request["names"]]}

    def _delete_records(self, request: Message) -> Message:
        def delete(name: str, asked: Message) -> Message:
            partition = self._store.partition(name, asked["index"])
            if partition is None:
                return {"low_watermark": -1, "error": Error.UNKNOWN_TOPIC_OR_PARTITION}
            offset = partition.end if asked["offset"] == -1 else asked["offset"]
            if not 0 <= offset <= partition.end:
                return {"low_watermark": -1, "error": Error.OFFSET_OUT_OF_RANGE}
            partition.delete_before(max(offset, partition.first_offset))
            return {"low_watermark": partition.first_offset}

        return {"topics": _for_each_partition(request, delete)}

    def _init_producer_id(self, request: Message) -> Message:
        if request["transactional_id"] is not None:
            return {"error": Error.INVALID_REQUEST, "producer": -1, "epoch": -1}
        return {"producer": self._store.new_producer_id(), "epoch": 0}


def _for_each_partition(request: Message, reply: Callable[[str, Message], Message]) -> list[Message]:
    """Return the topics of a response: for each partition of the request, its index and the reply."""
    return [
        {
            "name": topic["name"],
            "partitions": [{"index": each["index"], **reply(topic["name"], each)} for each in topic["partitions"]],
        }
        for topic in request["topics"]
    ]


def _changed(name: str, change: Callable[[Any], None], asked: object) -> Message:
    """Make a change of a topic; return the entry of the response."""
    try:
        change(asked)
    except TopicRefused as exc:
        return {"name": name, "error": exc.error, "error_message": str(exc)}
    except OSError as exc:
        return {"name": name, "error": Error.KAFKA_STORAGE_ERROR, "error_message": str(exc)}
    return {"name": name}


def _absent(name: str) -> Message:
    about = {"name": name, "id": uuid.UUID(int=0), "operations": OPERATIONS_UNKNOWN}
    return {"error": Error.UNKNOWN_TOPIC_OR_PARTITION, **about}


def _described(topic: Topic) -> Message:
    node = {"leader": NODE_ID, "leader_epoch": -1, "replicas": [NODE_ID], "in_sync": [NODE_ID]}
    partitions = [{"index": index, **node} for index in range(len(topic.partitions))]
    return {"name": topic.name, "id": topic.id, "partitions": partitions, "operations": OPERATIONS_UNKNOWN}
