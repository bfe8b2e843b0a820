-- p1 = "ag.metrics.tokens.cumulative.total"
-- p2 = "(?i-s)\\A1"
-- candidates = 10
SELECT start_us, span_id, trace_id, partition_id, version, parent_id, response_bytes, members
FROM spans
WHERE project_id = {project_id:UUID}
    AND ((arrayMap(stored -> stored != (parent_id = toFixedString(unhex('00000000000000000000000000000000'), 16) AND (trace_id, stored) IN (SELECT trace_id, NOT ((tokens_total != 0) AND match(if(tokens_total = trunc(tokens_total) AND tokens_total >= -pow(2., 63) AND tokens_total < pow(2., 64), toString(toInt128(tokens_total)), arrayMap(number -> if(NOT match(number, '^-?[0-9]{19}') OR toInt128OrZero(number) BETWEEN -9223372036854775808 AND 18446744073709551615, number, concat(replaceRegexpOne(replaceRegexpOne(number, '0+$', ''), '^(-?[0-9])([0-9])', '\\1.\\2'), 'e+', toString(length(replaceOne(number, '-', '')) - 1))), [replaceRegexpOne(replaceRegexpOne(replaceRegexpOne(replaceRegexpOne(toString(tokens_total), 'e([0-9])', 'e+\\1'), '^(-?)0[.]00000([0-9])', '\\1\\2.e-6 '), '[.]e-6 ([0-9]+)$', '.\\1e-6'), '[.]e-6 $', 'e-6')])[1]), {p2:String})) FROM usage_of_tokens WHERE (tokens_prompt != 0 OR tokens_completion != 0 OR tokens_total != 0) AND isFinite(tokens_prompt) AND isFinite(tokens_completion) AND isFinite(tokens_total))), [(indexHint(mapContains(leaves, {p1:String})) AND (((startsWith(leaves[{p1:String}], 's') OR startsWith(leaves[{p1:String}], 'n')) AND match(substring(leaves[{p1:String}], 2), {p2:String}))))])[1]))
ORDER BY start_us DESC, span_id DESC, trace_id DESC
LIMIT {candidates:UInt32}
