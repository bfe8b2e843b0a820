-- The steps of the rule of usage, each a query over the one before, because the engine plans an expression again
-- wherever it is repeated (`{before}`). The first reads trace_id, span_id, parent_id, usage_is_own, cost_is_computed and
-- the columns of Metrics, one row for each span. The last has one row for each trace.
--
-- A place is the index of a span in its trace, from 1; 0 is none. No lambda over spans holds an array: the engine
-- copies it for each element. It may hold a bitmap, of which the engine copies the address.

-- entries --
-- What a span reports, as bits: 1 a prompt, 2 a completion, 4 anything, 8 and 16 a prompt and a completion of the
-- total, which a total that is more than its parts has, too. 32768 is an error.
SELECT
    *,
    reinterpretAsUInt128(span_id) AS id,
    if(parent_id = span_id, 0, reinterpretAsUInt128(parent_id)) AS parent,
    bitOr(
        bitOr((1 + 4 + 8) * (tokens_prompt != 0), (2 + 4 + 16) * (tokens_completion != 0)),
        bitOr(
            4 * (tokens_total != 0),
            (8 + 16) * (tokens_total > (tokens_prompt + tokens_completion) * 1.000000001)
        )
    ) + 32768 * (errors != 0) AS tokens_and_errors,
    bitOr(
        bitOr((1 + 4 + 8) * (costs_prompt != 0), (2 + 4 + 16) * (costs_completion != 0)),
        bitOr(
            4 * (costs_total != 0),
            (8 + 16) * (costs_total > (costs_prompt + costs_completion) * 1.000000001)
        )
    ) AS costs
FROM {before}

-- claims --
-- What may count of a span. The bits of costs that were sent are multiplied by 32, those of list prices by 1024.
SELECT
    *,
    toUInt32(tokens_and_errors + costs * if(cost_is_computed, 1024, 32)) AS claims
FROM {before}

-- sets --
-- Each bit is a set of reports that is judged by itself. Among list prices, a cost that was sent has every part. 65536
-- is a cost that was sent: it covers the list prices below it if it counts, unless it is the span's own. What is the
-- span's own counts in any case, except errors.
SELECT
    *,
    claims != 0 AS is_report,
    NOT is_report AND parent != 0 AS is_link,
    toUInt32(claims + if(cost_is_computed OR costs = 0, 0, 31 * 1024 + if(usage_is_own, 0, 65536))) AS sets,
    if(usage_is_own, bitAnd(claims, 32767), 0) AS own
FROM {before}

-- traces --
-- The reports and links of a trace. A span that neither reports nor has a parent leads nowhere.
SELECT
    trace_id,
    groupArrayIf(id, is_report) AS report_ids,
    groupArrayIf(parent, is_report) AS report_parents,
    groupArrayIf(claims, is_report) AS report_claims,
    groupArrayIf(sets, is_report) AS report_sets,
    groupArrayIf(own, is_report) AS report_own,
    groupArrayIf(id, is_link) AS link_ids,
    groupArrayIf(parent, is_link) AS link_parents,
    groupArrayIf(tokens_prompt, is_report) AS at_tokens_prompt,
    groupArrayIf(tokens_completion, is_report) AS at_tokens_completion,
    groupArrayIf(tokens_total, is_report) AS at_tokens_total,
    groupArrayIf(costs_prompt, is_report) AS at_costs_prompt,
    groupArrayIf(costs_completion, is_report) AS at_costs_completion,
    groupArrayIf(costs_total, is_report) AS at_costs_total,
    groupArrayIf(errors, is_report) AS at_errors
FROM {before}
GROUP BY trace_id

-- nested --
-- In most traces no report has a span below it. Then every report counts, and the arrays of places stay empty.
-- What only the last steps read is one array, because the engine plans each column again in each step.
SELECT
    trace_id,
    report_sets,
    arrayZip(
        report_ids, report_claims, report_own,
        at_tokens_prompt, at_tokens_completion, at_tokens_total,
        at_costs_prompt, at_costs_completion, at_costs_total, at_errors
    ) AS report_rows,
    arrayConcat(report_parents, link_parents) AS linked,
    notEmpty(arrayIntersect(report_ids, linked)) AS is_nested,
    if(is_nested, arrayConcat(report_ids, link_ids), []) AS ids,
    if(is_nested, linked, []) AS parents
