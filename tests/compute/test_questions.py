"""A question is the same after its way to a worker, and is answered in chunks of one length."""

import json

import numpy as np
import pytest

from parley.compute.questions import Question
from parley.learning.encoding import Scale
from parley.learning.engine import Here
from parley.mpc.parts import USUAL
from parley.mpc.ring import Lattice
from parley.privacy.clipping import Terms
from parley.privacy.sampling import Batch
from tests.support.computed import setting

QUESTION = Question("gradients", Lattice(0.1 + 0.2, 12, 41, USUAL), Scale(1 / 3, 4000), Terms(0.0, 1.0, 1.0, 0.7))


@pytest.mark.parametrize("question", [QUESTION, Question("norms", Lattice(1.0), Scale(0.1, 9), times=1 / 7)])
def test_json_keeps_every_digit(question: Question) -> None:
    assert Question.of(json.loads(json.dumps(question.as_json()))) == question


def test_the_length_of_an_answer_is_public() -> None:
    assert QUESTION.length(50, 2) == 50
    assert Question("losses", Lattice(1.0), Scale(0.1, 9)).length(50, 4) == 3


def test_chunks_add_up_to_the_whole() -> None:
    given = setting("softmax")
    here, point = Here(given.records, given.model), np.linspace(-1, 1, given.model.dimension)
    places, present = np.arange(64), np.arange(64) % 3 > 0
    whole = here.gradients(Batch(places, present), (point,), Terms(0, 1, 1, 0.5), Lattice(1.0), Scale(1e-3, 900))
    question = Question("gradients", Lattice(1.0), Scale(1e-3, 900), Terms(0, 1, 1, 0.5))
    assert np.array_equal(question.answered(here, (point,), places, present, 16), whole)
