"""Targets in requests: which members each kind has, and which of them reads do not show."""

from __future__ import annotations

import base64
import binascii
import re
from typing import Annotated, Any, Final, Literal, TypeAlias

from pydantic import AfterValidator, Field, field_validator
from yarl import URL

from common.kafka_settings import SecurityProtocol
from common.setting_types import Servers, Topic
from common.tls import TlsSettings
from query_api.request.json_body import Named, Strict
from query_api.request.references import Text

URL_LENGTH_MAX: Final = 2_048
NAME_LENGTH_MAX: Final = 1_024
CA_LENGTH_MAX: Final = 65_536
SECRET_PREFIX: Final = "whsec_"  # noqa: S105 - the prefix of secrets, as Standard Webhooks has it
SECRET_BYTES_MIN: Final = 24
SECRET_BYTES_MAX: Final = 64
_BASE64: Final = re.compile(r"[A-Za-z0-9+/]+={0,2}")

HEADERS_MAX: Final = 32
HEADER_LENGTH_MAX: Final = 8_192
_HEADER_NAME: Final = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]{1,256}")
_WEB_ADDRESS: Final[dict[str, Any]] = {"pattern": "^https?://[^/?#]"}
_SECRET_SHAPE: Final = {"pattern": f"^{SECRET_PREFIX}[A-Za-z0-9+/]{{32,88}}={{0,2}}$"}
_OWN_HEADERS: Final = frozenset(
    {"content-type", "content-encoding", "content-length", "transfer-encoding", "connection", "host", "user-agent"}
)

SECRETS: Final[dict[str, tuple[str, ...]]] = {"webhook": ("secret",), "otlp": ("headers",), "kafka": ("password",)}
"""By the kind of a target, the members that are stored apart and that reads do not show."""

SENT_TO: Final[dict[str, tuple[str, ...]]] = {
    "otlp": ("endpoint",),
    "kafka": ("bootstrap", "security_protocol", "sasl_mechanism", "ca"),
}
"""By the kind of a target that is sent its secrets, the members that say to whom."""


def http_url(text: str) -> str:
    """Return an address of HTTP or HTTPS. Raises ``ValueError``."""
    try:
        url = URL(text)
    except ValueError as exc:
        raise ValueError(f"is not a URL: {exc}") from exc
    if url.scheme not in ("http", "https") or not url.host:
        raise ValueError("must begin with https:// or http:// and name a host")
    if url.user is not None or url.password is not None:
        raise ValueError("must not contain a user or a password, because reads show it")
    if url.fragment:
        raise ValueError("must not have a fragment")
    return text


def _secret(text: str) -> str:
    encoded = text.removeprefix(SECRET_PREFIX)
    try:
        key = base64.b64decode(encoded, validate=True) if _BASE64.fullmatch(encoded) else b""
    except binascii.Error:
        key = b""
    if not text.startswith(SECRET_PREFIX) or not SECRET_BYTES_MIN <= len(key) <= SECRET_BYTES_MAX:
        raise ValueError(
            f"must be {SECRET_PREFIX} and then {SECRET_BYTES_MIN} to {SECRET_BYTES_MAX} bytes in base64, as Standard"
            " Webhooks has it"
        )
    return text


class WebhookIn(Strict):
    """Sends batches to an address by POST, signed as Standard Webhooks."""

    kind: Literal["webhook"]
    url: Annotated[Text, AfterValidator(http_url)] = Field(
        max_length=URL_LENGTH_MAX,
        description="The address. Redirects are not followed.",
        json_schema_extra=_WEB_ADDRESS,
    )
    secret: Annotated[str, AfterValidator(_secret), Field(json_schema_extra=_SECRET_SHAPE)] | None = Field(
        None,
        repr=False,
        description="Signs the batches; `whsec_` and 24 to 64 bytes in base64. By default one is made.",
    )


