"""Identities."""

from parley.federation.names import Role
from tests.support.documents import manifest


def test_identities_follow_from_names_and_roles() -> None:
    made = manifest()
    assert [each.uri for each in made.identities(Role.aggregator)] == [
        "parley://cardio/aggregator/north", "parley://cardio/aggregator/south",
    ]  # fmt: skip
    assert made.identities(Role.party)[2].uri == "parley://cardio/party/hospital-c"


def test_a_role_is_named_with_the_right_article() -> None:
    assert [role.with_article for role in Role] == [
        f"{'an' if role is Role.aggregator else 'a'} {role.value}" for role in Role
    ]
