-- An insert returns when its rows are on the disk, not in the memory of the system: the worker commits its records then,
-- so after a power failure nobody would deliver them again (ADR 0004).
ALTER TABLE spans{on_cluster} MODIFY SETTING fsync_after_insert = 1, fsync_part_directory = 1;

ALTER TABLE span_versions{on_cluster} MODIFY SETTING fsync_after_insert = 1, fsync_part_directory = 1;

ALTER TABLE span_arrivals{on_cluster} MODIFY SETTING fsync_after_insert = 1, fsync_part_directory = 1;

ALTER TABLE stored_through{on_cluster} MODIFY SETTING fsync_after_insert = 1, fsync_part_directory = 1;
