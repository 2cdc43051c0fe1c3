"""Days as files write them."""

import datetime

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from parley.learning.days import DAY, check_days, reader_of_days
from parley.learning.errors import SchemaError

FORMS = ("%d.%m.%Y", "%m/%d/%Y", "%Y%m%d", "%d %B %Y", "%d-%b-%Y", "%Y-%m-%d %H:%M:%S", DAY)


@given(st.dates(datetime.date(1000, 1, 1)), st.sampled_from(FORMS))
def test_every_form_that_is_admitted_is_read_back(day: datetime.date, form: str) -> None:
    check_days(form)
    assert (
        reader_of_days(form)(f" {datetime.datetime.combine(day, datetime.time(1)).strftime(form)} ") == day.toordinal()
    )


@pytest.mark.parametrize("form", ["%d.%m.%y", "%d.%m", "%Y-%m-%d%d", "%j", "%x", "", 5, "%Y%m%b%d", "%Y-%m-%d %Z"])
def test_a_form_that_loses_the_day_is_refused(form: object) -> None:
    with pytest.raises(SchemaError, match="give year, month and day"):
        check_days(form)


def test_what_libraries_hold_is_a_day_too() -> None:
    read, day = reader_of_days(DAY), datetime.date(2001, 2, 3)
    for cell in ("2001-02-03", "2001-02-03T04:05:06+01:00", "2001-02-03 04:05", day, np.datetime64("2001-02-03T04:05")):
        assert read(cell) == day.toordinal()
    assert read(datetime.datetime(2001, 2, 3, 23)) == day.toordinal()


@pytest.mark.parametrize("cell", ["2001-02-30", "soon", "2001-02-03x", 20010203, 1.5, np.int64(3), [1]])
def test_what_is_no_day_is_none(cell: object) -> None:
    with pytest.raises((ValueError, TypeError)):
        reader_of_days(DAY)(cell)
