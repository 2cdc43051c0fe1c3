"""What keeps a server from a manifest even if all that it claims is true: asked before anything is computed.

Verifying costs seconds of a core, and more where a manifest is made to; its limits of size, parties, rounds and
coordinators cost nothing to look at. The figures taken here are the manifest's own claims, which verification can only
confirm or refuse, so whatever is refused here is refused afterwards as well. Nothing is admitted by this module.
"""

from parley.federation.manifest import Manifest
from parley.federation.meaning import Meaning
from parley.federation.names import NodeName
from parley.federation.policy import Policy, Reason, reasons_against


def reasons_even_if_true(
    manifest: Manifest,
    node: NodeName,
    policy: Policy | None,
    epsilon_spent: float | None = None,
    spent_if_a_server_lies: float | None = None,
) -> tuple[Reason, ...]:
    """For an aggregator and a coordinator; `policy.reasons_against` judges the verified figures once more.

    For a party it is what its doctor says beforehand, with what its ledger has spent.
    """
    claimed = manifest.guarantee
    return reasons_against(
        Meaning(
            manifest=manifest,
            epsilon=claimed.epsilon,
            delta=claimed.delta,
            worst_party=manifest.parties[0],
            epsilon_added=0.0,
            delta_added=0.0,
            range_margin_bits=0.0,
            statement="not verified",
            epsilon_if_a_server_lies=claimed.epsilon_if_a_server_lies,
        ),
        node,
        policy,
        epsilon_spent,
        spent_if_a_server_lies,
    )
