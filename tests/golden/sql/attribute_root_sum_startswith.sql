-- p1 = "ag.metrics.tokens.cumulative.total"
-- p2 = "(?i-s)\\A1"
-- p3 = "(?i-s)\\A1"
SELECT start_us, span_id, trace_id, log, log_offset, parent_id, answer_bytes
FROM spans
WHERE {of_project}
    AND (if(parent_id = toFixedString(unhex('00000000000000000000000000000000'), 16) AND trace_id IN (SELECT trace_id FROM (SELECT trace_id, sum(head.4) AS tokens_prompt, sum(head.5) AS tokens_completion, sum(head.6) AS tokens_total, sum(head.7) AS costs_prompt, sum(head.8) AS costs_completion, sum(head.9) AS costs_total, sum(head.10) AS errors
FROM (
SELECT
    trace_id,
    span_id,
    argMax(
        tuple(log, intDiv(last_version, 2), last_start_us, last_tokens_prompt, last_tokens_completion, last_tokens_total, last_costs_prompt, last_costs_completion, last_costs_total, last_errors),
        tuple(last_record_ms, last_version, log)
    ) AS head
FROM
(
    SELECT
        trace_id,
        span_id,
        log,
        max(version) AS last_version,
        argMax(record_ms, version) AS last_record_ms,
        argMax(start_us, version) AS last_start_us,
        argMax(tokens_prompt, version) AS last_tokens_prompt, argMax(tokens_completion, version) AS last_tokens_completion, argMax(tokens_total, version) AS last_tokens_total, argMax(costs_prompt, version) AS last_costs_prompt, argMax(costs_completion, version) AS last_costs_completion, argMax(costs_total, version) AS last_costs_total, argMax(errors, version) AS last_errors
    FROM span_heads
    WHERE {of_project} AND 1
    GROUP BY trace_id, span_id, log
    HAVING last_version % 2 = 0
)
GROUP BY trace_id, span_id
)
GROUP BY trace_id) WHERE (tokens_prompt != 0 OR tokens_completion != 0 OR tokens_total != 0) AND isFinite(tokens_prompt) AND isFinite(tokens_completion) AND isFinite(tokens_total)), trace_id IN (SELECT trace_id FROM (SELECT trace_id, sum(head.4) AS tokens_prompt, sum(head.5) AS tokens_completion, sum(head.6) AS tokens_total, sum(head.7) AS costs_prompt, sum(head.8) AS costs_completion, sum(head.9) AS costs_total, sum(head.10) AS errors
FROM (
SELECT
    trace_id,
    span_id,
    argMax(
        tuple(log, intDiv(last_version, 2), last_start_us, last_tokens_prompt, last_tokens_completion, last_tokens_total, last_costs_prompt, last_costs_completion, last_costs_total, last_errors),
        tuple(last_record_ms, last_version, log)
    ) AS head
FROM
(
    SELECT
        trace_id,
        span_id,
        log,
        max(version) AS last_version,
        argMax(record_ms, version) AS last_record_ms,
        argMax(start_us, version) AS last_start_us,
        argMax(tokens_prompt, version) AS last_tokens_prompt, argMax(tokens_completion, version) AS last_tokens_completion, argMax(tokens_total, version) AS last_tokens_total, argMax(costs_prompt, version) AS last_costs_prompt, argMax(costs_completion, version) AS last_costs_completion, argMax(costs_total, version) AS last_costs_total, argMax(errors, version) AS last_errors
    FROM span_heads
    WHERE {of_project} AND 1
    GROUP BY trace_id, span_id, log
    HAVING last_version % 2 = 0
)
GROUP BY trace_id, span_id
)
GROUP BY trace_id) WHERE (tokens_prompt != 0 OR tokens_completion != 0 OR tokens_total != 0) AND isFinite(tokens_prompt) AND isFinite(tokens_completion) AND isFinite(tokens_total) AND match(if(tokens_total = trunc(tokens_total) AND tokens_total >= -pow(2., 63) AND tokens_total < pow(2., 64), toString(toInt128(tokens_total)), multiIf(match(toString(tokens_total), 'e[0-9]'), replaceOne(toString(tokens_total), 'e', 'e+'), match(toString(tokens_total), '^-?0[.]00000[0-9]$'), replaceRegexpOne(toString(tokens_total), '0[.]00000', '') || 'e-6', match(toString(tokens_total), '^-?0[.]00000[0-9]'), replaceRegexpOne(toString(tokens_total), '0[.]00000([0-9])', '\\1.') || 'e-6', NOT match(toString(tokens_total), '^-?[0-9]{20,}$'), toString(tokens_total), toInt128OrZero(toString(tokens_total)) BETWEEN toInt128('-9223372036854775808') AND toInt128('18446744073709551615'), toString(tokens_total), replaceRegexpOne(replaceRegexpOne(toString(tokens_total), '^(-?[0-9])([0-9]*?)0*$', '\\1.\\2'), '[.]$', '') || 'e+' || toString(length(replaceOne(toString(tokens_total), '-', '')) - 1))), {p3:String})), (((startsWith(leaves[{p1:String}], 's') OR startsWith(leaves[{p1:String}], 'n')) AND match(substring(leaves[{p1:String}], 2), {p2:String})))))
ORDER BY start_us DESC, span_id DESC, trace_id DESC
LIMIT {candidates:UInt32}
