"""What a change of policy.toml would mean, in plain words, and whether it lets anything cost more."""

from collections.abc import Iterator, Mapping
from typing import Any

from parley.federation.policy import PartyPolicy
from parley.federation.toml_text import toml_text
from parley.privacy.filters import Cap

CAPS = (
    "epsilon_per_run",
    "delta_per_run",
    "epsilon_total",
    "epsilon_if_a_server_lies_per_run",
    "epsilon_if_a_server_lies_total",
)


def raises_a_cap(old: PartyPolicy, new: PartyPolicy, cap: Cap, new_cap: Cap) -> bool:
    """Whether records could come to cost more than before; "any" is more than every number."""
    if new_cap.epsilon > cap.epsilon or new_cap.delta > cap.delta:
        return True
    # The same epsilon promises less to a person of many rows than to each row, and less where fewer hide each other.
    if old.unit_column is not None and new.unit_column != old.unit_column:
        return True
    if new.minimum_parties < old.minimum_parties:
        return True
    return any(_figure(getattr(new, name)) > _figure(getattr(old, name)) for name in CAPS)


def _figure(value: float | None) -> float:
    return float("inf") if value is None else value


def differences(old: Mapping[str, Any], new: Mapping[str, Any], cap: Cap, new_cap: Cap) -> list[str]:
    """A sentence for each field that is another, whole: who signs has to see all of it. First what weighs most."""
    found = list[str]()
    for name, before, after in (("epsilon", cap.epsilon, new_cap.epsilon), ("delta", cap.delta, new_cap.delta)):
        if before != after:
            found.append(f"[budget] {name} of node.toml is {_moved(before, after)}")
    reviews, rest = ([_only(body, chosen) for body in (old, new)] for chosen in (True, False))
    return [*found, *_between(reviews[0], reviews[1], ""), *_between(rest[0], rest[1], "")]


def _only(body: Mapping[str, Any], review: bool) -> dict[str, Any]:
    """[review], or all but that."""
    return {name: each for name, each in body.items() if (name == "review") is review}


def _between(old: Mapping[str, Any], new: Mapping[str, Any], where: str) -> Iterator[str]:
    for name in [*old, *(each for each in new if each not in old)]:
        path = f"{where}{name}"
        if name not in new:
            yield _line(f"{path} is taken out; it was {_shown(old[name])}")
        elif name not in old:
            yield _line(f"{path} is added: {_shown(new[name])}")
        elif old[name] != new[name] or type(old[name]) is not type(new[name]):
            yield from _changed(old[name], new[name], path)


def _changed(old: Any, new: Any, path: str) -> Iterator[str]:
    if isinstance(old, Mapping) and isinstance(new, Mapping):
        yield from _between(old, new, f"{path}.")
    elif isinstance(old, list) and isinstance(new, list):
        out, into = ([each for each in a if each not in b] for a, b in ((old, new), (new, old)))
        said = [f"{word} {', '.join(map(_shown, each))}" for word, each in (("takes out", out), ("adds", into)) if each]
        yield _line(f"{path} {' and '.join(said) or 'is in another order'}")
    elif _number(old) and _number(new) and old != new:
        yield f"{path} is {_moved(old, new)}"
    else:
        yield _line(f"{path} is {_shown(new)} instead of {_shown(old)}")


def _number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _moved(old: float, new: float) -> str:
    return f"{'raised' if new > old else 'lowered'} from {old:.12g} to {new:.12g}"


def _shown(value: Any) -> str:
    if isinstance(value, Mapping):
        return ", ".join(f"{name} {_shown(each)}" for name, each in value.items())
    return toml_text({"x": value}).removeprefix("x = ")


def _line(text: str) -> str:
    """One line that a terminal shows as it is; two texts that differ are shown differently."""
    return "".join(each if each.isprintable() else f"\\u{ord(each):04x}" for each in text)
