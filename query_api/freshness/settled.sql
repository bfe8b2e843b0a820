-- settled_run --
-- The rows of a run that is pending may not be there yet; those before it are.
SELECT CASE WHEN pending IS NULL THEN run ELSE run - 1 END AS run FROM settling;
