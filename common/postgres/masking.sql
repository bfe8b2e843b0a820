-- rules_of --
SELECT rules, values_count, masked_at, updated_at, updated_by FROM masking WHERE project_id = $1;

-- replace_rules --
-- The first hash key of a project stays.
INSERT INTO masking (project_id, rules, hash_key, updated_by) VALUES ($1, $2, $3, $4)
ON CONFLICT (project_id) DO UPDATE SET rules = excluded.rules, updated_by = excluded.updated_by, updated_at = now()
RETURNING rules, values_count, masked_at, updated_at, updated_by;

-- all_rules --
SELECT project_id, rules, hash_key FROM masking WHERE rules != '[]';

-- add_counts --
-- In the order of ids, so that two workers wait for each other without a deadlock.
WITH counted AS (
    SELECT masking.project_id, amount.values_count
    FROM masking JOIN unnest($1::uuid[], $2::bigint[]) AS amount (project_id, values_count) USING (project_id)
    ORDER BY masking.project_id FOR UPDATE OF masking
)
UPDATE masking SET values_count = masking.values_count + counted.values_count, masked_at = now()
FROM counted WHERE masking.project_id = counted.project_id;
