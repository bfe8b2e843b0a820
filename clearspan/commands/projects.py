"""``clearspan projects``: its actions and options."""

from __future__ import annotations

from typing import Any, Final

from clearspan.commands.options import add_command, add_group, add_json, project_name

DESCRIPTION: Final = """\
Manage projects. Spans, applications, saved queries and keys belong to one project each, and no project sees the data of
another. Spans that name no project belong to the default project.
"""

EXAMPLES: Final = """\
a project for a team, and a key for it
  clearspan projects create checkout
  clearspan keys create laptop --project checkout

Over HTTP, the key decides the project of spans. In Kafka, the record header `project-id` does, else the resource
attribute `project.id`, else the project that is configured for the topic. Both hold the id, which `list` shows.
"""


def add(commands: Any) -> None:
    """Add the commands."""
    actions = add_group(commands, "projects", "create or list projects", description=DESCRIPTION, epilog=EXAMPLES)
    create = add_command(actions, "create", "clearspan.projects:create", "create a project")
    create.add_argument(
        "name", metavar="NAME", type=project_name, help="a name for people; commands accept it instead of the id"
    )
    listing = add_command(actions, "list", "clearspan.projects:list_all", "list all projects, oldest first")
    add_json(create, listing)
