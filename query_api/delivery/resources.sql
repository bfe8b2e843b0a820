-- lock_project --
-- Creations of one project wait for each other, so that none exceeds the limit.
SELECT id FROM projects WHERE id = $1 FOR UPDATE;

-- count --
SELECT count(*) AS number FROM {table} WHERE project_id = $1;

-- create --
INSERT INTO {table} (project_id, created_by, {names}) VALUES ($1, $2, {values})
RETURNING {columns};

-- find --
SELECT {columns} FROM {table} WHERE project_id = $1 AND (id = $2 OR slug = $3);

-- list --
SELECT {columns} FROM {table} WHERE project_id = $1 ORDER BY id;

-- find_secrets --
SELECT secrets FROM {table} WHERE project_id = $1 AND id = $2;

-- change --
UPDATE {table} SET updated_by = $3, updated_at = clock_timestamp(), {assignments}
WHERE project_id = $1 AND id = $2 AND {condition}
RETURNING {columns};

-- delete --
DELETE FROM {table} WHERE project_id = $1 AND id = $2
RETURNING {columns};