FROM {before}

-- lined --
-- The place of each span's parent. A join by sorting: in one sorted line, each id comes before the parents that are
-- equal to it.
SELECT
    *,
    arraySort(arrayConcat(
        arrayMap((id, place) -> (id, toUInt32(0), place), ids, arrayEnumerate(ids)),
        arrayMap((parent, place) -> (parent, place, toUInt32(0)), parents, arrayEnumerate(ids))
    )) AS line
FROM {before}

-- placed --
SELECT
    *,
    arrayMap(
        (entry, found) -> (entry.2, if(found.1 = entry.1, found.3, 0)),
        line, arrayFill(entry -> entry.2 = 0, line)
    ) AS pairs,
    arrayMap(pair -> pair.2, arraySort(arrayFilter(pair -> pair.1 != 0, pairs))) AS above,
    arrayResize(report_sets, length(ids)) AS place_sets,
    length(ids) < 64 AS is_small,
    arrayMap(
        place -> bitShiftLeft(toUInt64(1), place),
        arrayResize(arrayEnumerate(ids), if(is_small, length(ids), 0))
    ) AS bits
FROM {before}

-- grouped --
-- The sets as kinds of reports in a small trace, of which most have few, and as arrays of places in a large one.
SELECT
    *,
    arrayResize(above, length(bits)) AS small_above,
    arrayMap(place -> bitShiftLeft(toUInt64(1), place), small_above) AS parent_bits,
    arrayReduce('groupBitOr', parent_bits) AS all_parents,
    arrayExists((bit, parent) -> parent != 0 AND bitAnd(bit, all_parents) != 0, bits, small_above) AS is_deep,
    arrayResize(place_sets, length(bits)) AS small_sets,
    arrayDistinct(arrayFilter(sets -> sets != 0, small_sets)) AS kinds,
    arrayMap(
        set -> arrayMap(sets -> bitTest(sets, set), place_sets), range(if(is_small, 0, 17))
    ) AS large_sets
FROM {before}

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
    arrayDistinct(arrayFilter(
        (members, set) -> arrayCount(members) > if(set = 17, 0, 1), large_sets, arrayEnumerate(large_sets)
    )) AS judged_sets
FROM {before}

-- repeated --
-- The places once for each judged set, one set after the other. In a small trace, `reached` are the places above the
-- reports of each kind: most are equal.
SELECT
    *,
    arrayMap(
        kind -> arrayReduce(
            'groupBitOr', arrayMap((sets, found) -> if(sets = kind, found, 0), small_sets, bits_above)
        ),
        kinds
    ) AS reached,
    (indexOf(judged_sets, large_sets[17]) - 1) * length(ids) AS places_before,
    arrayFlatten(judged_sets) AS reports,
    arrayEnumerate(reports) AS places,
    arrayFlatten(arrayMap(
        set -> arrayMap(place -> if(place = 0, 0, place + toUInt32((set - 1) * length(ids))), above),
        arrayEnumerate(judged_sets)
    )) AS ups
FROM {before}

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
FROM {before}

-- judged --
-- A place counts unless another report leads to it.
SELECT
    *,
    bitmapBuild(arrayFilter(
        (place, is_end, source) -> is_end AND place != source, nearest, reports, places
    )) AS repeats
FROM {before}

