-- Attributes stored once (ADR 0028). `attributes_template` is their JSON text with U+0000 in place of each scalar, and
-- `leaves` has the scalars in the same order (common/clickhouse/templates.py). `attributes` is '' where there is a
-- template; rows that were stored before have their JSON text there. `attributes_json` in
-- common/clickhouse/computed_columns.sql puts the two together.
ALTER TABLE spans{on_cluster}
    ADD COLUMN IF NOT EXISTS attributes_template LowCardinality(String) AFTER attributes;
