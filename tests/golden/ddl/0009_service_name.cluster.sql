-- `service.name` of the resource, in a column with an index: most queries name a service, and a rare one is found by it (ADR 0003). '' where
-- there is none, U+0000 where it is no text: no text holds that. Of rows that were there before the engine takes it from the resource.
ALTER TABLE spans ON CLUSTER `main` ADD COLUMN IF NOT EXISTS service_name LowCardinality(String)
    MATERIALIZED if(
        JSONType(resource, 'attributes', 'service', 'name') IN ('String', 'Null'),
        JSONExtractString(resource, 'attributes', 'service', 'name'),
        '\0'
    )
    CODEC(ZSTD(1)) AFTER scope;

ALTER TABLE spans ON CLUSTER `main` ADD INDEX IF NOT EXISTS service_name_index service_name TYPE bloom_filter(0.01) GRANULARITY 8;

-- Parts that are there already get both in the background; until then they are searched without the index.
ALTER TABLE spans ON CLUSTER `main` MATERIALIZE COLUMN service_name, MATERIALIZE INDEX service_name_index;
