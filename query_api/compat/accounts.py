"""Create accounts, and return the project and the permissions of a key.

Source: reference ``applications-api`` §10.2 and §12.
"""

from __future__ import annotations

from typing import Annotated, Final, Literal
from uuid import UUID

from pydantic import Field

from common.errors import NotFound
from common.postgres.projects import Account, Projects, WantedAccount, open_accounts
from common.scopes import KeyScope
from query_api.registry.kinds import Loose
from query_api.request.context import database_of
from query_api.request.json_body import ApiModel, Named, json_response
from query_api.request.references import Text
from query_api.request.route import Request, Response

ACCOUNTS_MAX: Final = 100
"""Accounts of one request, which are created in one transaction."""

EMAIL_LENGTH_MAX: Final = 320
"""64 characters before the @ and 255 after it (RFC 3696, erratum 1690)."""

INSTALLATION_ID: Final = UUID("00000000-0000-7000-8000-000000000003")
INSTALLATION_NAME: Final = "clearspan"


class AccountUserIn(Loose):
    """The user of a new account."""

    email: Annotated[
        Text, Field(min_length=1, max_length=EMAIL_LENGTH_MAX, description="The email address of the user.")
    ]


class RequestOptions(Loose):
    """The options of the whole request."""

    dry_run: bool = Field(
        default=False, description="Check the request and create nothing: the response has no key and no new id."
    )


class AccountOptions(RequestOptions):
    """The options of a new account."""

    create_api_keys: bool = Field(default=False, description="Create a key of the new project.")
    return_api_keys: bool = Field(
        default=False, description="Return the key, which is not stored. Without this no key is created."
    )
    seed_defaults: bool = Field(
        default=True, description="Create the environments `development`, `staging` and `production`."
    )


class AccountIn(Loose):
    """The account to create."""

    user: AccountUserIn = Field(description="The user of the account.")
    options: AccountOptions = Field(AccountOptions(), description="The options of the account.")


class CreateAccounts(Loose):
    """The accounts to create, by names that the caller chooses and the response repeats."""

    accounts: Annotated[
        Named[str, AccountIn],
        Field(
            min_length=1,
            max_length=ACCOUNTS_MAX,
            description="The accounts by name.",
            json_schema_extra={"minProperties": 1, "maxProperties": ACCOUNTS_MAX},
        ),
    ]
    options: RequestOptions = Field(RequestOptions(), description="The options of the whole request.")

    @property
    def dry_run(self) -> bool:
        """Whether none of the accounts is created: then the request is not in the audit log."""
        return all(self.is_dry_run(account) for account in self.accounts.values())

    def is_dry_run(self, account: AccountIn) -> bool:
        """Return whether this account is not created."""
        return self.options.dry_run or account.options.dry_run


class AccountUser(ApiModel):
    """The user of an account."""

    id: UUID | None = Field(None, description="The id of the user; absent in a dry run.")
    email: str = Field(description="The email address of the user.")


class NamedEntity(ApiModel):
    """An organization, a workspace or a project."""

    id: UUID | None = Field(None, description="Its id; absent if it is the project of a dry run.")
    name: str = Field(description="Its name.")


class AccountResponse(ApiModel):
    """A created account. Its organization and workspace are those of the installation."""

    user: AccountUser = Field(description="The user of the account.")
    organizations: dict[Literal["org"], NamedEntity] = Field(description="The organization of the installation.")
    workspaces: dict[Literal["wrk"], NamedEntity] = Field(description="The workspace of the installation.")
    projects: dict[Literal["prj"], NamedEntity] = Field(description="The new project.")
    api_keys: dict[Literal["key"], str] = Field(
        description="The key of the project, which is returned only here; empty unless it was requested."
    )


class AccountsResponse(ApiModel):
    """The created accounts."""

    accounts: dict[str, AccountResponse] = Field(description="The accounts by the names of the request.")


