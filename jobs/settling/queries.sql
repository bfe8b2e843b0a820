-- load --
SELECT
    run, time_us, clock_us, positions, pending,
    complete_run, complete_rest, complete_own, incomplete_run, incomplete_rest, incomplete_own
FROM settling;

-- now --
SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint AS now_us;

-- next_window --
-- The first window after a run, if it is not later than a time.
SELECT run, ranges FROM settling_windows WHERE run > $1 AND time_us <= $2 ORDER BY run LIMIT 1;

-- windows_since --
SELECT run, ranges FROM settling_windows WHERE time_us > $1 ORDER BY run;

-- finish --
-- Only the run that follows the last one is finished: of two jobs, the later one changes nothing.
UPDATE settling SET
    run = $1, time_us = $2, clock_us = $3, positions = $4, pending = $5,
    complete_run = $6, complete_rest = $7, complete_own = $8,
    incomplete_run = $9, incomplete_rest = $10, incomplete_own = $11
WHERE run = $1 - 1
RETURNING run;

-- note_window --
INSERT INTO settling_windows (run, time_us, ranges) VALUES ($1, $2, $3);

-- count_incomplete --
UPDATE settling_windows SET incomplete_count = incomplete_count + $2 WHERE run = $1;

-- forget_windows --
-- Those that were examined twice, for all projects.
DELETE FROM settling_windows WHERE run <= $1;

-- mark_inserted --
UPDATE settling SET pending = NULL WHERE run = $1;

-- rewind --
-- The windows that are kept are examined again: what settled of them may be missing in the tables.
UPDATE settling SET
    positions = $1, pending = NULL,
    complete_run = incomplete_run, complete_rest = incomplete_rest, complete_own = incomplete_own;
