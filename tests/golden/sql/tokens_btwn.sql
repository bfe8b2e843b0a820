-- p1 = "ag.metrics.tokens.incremental.total"
-- p2 = 100
-- p3 = 200
SELECT start_us, span_id, trace_id, partition_id, record_offset, parent_id, response_bytes, members
FROM spans
WHERE {of_project}
    AND ((indexHint(mapContains(leaves, {p1:String})) AND multiIf(NOT match(leaves[{p1:String}], '^(?:n|s-?(0|[1-9][0-9]*)([.][0-9]+)?([eE][-+]?[0-9]+)?$)'), 0, length(leaves[{p1:String}]) <= 21 AND match(leaves[{p1:String}], '^.-?[0-9]+$') AND toInt128OrZero(substring(leaves[{p1:String}], 2)) BETWEEN -9223372036854775808 AND 18446744073709551615, toInt128OrZero(substring(leaves[{p1:String}], 2)) >= {p2:Int128} AND toInt128OrZero(substring(leaves[{p1:String}], 2)) <= {p3:Int128}, toFloat64OrZero(substring(leaves[{p1:String}], 2)) >= {p2:Int128} AND toFloat64OrZero(substring(leaves[{p1:String}], 2)) <= {p3:Int128})))
ORDER BY start_us DESC, span_id DESC, trace_id DESC
LIMIT {candidates:UInt32}
