-- p1 = "(?i-s)5"
-- candidates = 10
SELECT start_us, span_id, trace_id, partition_id, version, parent_id, response_bytes, members
FROM spans
WHERE project_id = {project_id:UUID}
    AND (((version >= 4611686018427387904 AND match(if(((end_us - start_us) / 1000) = trunc(((end_us - start_us) / 1000)) AND ((end_us - start_us) / 1000) >= -pow(2., 63) AND ((end_us - start_us) / 1000) < pow(2., 64), toString(toInt128(((end_us - start_us) / 1000))), arrayMap(number -> if(NOT match(number, '^-?[0-9]{19}') OR toInt128OrZero(number) BETWEEN -9223372036854775808 AND 18446744073709551615, number, concat(replaceRegexpOne(replaceRegexpOne(number, '0+$', ''), '^(-?[0-9])([0-9])', '\\1.\\2'), 'e+', toString(length(replaceOne(number, '-', '')) - 1))), [replaceRegexpOne(replaceRegexpOne(replaceRegexpOne(replaceRegexpOne(toString(((end_us - start_us) / 1000)), 'e([0-9])', 'e+\\1'), '^(-?)0[.]00000([0-9])', '\\1\\2.e-6 '), '[.]e-6 ([0-9]+)$', '.\\1e-6'), '[.]e-6 $', 'e-6')])[1]), {p1:String}))))
ORDER BY start_us DESC, span_id DESC, trace_id DESC
LIMIT {candidates:UInt32}
