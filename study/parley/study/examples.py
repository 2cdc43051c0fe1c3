"""Examples of right and wrong answers of a study's model, on a PUBLIC test set whose rows are pictures."""

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from parley.learning.pictures import MOST_ROWS, Example, PublicPictures, picture_shape, taken
from parley.study.data import Sets, raw_of

if TYPE_CHECKING:
    from parley.study.study import Study

Floats = NDArray[np.float64]


def examples_of(study: "Study", sets: Sets, theta: Floats) -> tuple[Example, ...]:
    """None where rows are no pictures, or where the test set was held out of the records: an example shows a row."""
    shape = picture_shape(study.model, study.schema)
    if shape is None or not sets.public or sets.test is None:
        return ()
    raw, layout = raw_of(study, sets.source)
    first = taken(raw, np.arange(MOST_ROWS))
    return PublicPictures(first, sets.test, study.schema, shape, layout).examples(study.new_model(), theta)
