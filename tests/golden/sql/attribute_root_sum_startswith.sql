-- p1 = "ag.metrics.tokens.cumulative.total"
-- p2 = "(?i-s)\\A1"
SELECT start_us, span_id, trace_id, partition_id, record_offset, parent_id, answer_bytes, members
FROM spans
WHERE {of_project}
    AND ((if(parent_id = toFixedString(unhex('00000000000000000000000000000000'), 16) AND trace_id IN (SELECT trace_id FROM (SELECT trace_id, arraySum(counted_tokens_prompt) AS tokens_prompt, arraySum(counted_tokens_completion) AS tokens_completion, arraySum(counted_tokens_total) AS tokens_total
FROM (SELECT *, arrayMap((amount, counts, is_own) -> if(counts OR is_own, amount, 0), at_tokens_prompt, verdicts_of_sets[1], report_is_own) AS counted_tokens_prompt, arrayMap((amount, counts, is_own) -> if(counts OR is_own, amount, 0), at_tokens_completion, verdicts_of_sets[2], report_is_own) AS counted_tokens_completion, arrayMap((p, c, t, counts_t, counts_p, counts_c, is_own) -> if(counts_t OR is_own, t, if(counts_p, p, 0) + if(counts_c, c, 0)), at_tokens_prompt, at_tokens_completion, at_tokens_total, verdicts_of_sets[3], verdicts_of_sets[4], verdicts_of_sets[5], report_is_own) AS counted_tokens_total
FROM (SELECT *, arrayMap((members, found) -> arrayResize(if(arrayExists((counts, is_member) -> counts AND is_member, arrayResize(found, length(members)), members), found, emptyArrayUInt8()), length(report_ids), 1), sets, found_of_sets) AS verdicts_of_sets
FROM (SELECT *, arrayMap(members -> arraySlice(verdicts, (indexOf(judged_sets, members) - 1) * length(ids) + 1, if(has(judged_sets, members), length(ids), 0)), sets) AS found_of_sets
FROM (SELECT *, arrayMap(pair -> pair.2, arrayFilter(pair -> pair.1, arrayMap((mark, last) -> (mark.2 = 1, mark.1 != last.1), marks, arrayPopBack(arrayPushFront(marks, (0, 1)))))) AS verdicts
FROM (SELECT *, arraySort(arrayConcat(arrayMap(place -> (place, 1), places), arrayMap(place -> (place, 0), arrayDistinct(arrayFilter((place, is_end, from) -> is_end AND place != 0 AND place != from, nearest, reports, places))))) AS marks
FROM (SELECT *, arrayFold((at, round) -> arrayMap(pair -> pair.2, arraySort(arrayFilter(pair -> pair.1 != 0, arrayMap((entry, last) -> (entry.2, if(last.1 = entry.1, last.3, 0)), arraySort(arrayConcat(arrayMap((key, value) -> (key, toUInt32(0), value), places, arrayMap((is_end, place, next) -> if(is_end, place, next), reports, places, at)), arrayMap((key, place) -> (key, place, toUInt32(0)), at, places))), arrayFill(entry -> entry.2 = 0, arraySort(arrayConcat(arrayMap((key, value) -> (key, toUInt32(0), value), places, arrayMap((is_end, place, next) -> if(is_end, place, next), reports, places, at)), arrayMap((key, place) -> (key, place, toUInt32(0)), at, places)))))))), range(toUInt8(ceil(log2(length(places) + 1)))), ups) AS nearest
FROM (SELECT *, arrayFlatten(judged_sets) AS reports, arrayFlatten(arrayMap(set -> arrayMap(place -> if(place = 0, 0, place + toUInt32((set - 1) * length(ids))), above), arrayEnumerate(judged_sets))) AS ups, arrayEnumerate(reports) AS places
FROM (SELECT *, arrayFilter(members -> arrayCount(members) > 1, arrayDistinct(sets)) AS judged_sets
FROM (SELECT *, [arrayMap((p, c, t) -> p != 0, placed_tokens_prompt, placed_tokens_completion, placed_tokens_total), arrayMap((p, c, t) -> c != 0, placed_tokens_prompt, placed_tokens_completion, placed_tokens_total), arrayMap((p, c, t) -> p != 0 OR c != 0 OR t != 0, placed_tokens_prompt, placed_tokens_completion, placed_tokens_total), arrayMap((p, c, t) -> p != 0 OR t > (p + c) * 1.000000001, placed_tokens_prompt, placed_tokens_completion, placed_tokens_total), arrayMap((p, c, t) -> c != 0 OR t > (p + c) * 1.000000001, placed_tokens_prompt, placed_tokens_completion, placed_tokens_total)] AS sets
FROM (SELECT *, arrayResize(at_tokens_prompt, length(ids)) AS placed_tokens_prompt, arrayResize(at_tokens_completion, length(ids)) AS placed_tokens_completion, arrayResize(at_tokens_total, length(ids)) AS placed_tokens_total
FROM (SELECT *, arrayMap(pair -> pair.2, arraySort(arrayFilter(pair -> pair.1 != 0, arrayMap((entry, last) -> (entry.2, if(last.1 = entry.1, last.3, 0)), arraySort(arrayConcat(arrayMap((key, value) -> (key, toUInt32(0), value), ids, arrayEnumerate(ids)), arrayMap((key, place) -> (key, place, toUInt32(0)), parents, arrayEnumerate(ids)))), arrayFill(entry -> entry.2 = 0, arraySort(arrayConcat(arrayMap((key, value) -> (key, toUInt32(0), value), ids, arrayEnumerate(ids)), arrayMap((key, place) -> (key, place, toUInt32(0)), parents, arrayEnumerate(ids))))))))) AS above
FROM (SELECT *, if(is_nested, arrayConcat(report_ids, link_ids), []) AS ids, if(is_nested, linked, []) AS parents
FROM (SELECT *, arrayConcat(report_parents, link_parents) AS linked, notEmpty(arrayIntersect(report_ids, linked)) AS is_nested
FROM (
SELECT
    trace_id,
    groupArrayIf(tokens_prompt, is_report) AS at_tokens_prompt, groupArrayIf(tokens_completion, is_report) AS at_tokens_completion, groupArrayIf(tokens_total, is_report) AS at_tokens_total,
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
        tokens_prompt != 0 OR tokens_completion != 0 OR tokens_total != 0 AS is_report,
        NOT is_report AND parent != 0 AS is_link
    FROM (SELECT trace_id, span_id, parent_id, usage_is_own, tokens_prompt, tokens_completion, tokens_total, costs_prompt, costs_completion, costs_total, errors FROM (
SELECT trace_id, span_id, partition_id, intDiv(version, 2) AS record_offset, start_us, parent_id, usage_is_own, tokens_prompt, tokens_completion, tokens_total, costs_prompt, costs_completion, costs_total, errors
FROM span_versions FINAL
WHERE {of_project}
    AND (1)
    AND version % 2 = 0
ORDER BY trace_id, span_id, record_ms DESC, version DESC, partition_id DESC
LIMIT 1 BY trace_id, span_id
))
)
GROUP BY trace_id
))))))))))))))) WHERE (tokens_prompt != 0 OR tokens_completion != 0 OR tokens_total != 0) AND isFinite(tokens_prompt) AND isFinite(tokens_completion) AND isFinite(tokens_total)), trace_id IN (SELECT trace_id FROM (SELECT trace_id, arraySum(counted_tokens_prompt) AS tokens_prompt, arraySum(counted_tokens_completion) AS tokens_completion, arraySum(counted_tokens_total) AS tokens_total
FROM (SELECT *, arrayMap((amount, counts, is_own) -> if(counts OR is_own, amount, 0), at_tokens_prompt, verdicts_of_sets[1], report_is_own) AS counted_tokens_prompt, arrayMap((amount, counts, is_own) -> if(counts OR is_own, amount, 0), at_tokens_completion, verdicts_of_sets[2], report_is_own) AS counted_tokens_completion, arrayMap((p, c, t, counts_t, counts_p, counts_c, is_own) -> if(counts_t OR is_own, t, if(counts_p, p, 0) + if(counts_c, c, 0)), at_tokens_prompt, at_tokens_completion, at_tokens_total, verdicts_of_sets[3], verdicts_of_sets[4], verdicts_of_sets[5], report_is_own) AS counted_tokens_total
FROM (SELECT *, arrayMap((members, found) -> arrayResize(if(arrayExists((counts, is_member) -> counts AND is_member, arrayResize(found, length(members)), members), found, emptyArrayUInt8()), length(report_ids), 1), sets, found_of_sets) AS verdicts_of_sets
FROM (SELECT *, arrayMap(members -> arraySlice(verdicts, (indexOf(judged_sets, members) - 1) * length(ids) + 1, if(has(judged_sets, members), length(ids), 0)), sets) AS found_of_sets
FROM (SELECT *, arrayMap(pair -> pair.2, arrayFilter(pair -> pair.1, arrayMap((mark, last) -> (mark.2 = 1, mark.1 != last.1), marks, arrayPopBack(arrayPushFront(marks, (0, 1)))))) AS verdicts
FROM (SELECT *, arraySort(arrayConcat(arrayMap(place -> (place, 1), places), arrayMap(place -> (place, 0), arrayDistinct(arrayFilter((place, is_end, from) -> is_end AND place != 0 AND place != from, nearest, reports, places))))) AS marks
FROM (SELECT *, arrayFold((at, round) -> arrayMap(pair -> pair.2, arraySort(arrayFilter(pair -> pair.1 != 0, arrayMap((entry, last) -> (entry.2, if(last.1 = entry.1, last.3, 0)), arraySort(arrayConcat(arrayMap((key, value) -> (key, toUInt32(0), value), places, arrayMap((is_end, place, next) -> if(is_end, place, next), reports, places, at)), arrayMap((key, place) -> (key, place, toUInt32(0)), at, places))), arrayFill(entry -> entry.2 = 0, arraySort(arrayConcat(arrayMap((key, value) -> (key, toUInt32(0), value), places, arrayMap((is_end, place, next) -> if(is_end, place, next), reports, places, at)), arrayMap((key, place) -> (key, place, toUInt32(0)), at, places)))))))), range(toUInt8(ceil(log2(length(places) + 1)))), ups) AS nearest
FROM (SELECT *, arrayFlatten(judged_sets) AS reports, arrayFlatten(arrayMap(set -> arrayMap(place -> if(place = 0, 0, place + toUInt32((set - 1) * length(ids))), above), arrayEnumerate(judged_sets))) AS ups, arrayEnumerate(reports) AS places
FROM (SELECT *, arrayFilter(members -> arrayCount(members) > 1, arrayDistinct(sets)) AS judged_sets
FROM (SELECT *, [arrayMap((p, c, t) -> p != 0, placed_tokens_prompt, placed_tokens_completion, placed_tokens_total), arrayMap((p, c, t) -> c != 0, placed_tokens_prompt, placed_tokens_completion, placed_tokens_total), arrayMap((p, c, t) -> p != 0 OR c != 0 OR t != 0, placed_tokens_prompt, placed_tokens_completion, placed_tokens_total), arrayMap((p, c, t) -> p != 0 OR t > (p + c) * 1.000000001, placed_tokens_prompt, placed_tokens_completion, placed_tokens_total), arrayMap((p, c, t) -> c != 0 OR t > (p + c) * 1.000000001, placed_tokens_prompt, placed_tokens_completion, placed_tokens_total)] AS sets
FROM (SELECT *, arrayResize(at_tokens_prompt, length(ids)) AS placed_tokens_prompt, arrayResize(at_tokens_completion, length(ids)) AS placed_tokens_completion, arrayResize(at_tokens_total, length(ids)) AS placed_tokens_total
FROM (SELECT *, arrayMap(pair -> pair.2, arraySort(arrayFilter(pair -> pair.1 != 0, arrayMap((entry, last) -> (entry.2, if(last.1 = entry.1, last.3, 0)), arraySort(arrayConcat(arrayMap((key, value) -> (key, toUInt32(0), value), ids, arrayEnumerate(ids)), arrayMap((key, place) -> (key, place, toUInt32(0)), parents, arrayEnumerate(ids)))), arrayFill(entry -> entry.2 = 0, arraySort(arrayConcat(arrayMap((key, value) -> (key, toUInt32(0), value), ids, arrayEnumerate(ids)), arrayMap((key, place) -> (key, place, toUInt32(0)), parents, arrayEnumerate(ids))))))))) AS above
FROM (SELECT *, if(is_nested, arrayConcat(report_ids, link_ids), []) AS ids, if(is_nested, linked, []) AS parents
FROM (SELECT *, arrayConcat(report_parents, link_parents) AS linked, notEmpty(arrayIntersect(report_ids, linked)) AS is_nested
FROM (
SELECT
    trace_id,
    groupArrayIf(tokens_prompt, is_report) AS at_tokens_prompt, groupArrayIf(tokens_completion, is_report) AS at_tokens_completion, groupArrayIf(tokens_total, is_report) AS at_tokens_total,
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
        tokens_prompt != 0 OR tokens_completion != 0 OR tokens_total != 0 AS is_report,
        NOT is_report AND parent != 0 AS is_link
    FROM (SELECT trace_id, span_id, parent_id, usage_is_own, tokens_prompt, tokens_completion, tokens_total, costs_prompt, costs_completion, costs_total, errors FROM (
SELECT trace_id, span_id, partition_id, intDiv(version, 2) AS record_offset, start_us, parent_id, usage_is_own, tokens_prompt, tokens_completion, tokens_total, costs_prompt, costs_completion, costs_total, errors
FROM span_versions FINAL
WHERE {of_project}
    AND (1)
    AND version % 2 = 0
ORDER BY trace_id, span_id, record_ms DESC, version DESC, partition_id DESC
LIMIT 1 BY trace_id, span_id
))
)
GROUP BY trace_id
))))))))))))))) WHERE (tokens_prompt != 0 OR tokens_completion != 0 OR tokens_total != 0) AND isFinite(tokens_prompt) AND isFinite(tokens_completion) AND isFinite(tokens_total) AND (tokens_total != 0) AND match(if(tokens_total = trunc(tokens_total) AND tokens_total >= -pow(2., 63) AND tokens_total < pow(2., 64), toString(toInt128(tokens_total)), arrayMap(number -> if(NOT match(number, '^-?[0-9]{19}') OR toInt128OrZero(number) BETWEEN -9223372036854775808 AND 18446744073709551615, number, concat(replaceRegexpOne(replaceRegexpOne(number, '0+$', ''), '^(-?[0-9])([0-9])', '\\1.\\2'), 'e+', toString(length(replaceOne(number, '-', '')) - 1))), [replaceRegexpOne(replaceRegexpOne(replaceRegexpOne(replaceRegexpOne(toString(tokens_total), 'e([0-9])', 'e+\\1'), '^(-?)0[.]00000([0-9])', '\\1\\2.e-6 '), '[.]e-6 ([0-9]+)$', '.\\1e-6'), '[.]e-6 $', 'e-6')])[1]), {p2:String})), (indexHint(mapContains(leaves, {p1:String})) AND (((startsWith(leaves[{p1:String}], 's') OR startsWith(leaves[{p1:String}], 'n')) AND match(substring(leaves[{p1:String}], 2), {p2:String})))))))
ORDER BY start_us DESC, span_id DESC, trace_id DESC
LIMIT {candidates:UInt32}
