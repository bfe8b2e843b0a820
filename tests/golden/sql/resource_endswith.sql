-- p1 = "attributes.a"
-- p2 = "attributes"
-- p3 = "a"
-- p4 = "(?i-s)5\\z"
-- candidates = 10
SELECT start_us, span_id, trace_id, partition_id, version, parent_id, response_bytes, members
FROM spans
WHERE project_id = {project_id:UUID}
    AND ((arrayMap(visible -> (((startsWith(visible, 's') OR startsWith(visible, 'n')) AND match(substring(visible, 2), {p4:String}))), [arrayMap(typed -> if(startsWith(typed, 'n'), concat('n', arrayMap(number -> if(NOT match(number, '^-?[0-9]{19}') OR toInt128OrZero(number) BETWEEN -9223372036854775808 AND 18446744073709551615, number, concat(replaceRegexpOne(replaceRegexpOne(number, '0+$', ''), '^(-?[0-9])([0-9])', '\\1.\\2'), 'e+', toString(length(replaceOne(number, '-', '')) - 1))), [replaceRegexpOne(replaceRegexpOne(replaceRegexpOne(replaceRegexpOne(substring(typed, 2), 'e([0-9])', 'e+\\1'), '^(-?)0[.]00000([0-9])', '\\1\\2.e-6 '), '[.]e-6 ([0-9]+)$', '.\\1e-6'), '[.]e-6 $', 'e-6')])[1]), typed), [arrayMap(raw -> multiIf(startsWith(raw, '"'), concat('s', JSONExtractString(raw)), raw = 'true', 'b1', raw = 'false', 'b0', match(raw, '^[-0-9]'), concat('n', raw), ''), [if(resource_by_key != '' AND JSONHas(resource_by_key, {p1:String}), JSONExtractRaw(resource_by_key, {p1:String}), JSONExtractRaw(resource, {p2:String}, {p3:String}))])[1]])[1]])[1]))
ORDER BY start_us DESC, span_id DESC, trace_id DESC
LIMIT {candidates:UInt32}
