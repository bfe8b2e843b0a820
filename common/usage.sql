-- The steps of the rule of usage, each a query over the one before, because the engine plans an expression again
-- wherever it is repeated. The first reads `reported`: trace_id, span_id, parent_id, usage_is_own and the columns of
-- Metrics, one row for each span. The last has one row for each trace.
--
-- A place is the index of a span in its trace, from 1; 0 is none. No lambda over spans holds an array: the engine
-- copies it for each element.

-- entries --
SELECT
    *,
    reinterpretAsUInt128(span_id) AS id,
    if(parent_id = span_id, 0, reinterpretAsUInt128(parent_id)) AS parent,
    tokens_prompt != 0 OR tokens_completion != 0 OR tokens_total != 0
        OR costs_prompt != 0 OR costs_completion != 0 OR costs_total != 0
        OR errors != 0 AS is_report,
    NOT is_report AND parent != 0 AS is_link
FROM reported

-- traces --
-- The reports and links of a trace. A span that neither reports nor has a parent leads nowhere.
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

-- nested --
-- In most traces no report has a span below it. Then every report counts, and the arrays of places stay empty.
SELECT
    *,
    arrayConcat(report_parents, link_parents) AS linked,
    notEmpty(arrayIntersect(report_ids, linked)) AS is_nested,
    if(is_nested, arrayConcat(report_ids, link_ids), []) AS ids,
    if(is_nested, linked, []) AS parents
FROM traces

-- lined --
-- The place of each span's parent. A join by sorting: in one sorted line, each id comes before the parents that are
-- equal to it.
SELECT
    *,
    arraySort(arrayConcat(
        arrayMap((id, place) -> (id, toUInt32(0), place), ids, arrayEnumerate(ids)),
        arrayMap((parent, place) -> (parent, place, toUInt32(0)), parents, arrayEnumerate(ids))
    )) AS line
FROM nested

-- placed --
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

-- grouped --
-- Which places report: a prompt, a completion, anything, and a part of the total (or a total that is more than its
-- parts). Most of these sets are equal, so each distinct one is judged once. A report that is alone in its set
-- counts.
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

-- climbed --
-- In a small trace, the places above each place, at any depth, are the bits of an integer. Each round doubles how far
-- they reach. Lambdas may hold small arrays. This takes a fifth of the time of the steps below, which are for large
-- traces and have nothing to do for small ones.
SELECT
    *,
    arrayFold(
        (at, round) -> (
            arrayMap((found, next) -> bitOr(found, at.1[next]), at.1, at.2),
            arrayMap(next -> at.2[next], at.2)
        ),
        range(if(is_deep, toUInt8(ceil(log2(greatest(length(bits), 1)))), 0)),
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

-- repeated --
-- The places once for each judged set, one set after the other.
SELECT
    *,
    arrayFlatten(judged_sets) AS reports,
    arrayEnumerate(reports) AS places,
    arrayFlatten(arrayMap(
        set -> arrayMap(place -> if(place = 0, 0, place + toUInt32((set - 1) * length(ids))), above),
        arrayEnumerate(judged_sets)
    )) AS ups
FROM climbed

-- led --
-- The first report above each place. A place that does not report passes on where it leads, so each round doubles how
-- far every place has come: the rounds are the logarithm of the number of places, whatever the depth.
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

-- marked --
-- A place counts unless another report leads to it. In the sorted marks, such a place comes right after a mark of its
-- own with 0.
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

-- judged --
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

-- decided --
-- Which reports count in each set. All do if the set was not judged, and if none would (reports in a circle).
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

-- counted_reports --
-- What each report says (at_*), and what counts of it (counted_*).
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
