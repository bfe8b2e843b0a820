-- settled_run --
-- The rows of a run that is pending may not be there yet; those before it are.
SELECT CASE WHEN pending IS NULL THEN run ELSE run - 1 END AS run FROM settling;

-- settling_progress --
-- Times are those by which traces are quiet, and the clock at the last run that changed something. A lease that has
-- ended means that no process settles traces. A project that is behind has a frontier of its own.
SELECT
    time_us, clock_us, complete_run,
    (
        SELECT min(time_us) FROM settling_windows
        WHERE settling_windows.run > least(
            settling.complete_run,
            (SELECT min((frontier ->> 0)::bigint) FROM jsonb_each(complete_own::jsonb) AS own (project, frontier))
        )
    ) AS oldest_us,
    (SELECT coalesce(sum(incomplete_count), 0)::bigint FROM settling_windows) AS incomplete_count,
    EXISTS (SELECT FROM leases WHERE kind = 'settling' AND holder IS NOT NULL AND expires_at > now()) AS is_running
FROM settling;