-- below --
-- The sets in which another report is below a place, and those in which each report is the innermost one.
SELECT
    *,
    arrayConcat(
        arrayMap(
            bit -> arrayReduce(
                'groupBitOr', arrayMap((kind, found) -> if(bitAnd(found, bit) != 0, kind, 0), kinds, reached)
            ),
            bits
        ),
        arrayReduce('groupBitOrForEach', arrayMap(
            (judged, set) -> arrayMap(
                (place, sets) -> if(bitmapContains(repeats, place), sets, 0),
                range(toUInt32((set - 1) * length(ids) + 1), toUInt32(set * length(ids) + 1)),
                arrayResize(emptyArrayUInt32(), length(ids), arrayReduce('groupBitOr', arrayMap(
                    (members, bit) -> if(members = judged, toUInt32(bitShiftLeft(toUInt32(1), bit)), 0),
                    large_sets, range(length(large_sets))
                )))
            ),
            judged_sets, arrayEnumerate(judged_sets)
        ))
    ) AS below,
    arrayMap(
        (sets, found) -> bitAnd(sets, bitNot(bitAnd(found, 65535))),
        report_sets, arrayResize(below, length(report_sets))
    ) AS innermost
FROM {before}

-- decided --
-- In which sets each report counts: all of a set do if none would (reports in a circle). And which costs cover the list
-- prices below them: those that were sent and count.
SELECT
    *,
    bitAnd(arrayReduce('groupBitOr', report_sets), bitNot(arrayReduce('groupBitOr', innermost))) AS circular,
    arrayMap((sets, counts) -> bitOr(counts, bitAnd(sets, circular)), report_sets, innermost) AS counts_in,
    arrayMap(counts -> bitAnd(counts, 128 + 65536) = 128 + 65536, counts_in) AS covers
FROM {before}

-- settled --
-- What counts of each report, as bits: list prices only where no cost covers them.
SELECT
    *,
    arrayReduce(
        'groupBitOr', arrayMap((does_cover, bit) -> if(does_cover, bit, 0), covers, arrayResize(bits, length(covers)))
    ) AS covering_bits,
    bitmapBuild(arrayMap(
        place -> toUInt32(place + places_before),
        arrayFilter((place, does_cover) -> does_cover, arrayEnumerate(covers), covers)
    )) AS covering,
    arrayResize(
        arrayConcat(
            arrayMap(found -> bitAnd(found, covering_bits) != 0, bits_above),
            arrayMap(
                place -> bitmapContains(covering, place),
                arraySlice(nearest, places_before + 1, if(is_small OR places_before < 0, 0, length(ids)))
            )
        ),
        length(covers)
    ) AS is_covered,
    arrayMap(
        (counts, report, is_hidden) ->
            bitOr(bitAnd(bitAnd(counts, report.2), if(is_hidden, 32768 + 1023, 65535)), report.3),
        counts_in, report_rows, is_covered
    ) AS counting
FROM {before}

-- counted_reports --
-- What each report says (at_*), and what counts of it (counted_*); of costs, either a sent one or a list price.
SELECT
    trace_id,
    report_rows.1 AS report_ids,
    report_rows.6 AS at_tokens_total,
    report_rows.9 AS at_costs_total,
    arrayMap((report, counts) -> if(bitAnd(counts, 1) != 0, report.4, 0), report_rows, counting)
        AS counted_tokens_prompt,
    arrayMap((report, counts) -> if(bitAnd(counts, 2) != 0, report.5, 0), report_rows, counting)
        AS counted_tokens_completion,
    arrayMap(
        (report, counts) -> if(
            bitAnd(counts, 4) != 0,
            report.6,
            if(bitAnd(counts, 8) != 0, report.4, 0) + if(bitAnd(counts, 16) != 0, report.5, 0)
        ),
        report_rows, counting
    ) AS counted_tokens_total,
    arrayMap((report, counts) -> if(bitAnd(counts, 33 * 32) != 0, report.7, 0), report_rows, counting)
        AS counted_costs_prompt,
    arrayMap((report, counts) -> if(bitAnd(counts, 33 * 64) != 0, report.8, 0), report_rows, counting)
        AS counted_costs_completion,
    arrayMap(
        (report, counts) -> if(
            bitAnd(counts, 33 * 128) != 0,
            report.9,
            if(bitAnd(counts, 33 * 256) != 0, report.7, 0) + if(bitAnd(counts, 33 * 512) != 0, report.8, 0)
        ),
        report_rows, counting
    ) AS counted_costs_total,
    arrayMap((report, counts) -> if(bitAnd(counts, 32768) != 0, report.10, 0), report_rows, counting)
        AS counted_errors
FROM {before}
