-- The steps of the rule of usage, each a query over the one before, because the engine plans an expression again
-- wherever it is repeated. The first reads `reported`: trace_id, span_id, parent_id, usage_is_own, cost_is_computed and
-- the columns of Metrics, one row for each span. The last has one row for each trace.
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
    groupArrayIf(cost_is_computed, is_report) AS report_is_computed,
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
    if(is_nested, linked, []) AS parents,
    is_nested AND has(report_is_computed, 1) AND arrayExists(
        (is_computed, p, c, t) -> NOT is_computed AND (p != 0 OR c != 0 OR t != 0),
        report_is_computed, at_costs_prompt, at_costs_completion, at_costs_total
    ) AS is_mixed
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
    arrayResize(at_errors, length(ids)) AS errors_at,
    arrayResize(report_is_computed, if(is_mixed, length(ids), 0)) AS mixed_computed,
    arrayResize(mixed_computed, length(ids)) AS computed
FROM lined

-- mixed --
-- In a mixed trace some costs were sent and some are computed. The arrays are empty for all others.
SELECT
    *,
    arrayResize(report_is_own, length(mixed_computed)) AS mixed_own,
    arrayResize(costs_prompts, length(mixed_computed)) AS mixed_prompts,
    arrayResize(costs_completions, length(mixed_computed)) AS mixed_completions,
    arrayResize(costs_totals, length(mixed_computed)) AS mixed_totals
FROM placed

-- reporting --
SELECT
    *,
    arrayMap(
        (p, c, t) -> p != 0 OR c != 0 OR t != 0, mixed_prompts, mixed_completions, mixed_totals
    ) AS mixed_reports
FROM mixed

-- grouped --
-- Which places report: a prompt, a completion, anything, and a part of the total (or a total that is more than its
-- parts). Most of these sets are equal, so each distinct one is judged once. A report that is alone in its set
-- counts. Of costs, the first five sets are those that were sent, unless all are computed. A mixed trace has six more:
-- five of what is computed, where a cost that was sent has every part, and the costs sent that may cover what is below.
SELECT
    *,
    arrayConcat([
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
        arrayMap((p, is_computed) -> p != 0 AND NOT is_computed, costs_prompts, computed),
        arrayMap((c, is_computed) -> c != 0 AND NOT is_computed, costs_completions, computed),
        arrayMap(
            (p, c, t, is_computed) -> (p != 0 OR c != 0 OR t != 0) AND NOT is_computed,
            costs_prompts, costs_completions, costs_totals, computed
        ),
        arrayMap(
            (p, c, t, is_computed) -> (p != 0 OR t > (p + c) * 1.000000001) AND NOT is_computed,
            costs_prompts, costs_completions, costs_totals, computed
        ),
        arrayMap(
            (p, c, t, is_computed) -> (c != 0 OR t > (p + c) * 1.000000001) AND NOT is_computed,
            costs_prompts, costs_completions, costs_totals, computed
        ),
        arrayMap(e -> e != 0, errors_at)
    ], arrayResize([
        arrayMap((p, r, is_computed) -> if(is_computed, p != 0, r), mixed_prompts, mixed_reports, mixed_computed),
        arrayMap((c, r, is_computed) -> if(is_computed, c != 0, r), mixed_completions, mixed_reports, mixed_computed),
        mixed_reports,
        arrayMap(
            (p, c, t, r, is_computed) -> if(is_computed, p != 0 OR t > (p + c) * 1.000000001, r),
            mixed_prompts, mixed_completions, mixed_totals, mixed_reports, mixed_computed
        ),
        arrayMap(
            (p, c, t, r, is_computed) -> if(is_computed, c != 0 OR t > (p + c) * 1.000000001, r),
            mixed_prompts, mixed_completions, mixed_totals, mixed_reports, mixed_computed
        ),
        arrayMap(
            (r, is_computed, is_own) -> r AND NOT is_computed AND NOT is_own, mixed_reports, mixed_computed, mixed_own
        )
    ], if(is_mixed, 6, 0))) AS sets,
    length(ids) < 64 AS is_small,
    arrayMap(
        place -> bitShiftLeft(toUInt64(1), place),
        arrayResize(arrayEnumerate(ids), if(is_small, length(ids), 0))
    ) AS bits,
    arrayResize(above, length(bits)) AS small_above,
    arrayMap(place -> bitShiftLeft(toUInt64(1), place), small_above) AS parent_bits,
    arrayReduce('groupBitOr', parent_bits) AS all_parents,
    arrayExists((bit, parent) -> parent != 0 AND bitAnd(bit, all_parents) != 0, bits, small_above) AS is_deep
