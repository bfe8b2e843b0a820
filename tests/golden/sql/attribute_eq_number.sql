-- p1 = "a.b"
-- p2 = 5
-- candidates = 10
SELECT start_us, span_id, trace_id, partition_id, version, parent_id, response_bytes, members
FROM spans
WHERE project_id = {project_id:UUID}
    AND ((indexHint(mapContains(leaves, {p1:String})) AND multiIf(NOT match(leaves[{p1:String}], '^(?:n|s-?(0|[1-9][0-9]*)([.][0-9]+)?([eE][-+]?[0-9]+)?$)'), 0, length(leaves[{p1:String}]) <= 21 AND match(leaves[{p1:String}], '^.-?[0-9]+$') AND toInt128OrZero(substring(leaves[{p1:String}], 2)) BETWEEN -9223372036854775808 AND 18446744073709551615, toInt128OrZero(substring(leaves[{p1:String}], 2)) = {p2:Int128}, toFloat64OrZero(substring(leaves[{p1:String}], 2)) = {p2:Int128})))
ORDER BY start_us DESC, span_id DESC, trace_id DESC
LIMIT {candidates:UInt32}