class KafkaIn(Strict):
    """Publishes each span as a record whose key is its trace_id."""

    kind: Literal["kafka"]
    bootstrap: Servers = Field(
        max_length=URL_LENGTH_MAX,
        description="The bootstrap servers, separated by commas.",
        json_schema_extra={"pattern": "^[A-Za-z0-9_.:,\\[\\] -]+$"},
    )
    topic: Topic = Field(
        description="The topic, which must exist.", json_schema_extra={"pattern": "^[A-Za-z0-9._-]{1,249}$"}
    )
    security_protocol: SecurityProtocol | None = Field(
        None, description="How connections are protected, as the listener has it. The default is `PLAINTEXT`."
    )
    ca: str | None = Field(
        None,
        max_length=CA_LENGTH_MAX,
        description="The certificates, in PEM, that the certificate of the brokers is checked with. By default those of"
        " the machine on which Clearspan runs.",
    )
    sasl_mechanism: Literal["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"] | None = Field(
        None, description="The mechanism of SASL; a protocol with SASL needs it."
    )
    username: str | None = Field(None, min_length=1, max_length=NAME_LENGTH_MAX, description="The user of the cluster.")
    password: str | None = Field(
        None,
        repr=False,
        min_length=1,
        max_length=NAME_LENGTH_MAX,
        description="The password of the user. Reads do not show it.",
    )

    @field_validator("ca")
    @classmethod
    def _is_certificates(cls, text: str | None) -> str | None:
        if text is not None:
            TlsSettings(ca=text)
        return text

    @property
    def contradiction(self) -> str | None:
        """Why the members do not fit together, in words; ``None`` if they do."""
        protocol = self.security_protocol or "PLAINTEXT"
        user = (self.sasl_mechanism, self.username)
        if protocol.startswith("SASL_") and None in user:
            return f"security_protocol: '{protocol}' needs sasl_mechanism, username and password"
        if not protocol.startswith("SASL_") and (user != (None, None) or self.password is not None):
            return f"security_protocol: '{protocol}' has no sasl_mechanism, username and password"
        if not protocol.endswith("SSL") and self.ca is not None:
            return f"security_protocol: '{protocol}' has no ca"
        return None


def _headers(headers: dict[str, str]) -> dict[str, str]:
    for name, value in headers.items():
        if not _HEADER_NAME.fullmatch(name) or name.lower() in _OWN_HEADERS:
            raise ValueError(
                f"'{name[:100]}' cannot be set; allowed are names of HTTP headers that Clearspan does not set"
            )
        if len(value) > HEADER_LENGTH_MAX or not value.isprintable() or not value.isascii():
            raise ValueError(f"the value of '{name}' must be at most {HEADER_LENGTH_MAX} printable ASCII characters")
    return headers


class OtlpIn(Strict):
    """Sends batches to an OTLP/HTTP endpoint, as protobuf with gzip."""

    kind: Literal["otlp"]
    endpoint: Annotated[Text, AfterValidator(http_url)] = Field(
        max_length=URL_LENGTH_MAX,
        description="The address for traces; `/v1/traces` is appended to a host alone.",
        json_schema_extra=_WEB_ADDRESS,
    )
    headers: Annotated[Named[str, str], AfterValidator(_headers)] | None = Field(
        None,
        repr=False,
        max_length=HEADERS_MAX,
        description="Headers of each request, such as `Authorization`. Reads do not show them.",
    )
    ag: bool = Field(default=False, description="Also send the attributes below `ag`, which Clearspan derives.")


class ParquetIn(Strict):
    """Writes each batch to a Parquet file."""

    kind: Literal["parquet"]
    url: Text = Field(
        max_length=URL_LENGTH_MAX,
        json_schema_extra={"pattern": "^(file|s3)://"},
        description="The folder, below that of the project: `file:///folder` or `s3://bucket/prefix`.",
    )


TargetIn: TypeAlias = Annotated[WebhookIn | KafkaIn | OtlpIn | ParquetIn, Field(discriminator="kind")]


def public_members(target: TargetIn) -> dict[str, Any]:
    """Return the members of a target that reads show."""
    return target.model_dump(exclude_none=True, exclude=set(SECRETS.get(target.kind, ())))


def secret_members(target: TargetIn) -> dict[str, Any]:
    """Return the members of a target that reads do not show."""
    return target.model_dump(exclude_none=True, include=set(SECRETS.get(target.kind, ())))
