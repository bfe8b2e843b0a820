"""The requests that the broker answers, and Kafka's error codes.

The highest versions are the last ones before the flexible layouts, which no client needs; only metadata (with topic
ids) and the versions themselves have them. Clients choose the highest version that both sides know: aiokafka,
librdkafka, franz-go, and Java clients up to 4.x, which dropped the versions before Kafka 2.1.

Source: ``common/message/*.json`` of Apache Kafka 4.1.
"""

from __future__ import annotations

from enum import IntEnum
from typing import Final

from clearspan.embedded.broker_server.wire import read_apis


class Error(IntEnum):
    """Kafka's error codes that the broker uses."""

    NONE = 0
    OFFSET_OUT_OF_RANGE = 1
    CORRUPT_MESSAGE = 2
    UNKNOWN_TOPIC_OR_PARTITION = 3
    MESSAGE_TOO_LARGE = 10
    OFFSET_METADATA_TOO_LARGE = 12
    INVALID_TOPIC = 17
    INVALID_REQUIRED_ACKS = 21
    ILLEGAL_GENERATION = 22
    INCONSISTENT_GROUP_PROTOCOL = 23
    INVALID_GROUP_ID = 24
    UNKNOWN_MEMBER_ID = 25
    INVALID_SESSION_TIMEOUT = 26
    REBALANCE_IN_PROGRESS = 27
    UNSUPPORTED_VERSION = 35
    TOPIC_ALREADY_EXISTS = 36
    INVALID_PARTITIONS = 37
    INVALID_CONFIG = 40
    INVALID_REQUEST = 42
    UNSUPPORTED_FOR_MESSAGE_FORMAT = 43
    OUT_OF_ORDER_SEQUENCE_NUMBER = 45
    DUPLICATE_SEQUENCE_NUMBER = 46
    INVALID_PRODUCER_EPOCH = 47
    KAFKA_STORAGE_ERROR = 56
    GROUP_MAX_SIZE_REACHED = 81


APIS: Final = read_apis("""
0 produce 3-8
  > transactional_id:str acks:i16 timeout_ms:i32 topics:[name:str partitions:[index:i32 records:bytes]]
  < topics:[name:str partitions:[index:i32 error:i16 base_offset:i64 append_time:i64 log_start@5:i64
    record_errors@8:[index:i32 message:str] error_message@8:str]] throttle_ms:i32
1 fetch 4-11
  > replica:i32 max_wait_ms:i32 min_bytes:i32 max_bytes:i32 isolation:i8 session@7:i32 session_epoch@7:i32
    topics:[name:str partitions:[index:i32 leader_epoch@9:i32 offset:i64 log_start@5:i64 max_bytes:i32]]
    forgotten@7:[name:str partitions:[]i32] rack@11:str
  < throttle_ms:i32 error@7:i16 session@7:i32
    topics:[name:str partitions:[index:i32 error:i16 high_watermark:i64 last_stable:i64 log_start@5:i64
    aborted:[producer:i64 first:i64] preferred_replica@11:i32 records:bytes]]
2 list_offsets 1-5
  > replica:i32 isolation@2:i8 topics:[name:str partitions:[index:i32 leader_epoch@4:i32 timestamp:i64]]
  < throttle_ms@2:i32 topics:[name:str partitions:[index:i32 error:i16 timestamp:i64 offset:i64 leader_epoch@4:i32]]
3 metadata 1-10 flexible 9
  > topics:[id@10:uuid name:str] auto_create@4:bool cluster_operations@8:bool topic_operations@8:bool
  < throttle_ms@3:i32 brokers:[id:i32 host:str port:i32 rack:str] cluster_id@2:str controller:i32
    topics:[error:i16 name:str id@10:uuid is_internal:bool partitions:[error:i16 index:i32 leader:i32
    leader_epoch@7:i32 replicas:[]i32 in_sync:[]i32 offline@5:[]i32] operations@8:i32] operations@8:i32
8 offset_commit 2-7
  > group:str generation:i32 member:str instance@7:str retention_ms@2-4:i64
    topics:[name:str partitions:[index:i32 offset:i64 leader_epoch@6:i32 metadata:str]]
  < throttle_ms@3:i32 topics:[name:str partitions:[index:i32 error:i16]]
9 offset_fetch 1-5
  > group:str topics:[name:str partitions:[]i32]
  < throttle_ms@3:i32 topics:[name:str partitions:[index:i32 offset:i64 leader_epoch@5:i32 metadata:str error:i16]]
    error@2:i16
10 find_coordinator 0-2
  > key:str key_type@1:i8
  < throttle_ms@1:i32 error:i16 error_message@1:str node:i32 host:str port:i32
11 join_group 0-4
  > group:str session_ms:i32 rebalance_ms@1:i32 member:str protocol_type:str protocols:[name:str metadata:bytes]
  < throttle_ms@2:i32 error:i16 generation:i32 protocol:str leader:str member:str members:[id:str metadata:bytes]
12 heartbeat 0-2
  > group:str generation:i32 member:str
  < throttle_ms@1:i32 error:i16
13 leave_group 0-2
  > group:str member:str
  < throttle_ms@1:i32 error:i16
14 sync_group 0-2
  > group:str generation:i32 member:str assignments:[member:str assignment:bytes]
  < throttle_ms@1:i32 error:i16 assignment:bytes
15 describe_groups 0-3
  > groups:[]str operations@3:bool
  < throttle_ms@1:i32 groups:[error:i16 group:str state:str protocol_type:str protocol:str
    members:[id:str client_id:str host:str metadata:bytes assignment:bytes] operations@3:i32]
16 list_groups 0-2
  >
  < throttle_ms@1:i32 error:i16 groups:[group:str protocol_type:str]
18 api_versions 0-3 flexible 3
  > software@3:str software_version@3:str
  < error:i16 apis:[key:i16 min:i16 max:i16] throttle_ms@1:i32
19 create_topics 2-4
  > topics:[name:str partitions:i32 replicas:i16 assignments:[index:i32 brokers:[]i32]
    configs:[name:str value:str]] timeout_ms:i32 validate_only:bool
  < throttle_ms:i32 topics:[name:str error:i16 error_message:str]
20 delete_topics 1-3
  > names:[]str timeout_ms:i32
  < throttle_ms:i32 topics:[name:str error:i16]
21 delete_records 0-1
  > topics:[name:str partitions:[index:i32 offset:i64]] timeout_ms:i32
  < throttle_ms:i32 topics:[name:str partitions:[index:i32 low_watermark:i64 error:i16]]
22 init_producer_id 0-1
  > transactional_id:str timeout_ms:i32
  < throttle_ms:i32 error:i16 producer:i64 epoch:i16
37 create_partitions 0-1
  > topics:[name:str count:i32 assignments:[brokers:[]i32]] timeout_ms:i32 validate_only:bool
  < throttle_ms:i32 topics:[name:str error:i16 error_message:str]
""")
"""Each request that the broker answers, by its key: its versions, the first of them that is flexible, the layout of the
request (``>``) and of the response (``<``)."""

PRODUCE: Final = APIS[0]
API_VERSIONS: Final = APIS[18]
