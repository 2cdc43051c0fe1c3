"""A party in a federation: it dials, checks, charges its ledger, answers rounds, and serves nothing.

    settings     what its operator configured
    admission    from a manifest to a charged run, or to a refusal
    data         the local records against a manifest
    questions    a round's question, checked before anything is computed
    outbox       what was answered, durable before the first byte leaves
    wire         calls to coordinator and aggregators, and what to do when they fail
    uploads      one contribution to both aggregators
    run          one run, from its manifest to its end
    client       all of them

What is logged here, and what is said to others, is public: figures that depend on records are for the operator's own
terminal (`parley schema check`).
"""
