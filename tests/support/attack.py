"""Requests made from the OpenAPI document by schemathesis, with all of its checks on every response.

Sources: the phases, checks and hooks of schemathesis 4.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Any, Final
from uuid import UUID
from zlib import crc32

import schemathesis
from hypothesis.errors import Flaky, Unsatisfiable
from schemathesis.config import SchemathesisConfig
from schemathesis.core.errors import UnsupportedSchema
from schemathesis.core.failures import Failure
from schemathesis.core.transport import Response
from schemathesis.engine import events, from_schema
from schemathesis.generation.case import Case
from schemathesis.generation.meta import TestPhase
from schemathesis.hooks import HookContext
from schemathesis.schemas import BaseSchema

from common.postgres.keys import NewKey
from tests.support.attack_exclusions import WITHOUT_SUCCESS, is_excluded

REQUEST_TIMEOUT_S: Final = 60.0
OPERATIONS: Final = 240
"""About the number of operations: how many requests a case for each of them makes."""


@dataclass(slots=True)
class AttackReport:
    """What was sent, and what was wrong with the responses."""

    requests: int = 0
    statuses: Counter[int] = field(default_factory=Counter)
    operations: set[str] = field(default_factory=set)
    checks: set[str] = field(default_factory=set)
    """The checks that looked at a response."""

    succeeded: set[str] = field(default_factory=set)
    """The operations that answered 2xx at least once."""

    excluded: Counter[str] = field(default_factory=Counter)
    """How many failures each exclusion covered, by its reason."""

    failures: list[str] = field(default_factory=list)
    """One text for each failure and each error of schemathesis."""

    def never_succeeded(self) -> list[str]:
        """Return the operations that never answered 2xx and are not known for it."""
        return sorted(self.operations - self.succeeded - WITHOUT_SUCCESS.keys())

    def __str__(self) -> str:
        lines = [
            f"requests {self.requests}, failures {len(self.failures)}, statuses {dict(sorted(self.statuses.items()))}",
            f"never 2xx: {', '.join(self.never_succeeded()) or 'none'}",
            *(f"{count} excluded: {reason}" for reason, count in self.excluded.most_common()),
        ]
        return "\n".join(lines)


_DRAWING: Final = "example_generating_inner_function"
"""The function of hypothesis that draws requests, and sends none."""


class _Sampling:
    """Keeps of the cases of the coverage phase, which are forty thousand, the first of each operation and then fewer and
    fewer: the n-th with probability ``rate / n``, decided by the seed."""

    def __init__(self, rate: float, seed: int) -> None:
        self._rate = rate
        self._seed = seed
        self._seen: Counter[str] = Counter()

    def keeps(self, case: Case) -> bool:
        if case.meta is None or case.meta.phase.name is not TestPhase.COVERAGE:
            return True
        label = case.operation.label
        self._seen[label] += 1
        number = self._seen[label]
        return _draw(self._seed, label, number) < self._rate / number


def _draw(seed: int, *values: object) -> float:
    """Return a number from 0 to 1 that follows from the seed and the values."""
    return crc32(" ".join(map(str, (seed, *values))).encode()) / 2**32


def attack(address: str, *, key: NewKey, admin_key: str, project_id: UUID, requests: int, seed: int) -> AttackReport:
    """Send about ``requests`` requests to the API at ``address``, in this thread, one after the other.

    The requests follow from the seed and from the ids in the responses. With fewer requests than operations, so do the
    operations.
    """
    per_operation = requests / OPERATIONS
    config = _config(
        address, key=key.text, admin_key=admin_key, examples_count=max(1, round(per_operation / 1.6)), seed=seed
    )
    schema: BaseSchema = schemathesis.openapi.from_url(f"{address}/openapi.json", config=config)
    if per_operation < 1:
        schema = schema.include(lambda context: _draw(seed, context.operation.label) < per_operation)
    report = AttackReport()

    def counts(_context: HookContext, failure: Failure, case: Case, response: Response) -> bool:
        reason = is_excluded(failure, case, response)
        if reason:
            report.excluded[reason] += 1
        return not reason

    sampling = _Sampling(per_operation / 6, seed)
    own = frozenset({str(project_id), str(key.key.id), key.key.prefix})

    def keeps(_context: HookContext, case: Case) -> bool:
        return sampling.keeps(case) and not _ends_the_attack(case, own)

    schema.hook("filter_case")(keeps)
    schema.hook("filter_failure")(counts)
    for event in from_schema(schema).execute():
        _note(report, event)
    return report


def _ends_the_attack(case: Case, own: frozenset[str]) -> bool:
    """Whether the request ends the key of the attack, or deletes its project: everything after it would be 401."""
    ends = case.method == "DELETE" or case.path.endswith("/rotate")
    return ends and any(str(value) in own for value in (case.path_parameters or {}).values())


def _config(address: str, *, key: str, admin_key: str, examples_count: int, seed: int) -> SchemathesisConfig:
    return SchemathesisConfig.from_dict(
        {
            "seed": seed,
            "base-url": address,
            "continue-on-failure": True,
            "cache": {"enabled": False},
            "request-timeout": REQUEST_TIMEOUT_S,
            "generation": {
                "max-examples": examples_count,
                "deterministic": True,
                "no-shrink": True,
                "database": "none",
            },
            "auth": {"openapi": {"ApiKey": {"api_key": f"ApiKey {key}"}, "Access": {"api_key": f"Access {admin_key}"}}},
        }
    )


def _note(report: AttackReport, event: events.EngineEvent) -> None:
    if isinstance(event, events.NonFatalError) and not _is_not_drawn(event):
        report.failures.append(f"schemathesis: {event.label}: {event.value}")
    if isinstance(event, events.FatalError):
        report.failures.append(f"schemathesis: {event.exception}")
    if not isinstance(event, events.ScenarioFinished):
        return
    recorder = event.recorder
    for case_id, interaction in recorder.interactions.items():
        label = recorder.cases[case_id].value.operation.label
        report.requests += 1
        report.operations.add(label)
        if interaction.response is not None:
            report.statuses[interaction.response.status_code] += 1
            if interaction.response.status_code < 300:
                report.succeeded.add(label)
    for case_id, checks in recorder.checks.items():
        report.checks.update(check.name for check in checks)
        response = recorder.find_response(case_id=case_id)
        report.failures += [
            _shown(check.name, check.failure_info, response) for check in checks if check.failure_info is not None
        ]


def _is_not_drawn(error: events.NonFatalError) -> bool:
    """Whether schemathesis found no request to send: that says nothing about the API.

    It cannot always draw from schemas that refer to themselves, also if it can the next time, and almost any body of
    ``POST /traces`` is valid. To send a wrong body it changes the schema of that operation, and cannot draw from each
    schema that it makes: the document itself has no ``not``.
    """
    if isinstance(error.value, RecursionError):
        return True
    if isinstance(error.value, Flaky) and _DRAWING in str(error.value):
        return True
    return error.label == "POST /traces" and isinstance(error.value, Unsatisfiable | UnsupportedSchema)


def _shown(name: str, info: Any, response: Response | None) -> str:
    answer = "" if response is None else f"{response.status_code} {response.content[:500]!r}"
    return f"{name}: {info.failure.title}\n{info.failure.message}\n{answer}\n{info.code_sample[:2_000]}"
