-- Which ids the topics of each cluster have had, by when a worker first saw them. The one that came first keeps the
-- plain partition id; a topic that is created again has another one, because its offsets begin at 0 anew (ADR 0027).
CREATE TABLE IF NOT EXISTS topic_ids{on_cluster}
(
    cluster_id                String,
    topic                     String,
    topic_id                  String,
    seen_us                   Int64
)
ENGINE = {replicated}ReplacingMergeTree({replica_arguments}seen_us)
ORDER BY (cluster_id, topic, seen_us, topic_id)
SETTINGS {dedup_window_setting} = 1000;
