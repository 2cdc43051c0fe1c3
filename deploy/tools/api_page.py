"""docs/api.md, made from the docstrings of `parley.study`'s public names.

python -m tools.api_page           # write it
"""

import ast
import inspect
import re
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from parley import study

PAGE = Path(__file__).parents[2] / "docs" / "api.md"
HEAD = """# `parley.study`, name by name

<!-- Made by `make api-page` from docstrings: change those. tests/docs/test_api.py runs every example. -->

What a data scientist may rely on from Python; all else may change. `from parley import study` loads nothing until a
name is asked for. The guide is [study.md](study.md).

{index}
"""
RUN_BY = "<!-- run by: tests/docs/test_api.py -->"
WIDE = 100
EXAMPLE = re.compile(r"^>>> .*?(?=\n\n(?!>>> )|\Z)", re.MULTILINE | re.DOTALL)


def page() -> str:
    """The whole text."""
    names = sorted(study.__all__, key=str.lower)
    index = ", ".join(f"[{name}](#{name.lower()})" for name in names)
    return "\n".join([HEAD.format(index=index), *(text for name in names for text in entry(name))])


def entry(name: str) -> Iterator[str]:
    """A heading, the signature, the text, the examples; of a class also what it has."""
    found = getattr(study, name)
    yield f"## `{name}`\n"
    if not (inspect.isclass(found) and issubclass(found, Exception)):  # nobody makes one
        yield signature(f"study.{name}", found)
    yield described(found)
    if not inspect.isclass(found):
        return
    rows = [(attribute, text) for attribute, text in attributes(found) if text]
    if rows:
        yield "| attribute | what it is |\n| --- | --- |"
        yield "\n".join(f"| `{attribute}` | {text} |" for attribute, text in rows) + "\n"
    for method, made in methods(found):
        yield f"### `{name}.{method}`\n"
        yield signature(method, made)
        yield described(made)


def signature(name: str, found: Any) -> str:
    """On one line where it fits, else an argument a line."""
    made = inspect.signature(found)
    arguments = [str(each) for each in made.parameters.values() if each.name != "self"]
    keyword = [each.kind is inspect.Parameter.KEYWORD_ONLY for each in made.parameters.values() if each.name != "self"]
    if any(keyword):
        arguments.insert(keyword.index(True), "*")
    returned = made.return_annotation
    after = "" if inspect.isclass(found) or returned is inspect.Signature.empty else f" -> {_name(returned)}"
    text = f"{name}({', '.join(arguments)}){after}"
    if len(text) > WIDE:
        text = f"{name}(\n" + "".join(f"    {each},\n" for each in arguments) + f"){after}"
    return f"```text\n{_plain(text)}\n```\n"


def _name(annotation: Any) -> str:
    return annotation if isinstance(annotation, str) else inspect.formatannotation(annotation)


def _plain(text: str) -> str:
    """Types by their short names."""
    text = re.sub(r"numpy\.ndarray\[tuple\[Any, \.\.\.\], numpy\.dtype\[[\w.]+\]\]", "ndarray", text)
    text = re.sub(r"\b(?:[a-z_]\w*\.)+(?=[A-Z])", "", text)
    return text.replace("NoneType", "None").replace("'", '"')


def described(found: Any) -> str:
    """The docstring, its examples in fences."""
    text = inspect.getdoc(found) or ""
    if not text:
        raise SystemExit(f"{found.__qualname__} has no docstring: a public name needs one")
    said = EXAMPLE.sub(
        lambda match: f"<!-- run by: tests/docs/test_api.py -->\n```python\n{match.group(0).rstrip()}\n```", text
    )
    return said + "\n"


def attributes(kind: type) -> Iterator[tuple[str, str]]:
    """Fields that are documented, and properties."""
    tree = ast.parse(textwrap.dedent(inspect.getsource(kind)))
    (body,) = (each.body for each in tree.body if isinstance(each, ast.ClassDef))
    for one, following in zip(body, [*body[1:], None], strict=True):
        if isinstance(one, ast.AnnAssign) and isinstance(one.target, ast.Name) and not one.target.id.startswith("_"):
            said = following.value if isinstance(following, ast.Expr) else None
            text = said.value if isinstance(said, ast.Constant) and isinstance(said.value, str) else ""
            yield one.target.id, " ".join(text.split())
    for name, found in vars(kind).items():
        if isinstance(found, property) and not name.startswith("_"):
            yield name, " ".join((inspect.getdoc(found) or "").split())


def methods(kind: type) -> Iterator[tuple[str, Any]]:
    """In the order in which they stand."""
    for each in reversed(kind.__mro__):
        if each.__module__.startswith("parley."):
            for name, found in vars(each).items():
                if (
                    callable(getattr(found, "__func__", found))
                    and not name.startswith("_")
                    and not isinstance(found, type)
                ):
                    yield name, getattr(kind, name)


def main() -> None:
    PAGE.write_text(page())


if __name__ == "__main__":
    main()
