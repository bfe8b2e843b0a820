-- Indexes of a third the size (ADR 0032). `leaf_pairs` has the pairs `path=value` of short values alone: typed texts of
-- at most 16 characters, of numbers with a fraction at most 6 (`has_pair` in common/clickhouse/leaves.py). Longer texts
-- are found by their words in `content`. Both posting lists are packed. The condition is one function: an index whose
-- expression holds `AND` or `if` is not used, because the engine writes these differently in a query.
--
-- Rows that were stored before get the new indexes in the background; until then they are read without one.
ALTER TABLE spans{on_cluster}
    ADD COLUMN IF NOT EXISTS leaf_pairs Array(String) ALIAS
        arrayMap(
            leaf -> concat(leaf.1, '=', leaf.2),
            arrayFilter(
                leaf -> match(leaf.2, '(?s)^([^n].{0,15}|n[^.]{0,15}|n.{0,5})$'),
                CAST(leaves, 'Array(Tuple(String, String))')
            )
        );

-- An expression can have one text index.
ALTER TABLE spans{on_cluster} DROP INDEX IF EXISTS leaf_items_index, DROP INDEX IF EXISTS content_index;

ALTER TABLE spans{on_cluster}
    ADD INDEX IF NOT EXISTS leaf_pairs_index leaf_pairs
        TYPE text(tokenizer = 'array', posting_list_codec = 'bitpacking'),
    ADD INDEX IF NOT EXISTS words_index content
        TYPE text(tokenizer = 'splitByNonAlpha', posting_list_codec = 'bitpacking');

ALTER TABLE spans{on_cluster} MATERIALIZE INDEX leaf_pairs_index, MATERIALIZE INDEX words_index;
