-- p1 = "a.b.x"
-- p2 = "n1"
-- p3 = "a"
-- p4 = "b"
-- p5 = ["x"]
-- p6 = "[1]"
-- p7 = ["w"]
-- p8 = "y"
-- p9 = "z"
-- p10 = "[true,null]"
SELECT start_us, span_id, trace_id, partition_id, record_offset, parent_id, answer_bytes, members
FROM spans
WHERE {of_project}
    AND ((has(leaf_items, concat({p1:String}, '=', left({p2:String}, 64))) AND (JSONType(attributes, {p3:String}, {p4:String}) = 'Object' AND arrayAll((key, value) -> JSONExtractRaw(attributes, {p3:String}, {p4:String}, key) = value, {p5:Array(String)}, JSONExtractArrayRaw({p6:String})) AND arrayAll(key -> JSONExtractRaw(attributes, {p3:String}, {p4:String}, key) IN ('', 'null'), {p7:Array(String)}) AND (JSONType(attributes, {p3:String}, {p4:String}, {p8:String}) = 'Object' AND (JSONType(attributes, {p3:String}, {p4:String}, {p8:String}, {p9:String}) = 'Array' AND hasAll(JSONExtractArrayRaw(attributes, {p3:String}, {p4:String}, {p8:String}, {p9:String}), JSONExtractArrayRaw({p10:String})))))))
ORDER BY start_us DESC, span_id DESC, trace_id DESC
LIMIT {candidates:UInt32}
