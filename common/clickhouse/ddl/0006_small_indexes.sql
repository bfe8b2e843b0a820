-- Indexes of a third the size (ADR 0032). The first has the pairs `path=value` of short values alone: typed texts of at
-- most 16 characters, of numbers with a fraction at most 6 (`has_pair` in common/clickhouse/leaves.py). Longer texts are
-- found by their words in `content`. Both posting lists are packed. The expression is that of `leaf_pairs` in
-- common/clickhouse/computed_columns.sql.
--
-- Rows that were stored before get the new indexes in the background; until then they are read without one.
-- An expression can have one text index.
ALTER TABLE spans{on_cluster} DROP INDEX IF EXISTS leaf_items_index, DROP INDEX IF EXISTS content_index;

ALTER TABLE spans{on_cluster}
    ADD INDEX IF NOT EXISTS leaf_pairs_index
        arrayMap(
            leaf -> concat(leaf.1, '=', leaf.2),
            arrayFilter(
                leaf -> match(leaf.2, '(?s)^([^n].{0,15}|n[^.]{0,15}|n.{0,5})$'),
                CAST(leaves, 'Array(Tuple(String, String))')
            )
        )
        TYPE text(tokenizer = 'array', posting_list_codec = 'bitpacking'),
    ADD INDEX IF NOT EXISTS words_index content
        TYPE text(tokenizer = 'splitByNonAlpha', posting_list_codec = 'bitpacking');

ALTER TABLE spans{on_cluster} MATERIALIZE INDEX leaf_pairs_index, MATERIALIZE INDEX words_index;
