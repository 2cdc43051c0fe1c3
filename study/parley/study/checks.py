"""What must hold of a study before anything is read or computed."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from parley.study.study import Study


def check(study: "Study") -> None:
    """Refuse what no command could use."""
