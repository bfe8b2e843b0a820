-- p1 = "ag.metrics.tokens.cumulative.total"
-- p2 = 100
-- p3 = 100
-- candidates = 10
SELECT start_us, span_id, trace_id, partition_id, version, parent_id, response_bytes, members
FROM spans
WHERE project_id = {project_id:UUID}
    AND ((arrayMap(stored -> stored != (parent_id = toFixedString(unhex('00000000000000000000000000000000'), 16) AND (trace_id, stored) IN (SELECT trace_id, NOT ((tokens_total != 0) AND (tokens_total > {p3:Int128})) FROM usage_of_tokens WHERE (tokens_prompt != 0 OR tokens_completion != 0 OR tokens_total != 0) AND isFinite(tokens_prompt) AND isFinite(tokens_completion) AND isFinite(tokens_total))), [(indexHint(mapContains(leaves, {p1:String})) AND multiIf(NOT match(leaves[{p1:String}], '^(?:n|s-?(0|[1-9][0-9]*)([.][0-9]+)?([eE][-+]?[0-9]+)?$)'), 0, length(leaves[{p1:String}]) <= 21 AND match(leaves[{p1:String}], '^.-?[0-9]+$') AND toInt128OrZero(substring(leaves[{p1:String}], 2)) BETWEEN -9223372036854775808 AND 18446744073709551615, toInt128OrZero(substring(leaves[{p1:String}], 2)) > {p2:Int128}, toFloat64OrZero(substring(leaves[{p1:String}], 2)) > {p2:Int128}))])[1]))
ORDER BY start_us DESC, span_id DESC, trace_id DESC
LIMIT {candidates:UInt32}
