"""The routes of alerts."""

from __future__ import annotations

from typing import Final

from query_api.delivery.alerts import handlers, schemas
from query_api.delivery.schemas import TestDeliveryResponse
from query_api.request.route import Route

_TAG: Final = "Alerts"
_ONE: Final = "/alerts/{alert_id}"

# fmt: off
ALERT_ROUTES: Final = (
    Route("POST", "/alerts", handlers.create_alert, "Create an alert.", _TAG, schemas.AlertResponse,
          body=schemas.CreateAlert, body_required=True),
    Route("POST", "/alerts/query", handlers.query_alerts, "Query alerts.", _TAG, schemas.AlertsResponse,
          body=schemas.QueryAlerts),
    Route("GET", _ONE, handlers.get_alert, "Get an alert with its state.", _TAG, schemas.AlertResponse,
          refused_statuses=(404,)),
    Route("PUT", _ONE, handlers.edit_alert, "Edit an alert.", _TAG, schemas.AlertResponse, body=schemas.EditAlert,
          body_required=True),
    Route("DELETE", _ONE, handlers.delete_alert, "Delete an alert.", _TAG, schemas.AlertResponse,
          refused_statuses=(404,)),
    Route("POST", f"{_ONE}/pause", handlers.pause_alert, "Pause an alert.", _TAG, schemas.AlertResponse,
          refused_statuses=(404,)),
    Route("POST", f"{_ONE}/resume", handlers.resume_alert, "Resume an alert.", _TAG, schemas.AlertResponse,
          refused_statuses=(404,)),
    Route("POST", f"{_ONE}/skip", handlers.skip_message, "Skip the first message that waits.", _TAG,
          schemas.AlertResponse, refused_statuses=(404, 409)),
    Route("POST", f"{_ONE}/test", handlers.test_alert, "Send a test message to the target.", _TAG,
          TestDeliveryResponse, refused_statuses=(404,)),
)
