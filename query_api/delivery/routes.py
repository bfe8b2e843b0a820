"""The routes of subscriptions."""

from __future__ import annotations

from typing import Final

from query_api.delivery import handlers, schemas, testing
from query_api.request.route import Route

_TAG: Final = "Subscriptions"
_ONE: Final = "/subscriptions/{subscription_id}"

# fmt: off
SUBSCRIPTION_ROUTES: Final = (
    Route("POST", "/subscriptions", handlers.create_subscription, "Create a subscription.", _TAG,
          schemas.SubscriptionResponse, body=schemas.CreateSubscription, body_required=True),
    Route("POST", "/subscriptions/query", handlers.query_subscriptions, "Query subscriptions.", _TAG,
          schemas.SubscriptionsResponse, body=schemas.QuerySubscriptions),
    Route("GET", _ONE, handlers.get_subscription, "Get a subscription with its state.", _TAG,
          schemas.SubscriptionResponse, refused_statuses=(404,)),
    Route("PUT", _ONE, handlers.edit_subscription, "Edit a subscription.", _TAG, schemas.SubscriptionResponse,
          body=schemas.EditSubscription, body_required=True),
    Route("DELETE", _ONE, handlers.delete_subscription, "Delete a subscription.", _TAG, schemas.SubscriptionResponse,
          refused_statuses=(404,)),
    Route("POST", f"{_ONE}/pause", handlers.pause_subscription, "Pause a subscription.", _TAG,
          schemas.SubscriptionResponse, refused_statuses=(404,)),
    Route("POST", f"{_ONE}/resume", handlers.resume_subscription, "Resume a subscription.", _TAG,
          schemas.SubscriptionResponse, refused_statuses=(404,)),
    Route("POST", f"{_ONE}/replay", handlers.replay_subscription, "Deliver again from a time or a position.", _TAG,
          schemas.SubscriptionResponse, body=schemas.ReplaySubscription, body_required=True),
    Route("POST", f"{_ONE}/skip", handlers.skip_batch, "Skip the batch that is being delivered.", _TAG,
          schemas.SubscriptionResponse, refused_statuses=(404, 409)),
    Route("POST", f"{_ONE}/test", testing.test_subscription, "Send a test span to the target.", _TAG,
          schemas.TestDeliveryResponse, refused_statuses=(404,)),
)
