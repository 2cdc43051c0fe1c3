"""A party beside its two servers, for the tests that look at both sides."""

from tests.party.conftest import stage, verified_in_process  # noqa: F401  fixtures
