-- p1 = 100
-- p2 = 200
-- p3 = "ag.metrics.tokens.incremental.total"
-- candidates = 10
SELECT start_us, span_id, trace_id, partition_id, version, parent_id, response_bytes, members
FROM spans
WHERE project_id = {project_id:UUID}
    AND ((indexHint(mapContains(leaves, {p3:String})) AND multiIf(NOT match(tokens_leaf, '^(?:n|s-?(0|[1-9][0-9]*)([.][0-9]+)?([eE][-+]?[0-9]+)?$)'), 0, length(tokens_leaf) <= 21 AND match(tokens_leaf, '^.-?[0-9]+$') AND toInt128OrZero(substring(tokens_leaf, 2)) BETWEEN -9223372036854775808 AND 18446744073709551615, toInt128OrZero(substring(tokens_leaf, 2)) >= {p1:Int128} AND toInt128OrZero(substring(tokens_leaf, 2)) <= {p2:Int128}, toFloat64OrZero(substring(tokens_leaf, 2)) >= {p1:Int128} AND toFloat64OrZero(substring(tokens_leaf, 2)) <= {p2:Int128})))
ORDER BY start_us DESC, span_id DESC, trace_id DESC
LIMIT {candidates:UInt32}
