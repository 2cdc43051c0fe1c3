"""The commands as scripts see them: fields, exit codes, and one line for every mistake."""

import pytest

from parley.research import privacy_audit as audit
from tests.support.ledger_commands import Parley

RUN = ("--records", 32561, "--batch", 100, "--rounds", 651, "--delta", 1e-5)
NOISE = ("--noise-multiplier", 1.69)


def test_epsilon_of_the_designs_setting(parley: Parley) -> None:
    answer = parley("privacy", "epsilon", *RUN, *NOISE, "--sampling", "wor", "--accountant", "pld", "--json")
    assert answer.code == 0
    assert answer.json["epsilon"] == pytest.approx(0.2, rel=2e-3)
    expected = {"delta": 1e-5, "accountant": "pld", "sampling": "wor", "conditions_met": True}
    assert expected.items() <= answer.json.items()


def test_rdp_names_its_order_and_a_trajectory_carries_both_accounts(parley: Parley) -> None:
    answer = parley(
        "privacy", "epsilon", *RUN, "--noise-multiplier", 2.97, "--accountant", "rdp", "--every", 300, "--json"
    )
    assert answer.json["epsilon"] == pytest.approx(0.2, rel=1e-2)
    assert answer.json["rdp_order"] > 2
    assert [row["rounds"] for row in answer.json["trajectory"]] == [300, 600, 651]
    assert all(row["pld"] < row["rdp"] for row in answer.json["trajectory"])
    assert answer.json["trajectory"][-1]["rdp_curve"]


def test_calibrate_and_rounds_answer_each_other(parley: Parley) -> None:
    noise = parley("privacy", "calibrate", *RUN, "--epsilon", 0.2, "--json").json
    assert {"noise_multiplier", "epsilon", "delta", "accountant", "seconds"} <= noise.keys()
    assert noise["noise_multiplier"] <= 1.69 * 1.02
    back = parley(
        "privacy", "rounds", "--records", 32561, "--batch", 100, "--delta", 1e-5, "--epsilon", 0.2,
        "--noise-multiplier", noise["noise_multiplier"], "--json",
    ).json  # fmt: skip
    assert 651 <= back["rounds"] <= 653


@pytest.mark.slow
def test_both_say_what_a_server_that_lies_could_cost(parley: Parley) -> None:
    usual = parley("privacy", "epsilon", *RUN, *NOISE, "--json").json
    assert (usual["own"], usual["security"]) == (0.5, "semi-honest")
    assert usual["epsilon_if_a_server_lies"] == pytest.approx(1.165, rel=0.01)
    for own in (0, 0.25):  # none of it, and 10.5
        assert (
            parley("privacy", "epsilon", *RUN, *NOISE, "--own", own, "--json").json["epsilon_if_a_server_lies"] is None
        )
    whole = parley("privacy", "epsilon", *RUN, *NOISE, "--security", "malicious", "--json").json
    assert (whole["own"], whole["epsilon_if_a_server_lies"]) == (1.0, whole["epsilon"])
    calibrate = ("privacy", "calibrate", *RUN, "--epsilon", 0.2)
    least = [parley(*calibrate, "--worst-epsilon", worst, "--json").json["own"] for worst in (1.2, 1.1)]
    assert least == [0.5, 1.0]
    for words, says in (
        (("--worst-epsilon", 0.3), "the most own noise gives epsilon 0.34"),
        (("--worst-epsilon", 1, "--own", 1), "one of them chooses"),
        (("--own", 0.3), "use 0, 0.25, 0.5 or 1"),
        (("--security", "malicious", "--own", 0.5), "make own 1"),
        (("--security", "covert", "--own", 0), "use 0.25, 0.5 or 1"),
        (("--audit", "1/4"), "leave audit out"),
        (("--security", "covert", "--audit", "1/3"), "'1/3' is not one of"),
        (("--security", "covert", "--worst-epsilon", 0.3), "(covert, own 1): raise it"),
    ):
        refused = parley(*calibrate, *words)
        assert refused.code == 2
        assert says in refused.error


def test_audits_change_no_figure_and_what_they_are_worth_is_said(parley: Parley) -> None:
    usual = parley("privacy", "epsilon", *RUN, *NOISE, "--json").json
    covert = parley("privacy", "epsilon", *RUN, *NOISE, "--security", "covert", "--json").json
    told = {"security": "covert", "audit": "1/8", "audits": covert["audits"]}
    assert covert | {"seconds": 0} == usual | told | {"seconds": 0}
    assert "at most (7/8)^k" in covert["audits"]
    shown = parley("privacy", "calibrate", *RUN, "--epsilon", 0.2, "--security", "covert", "--audit", "1/4")
    assert "if a server lies (covert, own 0.5)" in shown.output
    assert "at most (3/4)^k" in shown.output
    calibrate = ("privacy", "calibrate", *RUN, "--epsilon", 0.2, "--security", "covert")
    least = parley(*calibrate, "--worst-epsilon", 1.1, "--json")
    assert (least.json["own"], least.json["security"], least.json["audit"]) == (1.0, "covert", "1/8")


