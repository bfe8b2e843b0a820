-- Columns of `spans` that are computed from others. They are no ALIAS columns, because the engine analyses every ALIAS
-- column of a table in every statement (ADR 0028).

-- attributes_json --
-- The attributes as JSON text: their template with the leaves in its places (ADR 0028).
arrayStringConcat(
    arrayMap(
        (piece, leaf) -> concat(
            piece,
            multiIf(
                startsWith(leaf, 's'), toJSONString(substring(leaf, 2)),
                startsWith(leaf, 'n'), substring(leaf, 2),
                leaf = '', '',
                leaf = 'b1', 'true',
                'false'
            )
        ),
        splitByChar('\0', toString(attributes_template)),
        arrayPushBack(arrayFilter(leaf -> leaf NOT IN ('o', 'a'), mapValues(leaves)), '')
    )
)

-- leaf_pairs --
-- The pairs `path=value` of the leaves with short values, as the index `leaf_pairs_index` has them (ADR 0032). The
-- condition is one function: an index whose expression holds `AND` or `if` is not used, because the engine writes these
-- differently in a query.
arrayMap(
    leaf -> concat(leaf.1, '=', leaf.2),
    arrayFilter(
        leaf -> match(leaf.2, '(?s)^([^n].{0,15}|n[^.]{0,15}|n.{0,5})$'),
        CAST(leaves, 'Array(Tuple(String, String))')
    )
)