FROM reporting

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
    ) AS reported_below,
    arrayDistinct(arrayConcat(
        arrayFilter(members -> arrayCount(members) > 1, arrayResize(sets, if(is_small, 0, length(sets)))),
        arraySlice(sets, 17, if(is_small, 0, 1))
    )) AS judged_sets
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

-- covering --
-- In a mixed trace: which costs that were sent cover what is computed below them, namely those that count. `next` is
-- the first cost above each report of a large trace that may cover it.
SELECT
    *,
    arrayResize(report_is_computed, if(is_mixed, length(report_ids), 0)) AS of_computed,
    arrayMap(
        (is_member, counts) -> is_member AND counts,
        arrayResize(sets[17], length(of_computed)), arrayResize(count_in_sets[8], length(of_computed))
    ) AS covers,
    arraySlice(
        nearest, (indexOf(judged_sets, sets[17]) - 1) * length(ids) + 1, if(is_small, 0, length(of_computed))
    ) AS next
FROM decided

-- ahead --
SELECT
    *,
    arrayReduce(
        'groupBitOr', arrayMap((does_cover, bit) -> if(does_cover, bit, 0), covers, arrayResize(bits, length(covers)))
    ) AS covering_bits,
    (indexOf(judged_sets, sets[17]) - 1) * length(ids) AS places_before,
    arraySort(arrayConcat(
        arrayMap((does_cover, place) -> (toInt64(place), toUInt32(0), does_cover), covers, arrayEnumerate(covers)),
        arrayMap(
            (above, place) -> (if(above = 0, 0, above - places_before), place, toUInt8(0)), next, arrayEnumerate(next)
        )
    )) AS covering_line
FROM covering

-- covered --
SELECT
    *,
    if(
        is_small,
        arrayMap(found -> bitAnd(found, covering_bits) != 0, arrayResize(bits_above, length(covers))),
        arrayMap(pair -> pair.2, arraySort(arrayFilter(pair -> pair.1 != 0, arrayMap(
            (entry, found) -> (entry.2, if(found.1 = entry.1, found.3, 0)),
            covering_line, arrayFill(entry -> entry.2 = 0, covering_line)
        ))))
    ) AS is_covered
FROM ahead

-- settled --
-- Which costs count: of those that were sent, and of those that are computed, unless one that was sent covers them.
SELECT
    *,
    if(
        is_mixed,
        arrayMap(
            (sent, listed) -> arrayMap(
                (counts_sent, counts_listed, is_computed, is_hidden) ->
                    if(is_computed, counts_listed AND NOT is_hidden, counts_sent),
                arrayResize(sent, length(covers)), arrayResize(listed, length(covers)), of_computed, is_covered
            ),
            arraySlice(count_in_sets, 6, 5), arrayResize(arraySlice(count_in_sets, 12, 5), 5)
        ),
        arraySlice(count_in_sets, 6, 5)
    ) AS count_in_costs
FROM covered

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
        at_costs_prompt, count_in_costs[1], report_is_own
    ) AS counted_costs_prompt,
    arrayMap(
        (amount, counts, is_own) -> if(counts OR is_own, amount, 0),
        at_costs_completion, count_in_costs[2], report_is_own
    ) AS counted_costs_completion,
    arrayMap(
        (p, c, t, counts, counts_p, counts_c, is_own) ->
            if(counts OR is_own, t, if(counts_p, p, 0) + if(counts_c, c, 0)),
        at_costs_prompt, at_costs_completion, at_costs_total,
        count_in_costs[3], count_in_costs[4], count_in_costs[5], report_is_own
    ) AS counted_costs_total,
    arrayMap((amount, counts) -> if(counts, amount, 0), at_errors, count_in_sets[11]) AS counted_errors
FROM settled
