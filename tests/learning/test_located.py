"""Errors of a document name its lines, as an editor counts them."""

from pathlib import Path

import pytest

from parley.learning.errors import SchemaError
from parley.learning.holding import read_holding, read_layout
from parley.learning.located import line_of

TEXT = """\
# what our records are
units = 3
delimiter = ";;"

target = { name = "cost", kind = "number" }
features = [
    { name = "age" },
    { kind = "category", name = 'a "b" [c]' },
    { names = ["x", "y"], low = 2, high = 1 },
]
"""


def test_each_thing_has_its_line(tmp_path: Path) -> None:
    path = tmp_path / "ours.toml"
    path.write_text(TEXT.replace(";;", ";"))
    with pytest.raises(SchemaError) as caught:
        read_holding(path)
    assert str(caught.value).splitlines() == [
        "ours.toml has 4 things to correct:",
        "  line 5: cost: give low and high, the public bounds of what is predicted",
        "  line 7: age: give low and high",
        '  line 8: a "b" [c]: give categories',
        "  line 9: x: low 2 is not below high 1",
    ]


def test_one_thing_is_one_line(tmp_path: Path) -> None:
    path = tmp_path / "ours.toml"
    path.write_text('units = 3\n\nbits = 3\ntarget = { name = "y", kind = "classes", classes = ["a", "b"] }\n'
                    'features = [{ name = "age", low = 0, high = 1 }]\n')  # fmt: skip
    with pytest.raises(SchemaError, match=r"^ours\.toml, line 3: bits is for a study to choose"):
        read_holding(path)
    path.write_text('delimiter = ";;"\n')
    with pytest.raises(SchemaError, match=r"^ours\.toml: delimiter is ';;'"):
        read_layout(path)
    path.write_text('draft = true\ndelimiter = ";"\n')
    with pytest.raises(SchemaError, match=r"^ours\.toml: this schema is a draft"):
        read_layout(path)


def test_lines_are_found_by_name_and_by_key() -> None:
    assert line_of(TEXT, "age") == 7
    assert line_of(TEXT, "units") == 2
    assert line_of(TEXT, "delimiter") == 3
    assert line_of(TEXT, "y") == 9
    assert line_of('\n\n[target]\nkind = "x"\n', "target") == 3
    assert line_of(TEXT, "nobody") is None
    assert line_of(TEXT, "") is None
