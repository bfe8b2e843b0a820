"""What is sent and answered about accounts and projects (reference ``applications-api`` §10.2 and §12)."""

from __future__ import annotations

from typing import Annotated, Final, Literal
from uuid import UUID

from pydantic import BaseModel, ConfigDict, Field

from query_api.request.body_models import Named
from query_api.request.references import Text

ACCOUNTS_MAX: Final = 100
"""In one request: they are made in one transaction."""

EMAIL_LENGTH_MAX: Final = 320
"""64 characters before the @ and 255 after it (RFC 3696, erratum 1690)."""

INSTALLATION_ID: Final = UUID("00000000-0000-7000-8000-000000000003")
INSTALLATION_NAME: Final = "clearspan"


class _Loose(BaseModel):
    """Unknown members are ignored."""

    model_config = ConfigDict(frozen=True)


class AccountUserIn(_Loose):
    """Who it is for."""

    email: Annotated[Text, Field(min_length=1, max_length=EMAIL_LENGTH_MAX)]


class AccountOptions(_Loose):
    """What comes with an account."""

    create_api_keys: bool = Field(default=False, description="Make a key of the new project.")
    return_api_keys: bool = Field(
        default=False, description="Show it: nobody can later. A key that is not shown is not made either."
    )
    seed_defaults: bool = Field(
        default=True, description="Make the environments `development`, `staging` and `production`."
    )


class AccountIn(_Loose):
    """One account to make."""

    user: AccountUserIn
    options: AccountOptions = AccountOptions()


class CreateAccounts(_Loose):
    """Accounts, each under a name of the caller's choice, by which the answer tells of it."""

    accounts: Annotated[Named[str, AccountIn], Field(min_length=1, max_length=ACCOUNTS_MAX)]


class AccountUser(BaseModel):
    """A user."""

    id: UUID
    email: str


class NamedEntity(BaseModel):
    """An organization, a workspace or a project."""

    id: UUID
    name: str


class AccountResponse(BaseModel):
    """What was made. The organization and the workspace are the installation, the same for all."""

    user: AccountUser
    organizations: dict[Literal["org"], NamedEntity]
    workspaces: dict[Literal["wrk"], NamedEntity]
    projects: dict[Literal["prj"], NamedEntity]
    api_keys: dict[Literal["key"], str] = Field(description="The key, this once; empty unless it was asked for.")


class AccountsResponse(BaseModel):
    """The accounts by their names."""

    accounts: dict[str, AccountResponse]


class CurrentProject(BaseModel):
    """The project that a key belongs to. The organization and the workspace are the installation."""

    organization_id: UUID = INSTALLATION_ID
    organization_name: str = INSTALLATION_NAME
    workspace_id: UUID = INSTALLATION_ID
    workspace_name: str = INSTALLATION_NAME
    project_id: UUID
    project_name: str
    is_default_project: bool
    user_role: str = "owner"
    is_demo: bool = False


class PermissionParameters(_Loose):
    """The permission that is checked. The key alone decides, so the members have no effect."""

    action: str | None = Field(None, description="The action, for example `run_service`.")
    resource_type: str | None = Field(None, description="The kind of resource, for example `service`.")
    resource_id: str | None = Field(None, description="The id of the resource.")


class Permission(BaseModel):
    """The answer to a permission check."""

    effect: Literal["allow"] = "allow"
