"""What the demonstration says at its end."""

import json
from dataclasses import replace

import pytest

from parley.demo.report import show_report
from parley.mpc.parts import parts_of
from tests.support.screens import CAST, console, report


@pytest.mark.parametrize("width", [80, 120])
def test_the_report_tells_a_newcomer_everything_within_the_width(width: int) -> None:
    shown, out = console(terminal=False, width=width)
    show_report(shown, report(), CAST)
    text = out.getvalue()
    assert max(map(len, text.splitlines())) <= width
    flat = " ".join(text.split())
    for words in (
        "Who could see what",
        "the model after each of 20 rounds" if width > 100 else "after each of 20 rounds",
        "Cleveland Clinic alone 227 77.0% 0.850",
        "together, private: epsilon 1, delta 1e-5 690 82.0% 0.890",
        "no privacy 690 82.2% 0.899",
        "nothing they saw would have become more than 2.72 times as likely or as unlikely",
        "except with probability 1e-5.",
        "The sentence for the data-protection officer.",
        "1.00 / 2.40, 1e-05 3.00, 3e-05",
        "1,234,567",
        "54,321 bytes",
        "model.npz",
        "report.json",
        "study.toml",
        "http://127.0.0.1:7500",
    ):
        assert words in flat, words


def test_the_address_that_signs_in_is_one_line_however_long_it_is() -> None:
    shown, out = console(terminal=True, width=80)
    address = "http://127.0.0.1:7500/login#" + "0123456789abcdef" * 8
    show_report(shown, replace(report(), dashboard=address), CAST)
    assert address in out.getvalue().splitlines()


@pytest.mark.parametrize("width", [80, 120])
def test_where_there_is_none_the_report_says_no_guarantee(width: int) -> None:
    shown, out = console(terminal=False, width=width)
    budgets = tuple(replace(each, spent_if_a_server_lies=None) for each in report().budgets)
    show_report(shown, replace(report(), budgets=budgets, epsilon_if_a_server_lies=None), CAST)
    text = out.getvalue()
    assert max(map(len, text.splitlines())) <= width
    assert text.count("no guarantee, 1e-05") == len(budgets)
    assert "there is no such guarantee" in " ".join(text.split())


@pytest.mark.parametrize("width", [80, 120])
def test_audits_stand_beside_what_holds_if_a_server_lies(width: int) -> None:
    shown, out = console(terminal=False, width=width)
    audits = parts_of("covert", 0.5).audits
    show_report(shown, replace(report(), security="covert", audits=audits, audited=(3, 0)), CAST)
    assert max(map(len, out.getvalue().splitlines())) <= width
    flat = " ".join(out.getvalue().split())
    assert f"times (epsilon 2.4). {audits}" in flat
    assert "one aggregator that follows the protocol" in flat
    assert "A audited 3 of B's batches of noise, B none of A's. Nobody was caught." in flat
    assert "stay unseen with probability at most (7/8)^k" in flat


def test_the_json_line_has_the_promised_fields() -> None:
    body = json.loads(json.dumps(report().as_json(), allow_nan=False))
    for name in ("run", "model", "report", "epsilon", "delta", "accuracy", "auc", "pooled_auc", "rounds"):
        assert body[name] is not None, name
    assert (body["seconds"], body["bytes"]) == (4.5, 1_234_567)
    budget = {"party": "cleveland", "spent": 1.0, "total": 4.0, "left": 3.0, "spent_if_a_server_lies": 2.4}
    assert body["budgets"][0].items() >= {**budget, "delta_spent": 1e-5, "delta_total": 4e-5}.items()
