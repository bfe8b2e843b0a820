-- p1 = "ag.metrics.tokens.cumulative.total"
-- p2 = 100
-- p3 = 100
SELECT start_us, span_id, trace_id, log, log_offset, parent_id, answer_bytes, members
FROM spans
WHERE {of_project}
    AND (if(parent_id = toFixedString(unhex('00000000000000000000000000000000'), 16) AND trace_id IN (SELECT trace_id FROM (SELECT trace_id, arraySum((amount, counts) -> if(counts, amount, 0), at_tokens_prompt, token_verdicts) AS tokens_prompt, arraySum((amount, counts) -> if(counts, amount, 0), at_tokens_completion, token_verdicts) AS tokens_completion, arraySum((amount, counts) -> if(counts, amount, 0), at_tokens_total, token_verdicts) AS tokens_total, arraySum((amount, counts) -> if(counts, amount, 0), at_costs_prompt, cost_verdicts) AS costs_prompt, arraySum((amount, counts) -> if(counts, amount, 0), at_costs_completion, cost_verdicts) AS costs_completion, arraySum((amount, counts) -> if(counts, amount, 0), at_costs_total, cost_verdicts) AS costs_total, errors
FROM (SELECT *, arrayMap((counts, is_own) -> counts OR is_own, arrayResize(if(arrayExists((counts, is_report) -> counts AND is_report, of_tokens, token_reports), of_tokens, emptyArrayUInt8()), length(report_ids), 1), report_is_own) AS token_verdicts, arrayMap((counts, is_own) -> counts OR is_own, arrayResize(if(arrayExists((counts, is_report) -> counts AND is_report, of_costs, cost_reports), of_costs, emptyArrayUInt8()), length(report_ids), 1), report_is_own) AS cost_verdicts
FROM (SELECT *, arraySlice(verdicts, 1, length(ids)) AS of_tokens, if(is_split, arraySlice(verdicts, length(ids) + 1), of_tokens) AS of_costs
FROM (SELECT *, arrayMap(pair -> pair.2, arrayFilter(pair -> pair.1, arrayMap((mark, last) -> (mark.2 = 1, mark.1 != last.1), marks, arrayPopBack(arrayPushFront(marks, (0, 1)))))) AS verdicts
FROM (SELECT *, arraySort(arrayConcat(arrayMap(place -> (place, 1), places), arrayMap(place -> (place, 0), arrayDistinct(arrayFilter((place, is_end, from) -> is_end AND place != 0 AND place != from, nearest, reports, places))))) AS marks
FROM (SELECT *, arrayFold((at, round) -> arrayMap(pair -> pair.2, arraySort(arrayFilter(pair -> pair.1 != 0, arrayMap((entry, last) -> (entry.2, if(last.1 = entry.1, last.3, 0)), arraySort(arrayConcat(arrayMap((key, value) -> (key, toUInt32(0), value), places, arrayMap((is_end, place, next) -> if(is_end, place, next), reports, places, at)), arrayMap((key, place) -> (key, place, toUInt32(0)), at, places))), arrayFill(entry -> entry.2 = 0, arraySort(arrayConcat(arrayMap((key, value) -> (key, toUInt32(0), value), places, arrayMap((is_end, place, next) -> if(is_end, place, next), reports, places, at)), arrayMap((key, place) -> (key, place, toUInt32(0)), at, places)))))))), range(toUInt8(ceil(log2(length(places) + 1)))), ups) AS nearest
FROM (SELECT *, if(is_split, arrayConcat(token_reports, cost_reports), token_reports) AS reports, if(is_split, arrayConcat(above, arrayMap(place -> if(place = 0, 0, place + toUInt32(length(ids))), above)), above) AS ups, arrayEnumerate(reports) AS places
FROM (SELECT *, arrayMap(pair -> pair.2, arraySort(arrayFilter(pair -> pair.1 != 0, arrayMap((entry, last) -> (entry.2, if(last.1 = entry.1, last.3, 0)), arraySort(arrayConcat(arrayMap((key, value) -> (key, toUInt32(0), value), ids, arrayEnumerate(ids)), arrayMap((key, place) -> (key, place, toUInt32(0)), parents, arrayEnumerate(ids)))), arrayFill(entry -> entry.2 = 0, arraySort(arrayConcat(arrayMap((key, value) -> (key, toUInt32(0), value), ids, arrayEnumerate(ids)), arrayMap((key, place) -> (key, place, toUInt32(0)), parents, arrayEnumerate(ids))))))))) AS above, arrayResize(arrayMap((x, y, z) -> x != 0 OR y != 0 OR z != 0, at_tokens_prompt, at_tokens_completion, at_tokens_total), length(ids)) AS token_reports, arrayResize(arrayMap((x, y, z) -> x != 0 OR y != 0 OR z != 0, at_costs_prompt, at_costs_completion, at_costs_total), length(ids)) AS cost_reports, token_reports != cost_reports AS is_split
FROM (SELECT *, if(is_nested, arrayConcat(report_ids, link_ids), []) AS ids, if(is_nested, linked, []) AS parents
FROM (SELECT *, arrayConcat(report_parents, link_parents) AS linked, notEmpty(arrayIntersect(report_ids, linked)) AS is_nested
FROM (
SELECT
    trace_id,
    sum(errors) AS errors,
    groupArrayIf(tokens_prompt, is_report) AS at_tokens_prompt, groupArrayIf(tokens_completion, is_report) AS at_tokens_completion, groupArrayIf(tokens_total, is_report) AS at_tokens_total, groupArrayIf(costs_prompt, is_report) AS at_costs_prompt, groupArrayIf(costs_completion, is_report) AS at_costs_completion, groupArrayIf(costs_total, is_report) AS at_costs_total,
    groupArrayIf(id, is_report) AS report_ids,
    groupArrayIf(parent, is_report) AS report_parents,
    groupArrayIf(usage_is_own, is_report) AS report_is_own,
    groupArrayIf(id, is_link) AS link_ids,
    groupArrayIf(parent, is_link) AS link_parents
FROM
(
    SELECT
        *,
        reinterpretAsUInt128(span_id) AS id,
        if(parent_id = span_id, 0, reinterpretAsUInt128(parent_id)) AS parent,
        tokens_prompt != 0 OR tokens_completion != 0 OR tokens_total != 0 OR costs_prompt != 0 OR costs_completion != 0 OR costs_total != 0 AS is_report,
        NOT is_report AND parent != 0 AS is_link
    FROM (SELECT trace_id, span_id, parent_id, usage_is_own, tokens_prompt, tokens_completion, tokens_total, costs_prompt, costs_completion, costs_total, errors FROM (
SELECT trace_id, span_id, log, intDiv(version, 2) AS log_offset, start_us, parent_id, usage_is_own, tokens_prompt, tokens_completion, tokens_total, costs_prompt, costs_completion, costs_total, errors
FROM span_heads FINAL
WHERE {of_project} AND 1 AND version % 2 = 0
ORDER BY trace_id, span_id, record_ms DESC, version DESC, log DESC
LIMIT 1 BY trace_id, span_id
))
)
GROUP BY trace_id
))))))))))) WHERE (tokens_prompt != 0 OR tokens_completion != 0 OR tokens_total != 0) AND isFinite(tokens_prompt) AND isFinite(tokens_completion) AND isFinite(tokens_total)), trace_id IN (SELECT trace_id FROM (SELECT trace_id, arraySum((amount, counts) -> if(counts, amount, 0), at_tokens_prompt, token_verdicts) AS tokens_prompt, arraySum((amount, counts) -> if(counts, amount, 0), at_tokens_completion, token_verdicts) AS tokens_completion, arraySum((amount, counts) -> if(counts, amount, 0), at_tokens_total, token_verdicts) AS tokens_total, arraySum((amount, counts) -> if(counts, amount, 0), at_costs_prompt, cost_verdicts) AS costs_prompt, arraySum((amount, counts) -> if(counts, amount, 0), at_costs_completion, cost_verdicts) AS costs_completion, arraySum((amount, counts) -> if(counts, amount, 0), at_costs_total, cost_verdicts) AS costs_total, errors
FROM (SELECT *, arrayMap((counts, is_own) -> counts OR is_own, arrayResize(if(arrayExists((counts, is_report) -> counts AND is_report, of_tokens, token_reports), of_tokens, emptyArrayUInt8()), length(report_ids), 1), report_is_own) AS token_verdicts, arrayMap((counts, is_own) -> counts OR is_own, arrayResize(if(arrayExists((counts, is_report) -> counts AND is_report, of_costs, cost_reports), of_costs, emptyArrayUInt8()), length(report_ids), 1), report_is_own) AS cost_verdicts
FROM (SELECT *, arraySlice(verdicts, 1, length(ids)) AS of_tokens, if(is_split, arraySlice(verdicts, length(ids) + 1), of_tokens) AS of_costs
FROM (SELECT *, arrayMap(pair -> pair.2, arrayFilter(pair -> pair.1, arrayMap((mark, last) -> (mark.2 = 1, mark.1 != last.1), marks, arrayPopBack(arrayPushFront(marks, (0, 1)))))) AS verdicts
FROM (SELECT *, arraySort(arrayConcat(arrayMap(place -> (place, 1), places), arrayMap(place -> (place, 0), arrayDistinct(arrayFilter((place, is_end, from) -> is_end AND place != 0 AND place != from, nearest, reports, places))))) AS marks
FROM (SELECT *, arrayFold((at, round) -> arrayMap(pair -> pair.2, arraySort(arrayFilter(pair -> pair.1 != 0, arrayMap((entry, last) -> (entry.2, if(last.1 = entry.1, last.3, 0)), arraySort(arrayConcat(arrayMap((key, value) -> (key, toUInt32(0), value), places, arrayMap((is_end, place, next) -> if(is_end, place, next), reports, places, at)), arrayMap((key, place) -> (key, place, toUInt32(0)), at, places))), arrayFill(entry -> entry.2 = 0, arraySort(arrayConcat(arrayMap((key, value) -> (key, toUInt32(0), value), places, arrayMap((is_end, place, next) -> if(is_end, place, next), reports, places, at)), arrayMap((key, place) -> (key, place, toUInt32(0)), at, places)))))))), range(toUInt8(ceil(log2(length(places) + 1)))), ups) AS nearest
FROM (SELECT *, if(is_split, arrayConcat(token_reports, cost_reports), token_reports) AS reports, if(is_split, arrayConcat(above, arrayMap(place -> if(place = 0, 0, place + toUInt32(length(ids))), above)), above) AS ups, arrayEnumerate(reports) AS places
FROM (SELECT *, arrayMap(pair -> pair.2, arraySort(arrayFilter(pair -> pair.1 != 0, arrayMap((entry, last) -> (entry.2, if(last.1 = entry.1, last.3, 0)), arraySort(arrayConcat(arrayMap((key, value) -> (key, toUInt32(0), value), ids, arrayEnumerate(ids)), arrayMap((key, place) -> (key, place, toUInt32(0)), parents, arrayEnumerate(ids)))), arrayFill(entry -> entry.2 = 0, arraySort(arrayConcat(arrayMap((key, value) -> (key, toUInt32(0), value), ids, arrayEnumerate(ids)), arrayMap((key, place) -> (key, place, toUInt32(0)), parents, arrayEnumerate(ids))))))))) AS above, arrayResize(arrayMap((x, y, z) -> x != 0 OR y != 0 OR z != 0, at_tokens_prompt, at_tokens_completion, at_tokens_total), length(ids)) AS token_reports, arrayResize(arrayMap((x, y, z) -> x != 0 OR y != 0 OR z != 0, at_costs_prompt, at_costs_completion, at_costs_total), length(ids)) AS cost_reports, token_reports != cost_reports AS is_split
FROM (SELECT *, if(is_nested, arrayConcat(report_ids, link_ids), []) AS ids, if(is_nested, linked, []) AS parents
FROM (SELECT *, arrayConcat(report_parents, link_parents) AS linked, notEmpty(arrayIntersect(report_ids, linked)) AS is_nested
FROM (
SELECT
    trace_id,
    sum(errors) AS errors,
    groupArrayIf(tokens_prompt, is_report) AS at_tokens_prompt, groupArrayIf(tokens_completion, is_report) AS at_tokens_completion, groupArrayIf(tokens_total, is_report) AS at_tokens_total, groupArrayIf(costs_prompt, is_report) AS at_costs_prompt, groupArrayIf(costs_completion, is_report) AS at_costs_completion, groupArrayIf(costs_total, is_report) AS at_costs_total,
    groupArrayIf(id, is_report) AS report_ids,
    groupArrayIf(parent, is_report) AS report_parents,
    groupArrayIf(usage_is_own, is_report) AS report_is_own,
    groupArrayIf(id, is_link) AS link_ids,
    groupArrayIf(parent, is_link) AS link_parents
FROM
(
    SELECT
        *,
        reinterpretAsUInt128(span_id) AS id,
        if(parent_id = span_id, 0, reinterpretAsUInt128(parent_id)) AS parent,
        tokens_prompt != 0 OR tokens_completion != 0 OR tokens_total != 0 OR costs_prompt != 0 OR costs_completion != 0 OR costs_total != 0 AS is_report,
        NOT is_report AND parent != 0 AS is_link
    FROM (SELECT trace_id, span_id, parent_id, usage_is_own, tokens_prompt, tokens_completion, tokens_total, costs_prompt, costs_completion, costs_total, errors FROM (
SELECT trace_id, span_id, log, intDiv(version, 2) AS log_offset, start_us, parent_id, usage_is_own, tokens_prompt, tokens_completion, tokens_total, costs_prompt, costs_completion, costs_total, errors
FROM span_heads FINAL
WHERE {of_project} AND 1 AND version % 2 = 0
ORDER BY trace_id, span_id, record_ms DESC, version DESC, log DESC
LIMIT 1 BY trace_id, span_id
))
)
GROUP BY trace_id
))))))))))) WHERE (tokens_prompt != 0 OR tokens_completion != 0 OR tokens_total != 0) AND isFinite(tokens_prompt) AND isFinite(tokens_completion) AND isFinite(tokens_total) AND tokens_total > {p3:Int128}), (indexHint(mapContains(leaves, {p1:String})) AND multiIf(NOT match(leaves[{p1:String}], '^(?:n|s-?(0|[1-9][0-9]*)([.][0-9]+)?([eE][-+]?[0-9]+)?$)'), 0, length(leaves[{p1:String}]) <= 21 AND match(leaves[{p1:String}], '^.-?[0-9]+$') AND toInt128OrZero(substring(leaves[{p1:String}], 2)) BETWEEN -9223372036854775808 AND 18446744073709551615, toInt128OrZero(substring(leaves[{p1:String}], 2)) > {p2:Int128}, toFloat64OrZero(substring(leaves[{p1:String}], 2)) > {p2:Int128}))))
ORDER BY start_us DESC, span_id DESC, trace_id DESC
LIMIT {candidates:UInt32}
