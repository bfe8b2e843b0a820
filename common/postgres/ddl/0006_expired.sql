-- Spans that matched a subscription and were deleted before they were delivered. `pending_expired`: those between the
-- borders of the batch that is being delivered, counted when it was read.
ALTER TABLE subscriptions
    ADD COLUMN expired_spans   bigint  NOT NULL DEFAULT 0,
    ADD COLUMN expired_at      timestamptz,
    ADD COLUMN pending_expired integer NOT NULL DEFAULT 0;