class CurrentProject(ApiModel):
    """The project of an API key. Its organization and workspace are those of the installation."""

    organization_id: UUID = Field(INSTALLATION_ID, description="The id of the organization.")
    organization_name: str = Field(INSTALLATION_NAME, description="The name of the organization.")
    workspace_id: UUID = Field(INSTALLATION_ID, description="The id of the workspace.")
    workspace_name: str = Field(INSTALLATION_NAME, description="The name of the workspace.")
    project_id: UUID = Field(description="The id of the project.")
    project_name: str = Field(description="The name of the project.")
    is_default_project: bool = Field(description="Whether spans without a project are stored here.")
    user_role: str = Field("owner", description="The role of the key's user.")
    scopes: list[KeyScope] = Field(description="What the key may do, with the scopes that others include.")
    is_demo: bool = Field(default=False, description="Always false.")


class ProjectUser(ApiModel):
    """Somebody who has, or had, a key of the project."""

    id: UUID = Field(description="The id that `author` and `created_by_id` name.")
    email: str | None = Field(None, description="The address; absent of keys that were created without a user.")


class ProjectUsersResponse(ApiModel):
    """The users of the project's keys, oldest first."""

    count: int
    users: list[ProjectUser]


class PermissionParameters(Loose):
    """The permission to check. It has no effect: what a key may do over this API, its scopes say."""

    action: str | None = Field(None, description="The action, for example `run_service`.")
    resource_type: str | None = Field(None, description="The kind of resource, for example `service`.")
    resource_id: str | None = Field(None, description="The id of the resource.")


class Permission(ApiModel):
    """The result of a permission check."""

    effect: Literal["allow"] = Field("allow", description="Always `allow`.")


async def create_accounts(request: Request) -> Response:
    """Create accounts, all or none: each is a new project, with a key if the options request one.

    A user with a known email address is reused. With `dry_run` nothing is created.
    """
    body: CreateAccounts = request.body
    wanted = {name: _wanted(account) for name, account in body.accounts.items() if not body.is_dry_run(account)}
    created = await open_accounts(database_of(request.context), wanted) if wanted else {}
    responses = {
        name: _response(created[name]) if name in created else _dry_response(account.user.email)
        for name, account in body.accounts.items()
    }
    return json_response(AccountsResponse(accounts=responses))


async def current_project(request: Request) -> Response:
    """Return the project of the API key."""
    context = request.context
    project = await Projects(database_of(context), context.clock).find(request.project_id)
    if project is None:
        raise NotFound(f"There is no project {request.project_id}.")
    is_default = project.id == context.settings.default_project_id
    return json_response(
        CurrentProject(
            project_id=project.id,
            project_name=project.name,
            is_default_project=is_default,
            scopes=sorted(request.scopes),
        )
    )


async def project_users(request: Request) -> Response:
    """Return the users of the project's keys, at most 1,000: the authors of its changes."""
    context = request.context
    users = await Projects(database_of(context), context.clock).users(request.project_id)
    listed = [ProjectUser(id=user.id, email=user.email) for user in users]
    return json_response(ProjectUsersResponse(count=len(listed), users=listed))


async def check_permission(_call: Request) -> Response:
    """Allow the action, which is not one of this API: there the scopes of the key decide. An invalid key gets 401."""
    return json_response(Permission())


def _wanted(account: AccountIn) -> WantedAccount:
    with_key = account.options.create_api_keys and account.options.return_api_keys
    return WantedAccount(account.user.email, with_key, account.options.seed_defaults)


def _response(account: Account) -> AccountResponse:
    return _response_of(
        AccountUser(id=account.user.id, email=account.user.email or ""),
        NamedEntity(id=account.project.id, name=account.project.name),
        api_keys={} if account.key is None else {"key": account.key.text},
    )


def _dry_response(email: str) -> AccountResponse:
    """Return what the response would say of a new account, without what only a created one has."""
    return _response_of(AccountUser(email=email), NamedEntity(name=email), api_keys={})


def _response_of(user: AccountUser, project: NamedEntity, *, api_keys: dict[Literal["key"], str]) -> AccountResponse:
    installation = NamedEntity(id=INSTALLATION_ID, name=INSTALLATION_NAME)
    return AccountResponse(
        user=user,
        organizations={"org": installation},
        workspaces={"wrk": installation},
        projects={"prj": project},
        api_keys=api_keys,
    )
