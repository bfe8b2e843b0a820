-- latest_versions --
-- The latest version of each span that is not deleted (ADR 0003). Reads in the order of the table: 9 ms for 100,000
-- versions, against 70 ms when grouped. The condition {condition} is on trace_id and span_id alone.
SELECT
    trace_id, span_id, partition_id, intDiv(version, 2) AS record_offset, start_us, parent_id, usage_is_own,
    tokens_prompt, tokens_completion, tokens_total, costs_prompt, costs_completion, costs_total, errors
FROM span_versions FINAL
WHERE {of_project}
    AND ({condition})
    AND version % 2 = 0
ORDER BY trace_id, span_id, record_ms DESC, version DESC, partition_id DESC
LIMIT 1 BY trace_id, span_id

-- latest_versions_of_few --
-- The places of the same versions for a few of many traces. FINAL would merge the versions of all traces: twice the
-- processor time for 10,000 spans of a million.
SELECT trace_id, span_id, partition_id, intDiv(latest.1, 2) AS record_offset, latest.2 AS start_us
FROM
(
    SELECT trace_id, span_id, partition_id, argMax((version, start_us, record_ms), version) AS latest
    FROM span_versions
    PREWHERE {of_project}
        AND ({condition})
    GROUP BY trace_id, span_id, partition_id
    HAVING latest.1 % 2 = 0
)
ORDER BY trace_id, span_id, latest.3 DESC, latest.1 DESC, partition_id DESC
LIMIT 1 BY trace_id, span_id

-- sent_versions --
-- Every version of some spans, and every deletion (odd versions): the input of the same rule in Python.
SELECT trace_id, span_id, partition_id, version, record_ms, start_us{others}
FROM span_versions
PREWHERE {of_project}
    AND ({condition})

-- current_rows --
-- The rows at the places of some versions, and whether each matches a filter.
SELECT start_us, span_id, trace_id, partition_id, record_offset, response_bytes, {matching} AS matches
FROM spans
PREWHERE {of_project}
    AND start_us IN reinterpret({starts:String}, 'Array(Int64)')
    AND span_id IN reinterpret({span_ids:String}, 'Array(FixedString(16))')

-- delete_spans --
-- For each partition that has a span of {condition}, the odd version above its latest one: a redelivery of the record
-- stays below it, a new record is above it.
INSERT INTO span_versions (project_id, trace_id, span_id, partition_id, version, record_ms, start_us)
SELECT
    project_id,
    trace_id,
    span_id,
    partition_id,
    max(version) + 1 AS deletion,
    argMax(record_ms, version),
    argMax(start_us, version)
FROM span_versions
WHERE {of_project}
    AND {condition}
GROUP BY project_id, trace_id, span_id, partition_id
HAVING max(version) % 2 = 0

-- of_trace --
-- The condition of `delete_spans` for one trace.
trace_id = toFixedString(unhex({trace_id:String}), 16)

-- trace_sums --
-- What the spans of each trace used together: trace_id and the columns of Metrics.
SELECT
    trace_id,
    arraySum(counted_tokens_prompt) AS tokens_prompt,
    arraySum(counted_tokens_completion) AS tokens_completion,
    arraySum(counted_tokens_total) AS tokens_total,
    arraySum(counted_costs_prompt) AS costs_prompt,
    arraySum(counted_costs_completion) AS costs_completion,
    arraySum(counted_costs_total) AS costs_total,
    arraySum(counted_errors) AS errors
FROM ({usage})

-- counted_totals --
-- The spans whose totals do not count as a whole: trace_id, span_id, and what counts of their tokens and costs.
SELECT
    trace_id,
    reinterpretAsFixedString(report.1) AS span_id,
    report.2 AS counted_tokens,
    report.3 AS counted_costs
