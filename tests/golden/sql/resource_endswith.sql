-- p1 = "attributes"
-- p2 = "a"
-- p3 = "(?i-s)5\\z"
SELECT start_us, span_id, trace_id, log, log_offset, parent_id, answer_bytes
FROM spans
WHERE {of_project}
    AND (arrayMap(shown -> (((startsWith(shown, 's') OR startsWith(shown, 'n')) AND match(substring(shown, 2), {p3:String}))), [arrayMap(typed -> if(startsWith(typed, 'n'), concat('n', multiIf(match(substring(typed, 2), 'e[0-9]'), replaceOne(substring(typed, 2), 'e', 'e+'), match(substring(typed, 2), '^-?0[.]00000[0-9]$'), replaceRegexpOne(substring(typed, 2), '0[.]00000', '') || 'e-6', match(substring(typed, 2), '^-?0[.]00000[0-9]'), replaceRegexpOne(substring(typed, 2), '0[.]00000([0-9])', '\\1.') || 'e-6', NOT match(substring(typed, 2), '^-?[0-9]{20,}$'), substring(typed, 2), toInt128OrZero(substring(typed, 2)) BETWEEN toInt128('-9223372036854775808') AND toInt128('18446744073709551615'), substring(typed, 2), replaceRegexpOne(replaceRegexpOne(substring(typed, 2), '^(-?[0-9])([0-9]*?)0*$', '\\1.\\2'), '[.]$', '') || 'e+' || toString(length(replaceOne(substring(typed, 2), '-', '')) - 1))), typed), [multiIf(startsWith(JSONExtractRaw(resource, {p1:String}, {p2:String}), '"'), concat('s', JSONExtractString(JSONExtractRaw(resource, {p1:String}, {p2:String}))), JSONExtractRaw(resource, {p1:String}, {p2:String}) = 'true', 'b1', JSONExtractRaw(resource, {p1:String}, {p2:String}) = 'false', 'b0', match(JSONExtractRaw(resource, {p1:String}, {p2:String}), '^[-0-9]'), concat('n', JSONExtractRaw(resource, {p1:String}, {p2:String})), '')])[1]])[1])
ORDER BY start_us DESC, span_id DESC, trace_id DESC
LIMIT {candidates:UInt32}