def test_the_papers_figure_comes_with_its_conditions_unmet_and_is_no_success(parley: Parley) -> None:
    answer = parley("privacy", "epsilon", *RUN, "--noise-multiplier", 5.0, "--accountant", "paper", "--json")
    assert answer.code == 1
    assert answer.json["epsilon"] == pytest.approx(0.2, rel=1e-2)
    assert answer.json["conditions_met"] is False
    assert answer.json["epsilon_within_conditions"] > 1
    assert "no guarantee" in answer.error
    calibrated = parley("privacy", "calibrate", *RUN, "--epsilon", 0.2, "--accountant", "paper", "--json")
    assert (calibrated.code, calibrated.json["conditions_met"]) == (1, False)
    assert calibrated.json["noise_multiplier"] == pytest.approx(5.0, rel=1e-2)


def test_poisson_reports_its_public_length_and_what_overflow_costs(parley: Parley) -> None:
    answer = parley("privacy", "epsilon", *RUN, *NOISE, "--sampling", "poisson", "--json").json
    assert answer["batch_length"] > 100
    assert 0 < answer["overflow_probability"] <= 1e-8
    assert answer["epsilon"] < 0.2


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"--delta": 1}, "delta"),
        ({"--delta": "nan"}, "delta"),
        ({"--batch": 40000}, "exceeds"),
        ({"--batch": 0}, "batch"),
        ({"--rounds": -3}, "rounds"),
        ({"--records": -1}, "units"),
        ({"--noise-multiplier": "nan"}, "noise"),
        ({"--noise-multiplier": 0}, "noise"),
        ({"--noise-multiplier": "inf"}, "noise"),
        ({"--accountant": "moments"}, "pld, rdp, paper, lower"),
        ({"--sampling": "shuffle"}, "wor or poisson"),
        ({"--relation": "remove"}, "replace-one or add-or-remove"),
        ({"--relation": "add-or-remove"}, "poisson"),
        ({"--cap": 200}, "cap"),
        ({"--every": 10_000}, "every"),
    ],
)
def test_bad_input_is_one_line_that_says_what_to_change(
    parley: Parley, changed: dict[str, object], message: str
) -> None:
    options = dict(zip(RUN[::2], RUN[1::2], strict=True)) | {"--noise-multiplier": 1.69} | changed
    arguments = [argument for pair in options.items() for argument in pair]
    answer = parley("privacy", "epsilon", *arguments, "--json")
    assert answer.code == 2
    assert answer.output == ""
    assert answer.error.startswith("error: ")
    assert answer.error.count("\n") == 1
    assert message in answer.error


@pytest.mark.parametrize("epsilon", [0, -1, "nan", "inf"])
def test_an_epsilon_that_nothing_reaches_is_refused(parley: Parley, epsilon: object) -> None:
    answer = parley("privacy", "calibrate", *RUN, "--epsilon", epsilon)
    assert (answer.code, answer.error.count("\n")) == (2, 1)
    assert "epsilon" in answer.error


def test_a_cap_that_overflows_too_often_has_no_epsilon(parley: Parley) -> None:
    answer = parley("privacy", "epsilon", *RUN, *NOISE, "--sampling", "poisson", "--cap", 120, "--json")
    assert answer.code == 1
    assert "cap" in answer.error


@pytest.mark.slow
def test_the_audit_reports_the_documented_fields_and_fails_where_it_misses_a_fault(
    parley: Parley, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(audit, "FAULTS", {"none at all": audit.HONEST})
    monkeypatch.setattr(audit, "CANARIES", 200)
    answer = parley("audit", "privacy", "--runs", 1500, "--json")
    assert answer.code == 1
    assert "misses none at all" in answer.error
    assert {"epsilon_claimed", "epsilon_lower_bound", "confidence", "faults", "delta"} <= answer.json.keys()
    assert answer.json["faults"][0]["caught"] is False
    assert answer.json["epsilon_lower_bound"] <= answer.json["epsilon_claimed"]
    for wrong in (("--confidence", 1.0), ("--units", 3), ("--delta", 0), ("--runs", 5)):
        assert parley("audit", "privacy", *wrong).code == 2