FROM
(
    SELECT
        trace_id,
        arrayJoin(arrayFilter(
            report -> report.2 != report.4 OR report.3 != report.5,
            arrayZip(report_ids, counted_tokens_total, counted_costs_total, at_tokens_total, at_costs_total)
        )) AS report
    FROM ({usage})
)

-- usage --
-- What the spans of each trace used, each model call once (ADR 0010). `counted` in usage.py is the same rule in
-- Python. The source is a SELECT of trace_id, span_id, parent_id, usage_is_own and the columns of Metrics, one row
-- for each span. The result has one row for each trace: report_ids, and as arrays in the same order what each report
-- says (at_*) and what counts of it (counted_*).
--
-- A place is the index of a span in its trace, from 1; 0 is none. Each step is a query over the one before, because
-- the engine plans an expression again wherever it is repeated. No lambda over spans holds an array: the engine
-- copies it for each element.
WITH
entries AS
(
    SELECT
        *,
        reinterpretAsUInt128(span_id) AS id,
        if(parent_id = span_id, 0, reinterpretAsUInt128(parent_id)) AS parent,
        tokens_prompt != 0 OR tokens_completion != 0 OR tokens_total != 0
            OR costs_prompt != 0 OR costs_completion != 0 OR costs_total != 0
            OR errors != 0 AS is_report,
        NOT is_report AND parent != 0 AS is_link
    FROM ({reports})
),
-- The reports and links of a trace. A span that neither reports nor has a parent leads nowhere.
traces AS
(
    SELECT
        trace_id,
        groupArrayIf(id, is_report) AS report_ids,
        groupArrayIf(parent, is_report) AS report_parents,
        groupArrayIf(usage_is_own, is_report) AS report_is_own,
        groupArrayIf(id, is_link) AS link_ids,
        groupArrayIf(parent, is_link) AS link_parents,
        groupArrayIf(tokens_prompt, is_report) AS at_tokens_prompt,
        groupArrayIf(tokens_completion, is_report) AS at_tokens_completion,
        groupArrayIf(tokens_total, is_report) AS at_tokens_total,
        groupArrayIf(costs_prompt, is_report) AS at_costs_prompt,
        groupArrayIf(costs_completion, is_report) AS at_costs_completion,
        groupArrayIf(costs_total, is_report) AS at_costs_total,
        groupArrayIf(errors, is_report) AS at_errors
    FROM entries
    GROUP BY trace_id
),
-- In most traces no report has a span below it. Then every report counts, and the arrays of places stay empty.
nested AS
(
    SELECT
        *,
        arrayConcat(report_parents, link_parents) AS linked,
        notEmpty(arrayIntersect(report_ids, linked)) AS is_nested,
        if(is_nested, arrayConcat(report_ids, link_ids), []) AS ids,
        if(is_nested, linked, []) AS parents
    FROM traces
),
-- The place of each span's parent. A join by sorting: in one sorted line, each id comes before the parents that are
-- equal to it.
lined AS
(
    SELECT
        *,
        arraySort(arrayConcat(
            arrayMap((id, place) -> (id, toUInt32(0), place), ids, arrayEnumerate(ids)),
            arrayMap((parent, place) -> (parent, place, toUInt32(0)), parents, arrayEnumerate(ids))
        )) AS line
    FROM nested
),
placed AS
(
    SELECT
        *,
        arrayMap(
            (entry, found) -> (entry.2, if(found.1 = entry.1, found.3, 0)),
            line, arrayFill(entry -> entry.2 = 0, line)
        ) AS pairs,
        arrayMap(pair -> pair.2, arraySort(arrayFilter(pair -> pair.1 != 0, pairs))) AS above,
        arrayResize(at_tokens_prompt, length(ids)) AS tokens_prompts,
        arrayResize(at_tokens_completion, length(ids)) AS tokens_completions,
        arrayResize(at_tokens_total, length(ids)) AS tokens_totals,
        arrayResize(at_costs_prompt, length(ids)) AS costs_prompts,
        arrayResize(at_costs_completion, length(ids)) AS costs_completions,
        arrayResize(at_costs_total, length(ids)) AS costs_totals,
        arrayResize(at_errors, length(ids)) AS errors_at
    FROM lined
),
-- Which places report: a prompt, a completion, anything, and a part of the total (or a total that is more than its
-- parts). Most of these sets are equal, so each distinct one is judged once. A report that is alone in its set
-- counts.
grouped AS
(
    SELECT
        *,
        [
            arrayMap(p -> p != 0, tokens_prompts),
            arrayMap(c -> c != 0, tokens_completions),
            arrayMap((p, c, t) -> p != 0 OR c != 0 OR t != 0, tokens_prompts, tokens_completions, tokens_totals),
            arrayMap(
                (p, c, t) -> p != 0 OR t > (p + c) * 1.000000001,
                tokens_prompts, tokens_completions, tokens_totals
            ),
            arrayMap(
                (p, c, t) -> c != 0 OR t > (p + c) * 1.000000001,
                tokens_prompts, tokens_completions, tokens_totals
            ),
            arrayMap(p -> p != 0, costs_prompts),
            arrayMap(c -> c != 0, costs_completions),
            arrayMap((p, c, t) -> p != 0 OR c != 0 OR t != 0, costs_prompts, costs_completions, costs_totals),
            arrayMap(
                (p, c, t) -> p != 0 OR t > (p + c) * 1.000000001,
                costs_prompts, costs_completions, costs_totals
            ),
            arrayMap(
                (p, c, t) -> c != 0 OR t > (p + c) * 1.000000001,
                costs_prompts, costs_completions, costs_totals
            ),
            arrayMap(e -> e != 0, errors_at)
        ] AS sets,
        length(ids) < 64 AS is_small,
        arrayFilter(
            members -> arrayCount(members) > 1,
            arrayDistinct(arrayResize(sets, if(is_small, 0, length(sets))))
        ) AS judged_sets,
        arrayMap(
            place -> bitShiftLeft(toUInt64(1), place),
            arrayResize(arrayEnumerate(ids), if(is_small, length(ids), 0))
        ) AS bits,
        arrayResize(above, length(bits)) AS small_above,
        arrayMap(place -> bitShiftLeft(toUInt64(1), place), small_above) AS parent_bits,
        arrayReduce('groupBitOr', parent_bits) AS all_parents,
        arrayExists((bit, parent) -> parent != 0 AND bitAnd(bit, all_parents) != 0, bits, small_above) AS is_deep
    FROM placed
),
-- In a small trace, the places above each place, at any depth, are the bits of an integer. Each round doubles how far
-- they reach. Lambdas may hold small arrays. This takes a fifth of the time of the steps below, which are for large
-- traces and have nothing to do for small ones.
climbed AS
(
    SELECT
        *,
        arrayFold(
            (at, round) -> (
                arrayMap((found, next) -> bitOr(found, at.1[next]), at.1, at.2),
                arrayMap(next -> at.2[next], at.2)
            ),
            range(if(is_deep, toUInt8(ceil(log2(length(bits)))), 0)),
            (parent_bits, small_above)
        ).1 AS climbed_bits,
        arrayMap((found, bit) -> bitAnd(found, bitNot(bit)), climbed_bits, bits) AS bits_above,
        arrayMap(
            members -> arrayReduce(
                'groupBitOr', arrayMap((is_member, found) -> if(is_member, found, 0), members, bits_above)
            ),
            arrayResize(sets, if(is_small, length(sets), 0))
        ) AS reported_below
    FROM grouped
),
-- The places once for each judged set, one set after the other.
repeated AS
(
    SELECT
        *,
        arrayFlatten(judged_sets) AS reports,
        arrayEnumerate(reports) AS places,
        arrayFlatten(arrayMap(
            set -> arrayMap(place -> if(place = 0, 0, place + toUInt32((set - 1) * length(ids))), above),
            arrayEnumerate(judged_sets)
        )) AS ups
    FROM climbed
),
-- The first report above each place. A place that does not report passes on where it leads, so each round doubles how
-- far every place has come: the rounds are the logarithm of the number of places, whatever the depth.
led AS
(
    SELECT
        *,
        arrayFold(
            (at, round) -> arrayMap(
                steps -> arrayMap(
                    pair -> pair.2,
                    arraySort(arrayFilter(
                        pair -> pair.1 != 0,
                        arrayMap(
                            (entry, found) -> (entry.2, if(found.1 = entry.1, found.3, 0)),
                            steps,
                            arrayFill(entry -> entry.2 = 0, steps)
                        )
                    ))
                ),
                [arraySort(arrayConcat(
                    arrayMap(
                        (is_end, place, next) -> (place, toUInt32(0), if(is_end, place, next)),
                        reports, places, at
                    ),
                    arrayMap((next, place) -> (next, place, toUInt32(0)), at, places)
                ))]
            )[1],
            range(toUInt8(ceil(log2(length(places) + 1)))),
            ups
        ) AS nearest
    FROM repeated
),
-- A place counts unless another report leads to it. In the sorted marks, such a place comes right after a mark of its
-- own with 0.
marked AS
(
    SELECT
        *,
        arraySort(arrayConcat(
            arrayMap(place -> (place, 1), places),
            arrayMap(place -> (place, 0), arrayDistinct(arrayFilter(
                (place, is_end, source) -> is_end AND place != 0 AND place != source,
                nearest, reports, places
            )))
        )) AS marks
    FROM led
),
judged AS
(
    SELECT
        *,
        arrayMap(pair -> pair.2, arrayFilter(pair -> pair.1, arrayMap(
            (mark, last) -> (mark.2 = 1, mark.1 != last.1),
            marks, arrayPopBack(arrayPushFront(marks, (0, 1)))
        ))) AS verdicts,
        arrayMap(
            (members, place) -> if(
                is_small,
                arrayMap(bit -> bitAnd(bit, reported_below[place]) = 0, bits),
                arraySlice(
                    verdicts,
                    (indexOf(judged_sets, members) - 1) * length(ids) + 1,
                    if(has(judged_sets, members), length(ids), 0)
                )
            ),
            sets, arrayEnumerate(sets)
        ) AS verdicts_of_sets
    FROM marked
),
-- Which reports count in each set. All do if the set was not judged, and if none would (reports in a circle).
decided AS
(
    SELECT
        *,
        arrayMap(
            (members, found) -> arrayResize(
                if(
                    arrayExists(
                        (counts, is_member) -> counts AND is_member,
                        arrayResize(found, length(members)), members
                    ),
                    found,
                    emptyArrayUInt8()
                ),
                length(report_ids),
                1
            ),
            sets, verdicts_of_sets
        ) AS count_in_sets
    FROM judged
)
SELECT
    trace_id,
    report_ids,
    at_tokens_total,
    at_costs_total,
    arrayMap(
        (amount, counts, is_own) -> if(counts OR is_own, amount, 0),
        at_tokens_prompt, count_in_sets[1], report_is_own
    ) AS counted_tokens_prompt,
    arrayMap(
        (amount, counts, is_own) -> if(counts OR is_own, amount, 0),
        at_tokens_completion, count_in_sets[2], report_is_own
    ) AS counted_tokens_completion,
    arrayMap(
        (p, c, t, counts, counts_p, counts_c, is_own) ->
            if(counts OR is_own, t, if(counts_p, p, 0) + if(counts_c, c, 0)),
        at_tokens_prompt, at_tokens_completion, at_tokens_total,
        count_in_sets[3], count_in_sets[4], count_in_sets[5], report_is_own
    ) AS counted_tokens_total,
    arrayMap(
        (amount, counts, is_own) -> if(counts OR is_own, amount, 0),
        at_costs_prompt, count_in_sets[6], report_is_own
    ) AS counted_costs_prompt,
    arrayMap(
        (amount, counts, is_own) -> if(counts OR is_own, amount, 0),
        at_costs_completion, count_in_sets[7], report_is_own
    ) AS counted_costs_completion,
    arrayMap(
        (p, c, t, counts, counts_p, counts_c, is_own) ->
            if(counts OR is_own, t, if(counts_p, p, 0) + if(counts_c, c, 0)),
        at_costs_prompt, at_costs_completion, at_costs_total,
        count_in_sets[8], count_in_sets[9], count_in_sets[10], report_is_own
    ) AS counted_costs_total,
    arrayMap((amount, counts) -> if(counts, amount, 0), at_errors, count_in_sets[11]) AS counted_errors
