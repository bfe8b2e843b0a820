-- Attributes stored once (ADR 0028). `attributes_template` is their JSON text with U+0000 in place of each scalar, and
-- `leaves` has the scalars in the same order (common/clickhouse/templates.py). `attributes` is '' where there is a
-- template; rows that were stored before have their JSON text there. Read `attributes_json`.
ALTER TABLE spans{on_cluster}
    ADD COLUMN IF NOT EXISTS attributes_template LowCardinality(String) AFTER attributes,
    ADD COLUMN IF NOT EXISTS attributes_json String ALIAS
        if(
            attributes_template = '',
            attributes,
            arrayStringConcat(
                arrayMap(
                    (piece, value) -> concat(piece, value),
                    -- The lengths are equal but for rows without a template, of which the engine may compute this too.
                    arrayResize(
                        splitByChar('\0', toString(attributes_template)),
                        1 + arrayCount(leaf -> leaf NOT IN ('o', 'a'), mapValues(leaves))
                    ),
                    arrayPushBack(
                        arrayMap(
                            leaf -> multiIf(
                                startsWith(leaf, 's'), toJSONString(substring(leaf, 2)),
                                startsWith(leaf, 'n'), substring(leaf, 2),
                                leaf = 'b1', 'true',
                                'false'
                            ),
                            arrayFilter(leaf -> leaf NOT IN ('o', 'a'), mapValues(leaves))
                        ),
                        ''
                    )
                )
            )
        );
