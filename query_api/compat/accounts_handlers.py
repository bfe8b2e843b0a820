"""Create accounts, and return the project and the permissions of a key.

Source: reference ``applications-api`` §10.2 and §12.
"""

from __future__ import annotations

from common.errors import NotFound
from common.postgres.accounts import Account, WantedAccount, open_accounts
from common.postgres.projects import Projects
from query_api.compat.accounts_models import (
    INSTALLATION_ID,
    INSTALLATION_NAME,
    AccountIn,
    AccountResponse,
    AccountsResponse,
    AccountUser,
    CreateAccounts,
    CurrentProject,
    NamedEntity,
    Permission,
)
from query_api.request.context import database_of
from query_api.request.json_body import json_response
from query_api.request.route import Request, Response


async def create_accounts(request: Request) -> Response:
    """Create accounts, all or none: each is a new project, with a key if the options request one.

    A user with a known email address is reused.
    """
    body: CreateAccounts = request.body
    wanted = {name: _wanted(account) for name, account in body.accounts.items()}
    created = await open_accounts(database_of(request.context), wanted)
    return json_response(AccountsResponse(accounts={name: _response(account) for name, account in created.items()}))


async def current_project(request: Request) -> Response:
    """Return the project of the API key."""
    context = request.context
    project = await Projects(database_of(context), context.clock).find(request.project_id)
    if project is None:
        raise NotFound(f"There is no project {request.project_id}.")
    is_default = project.id == context.settings.default_project_id
    return json_response(
        CurrentProject(project_id=project.id, project_name=project.name, is_default_project=is_default)
    )


async def check_permission(_call: Request) -> Response:
    """Allow the action: a valid key may do everything in its project. An invalid key gets 401."""
    return json_response(Permission())


def _wanted(account: AccountIn) -> WantedAccount:
    with_key = account.options.create_api_keys and account.options.return_api_keys
    return WantedAccount(account.user.email, with_key, account.options.seed_defaults)


def _response(account: Account) -> AccountResponse:
    installation = NamedEntity(id=INSTALLATION_ID, name=INSTALLATION_NAME)
    return AccountResponse(
        user=AccountUser(id=account.user.id, email=account.user.email or ""),
        organizations={"org": installation},
        workspaces={"wrk": installation},
        projects={"prj": NamedEntity(id=account.project.id, name=account.project.name)},
        api_keys={} if account.key is None else {"key": account.key.text},
    )