FROM decided

-- trace_after --
-- The id of the trace that holds the version `versions_max` after a trace: where a chunk of traces ends. Read in the
-- order of the table.
SELECT trace_id
FROM span_versions
WHERE {of_project}
    AND trace_id > toFixedString(unhex({after:String}), 16)
ORDER BY trace_id
LIMIT 1 OFFSET {versions_max:UInt32}

-- stored_traces --
-- The visible spans of each trace of a chunk: when the first and the last of them starts, how many they are and their
-- size, and how many of them are settled by {is_settled}, a condition on a version.
SELECT
    trace_id,
    min(start_us) AS earliest_us,
    max(start_us) AS latest_us,
    count() AS spans_count,
    sum(response_bytes) AS bytes_count,
    sum(is_settled) AS settled_count,
    sumIf(response_bytes, is_settled) AS settled_bytes
FROM
(
    SELECT trace_id, span_id, start_us, response_bytes, {is_settled} AS is_settled
    FROM span_versions FINAL
    WHERE {of_project}
        AND trace_id > toFixedString(unhex({after:String}), 16)
        AND trace_id <= toFixedString(unhex({through:String}), 16)
        AND version % 2 = 0
    ORDER BY trace_id, span_id, record_ms DESC, version DESC, partition_id DESC
    LIMIT 1 BY trace_id, span_id
)
GROUP BY trace_id

-- stored_hours --
-- Traces of a chunk by the hour in which their last span starts, those that are too old apart.
SELECT
    intDiv(latest_us, 3600000000) AS hour,
    latest_us < {before_us:Int64} AS is_old,
    min(earliest_us) AS oldest_us,
    count() AS traces_count,
    sum(spans_count) AS spans_sum,
    sum(bytes_count) AS bytes_sum
FROM ({stored_traces})
GROUP BY hour, is_old

-- stored_moments --
-- The same for each moment of some hours.
SELECT
    latest_us,
    min(earliest_us) AS oldest_us,
    count() AS traces_count,
    sum(spans_count) AS spans_sum,
    sum(bytes_count) AS bytes_sum
FROM ({stored_traces})
WHERE latest_us >= {from_us:Int64} AND latest_us < {to_us:Int64}
GROUP BY latest_us

-- old_traces --
-- What `delete_spans` deletes of a chunk.
SELECT
    min(earliest_us) AS oldest_us,
    count() AS traces_count,
    sum(settled_count) AS spans_sum,
    sum(settled_bytes) AS bytes_sum
FROM ({stored_traces})
WHERE latest_us < {before_us:Int64} AND settled_count > 0

-- of_old_traces --
-- The condition of `delete_spans` for the traces of a chunk whose last span starts before a time. Only settled versions
-- are deleted: a span that arrives while this runs may move its trace to a later time, and must not be lost.
trace_id > toFixedString(unhex({after:String}), 16)
    AND trace_id <= toFixedString(unhex({through:String}), 16)
    AND {is_settled}
    AND trace_id IN (SELECT trace_id FROM ({stored_traces}) WHERE latest_us < {before_us:Int64})
