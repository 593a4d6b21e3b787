"""The changes from one version of an operator to another, in words."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import chain
from typing import TypeVar

from halfulp.pages import Bullets, Page, Section, default_of, limits_text, rule_text
from halfulp.specs.model import Attribute, OpVersion, Port, Unspecified

Said = Iterator[tuple[str, str]]
"""Headings, each with a sentence that belongs below it."""
T = TypeVar("T")


def difference(new: OpVersion, old: OpVersion) -> Page:
    """Return the additions, removals and changes from one version to another, as a page."""
    topics: dict[str, Callable[[OpVersion, OpVersion], Said]] = {
        "types": _types,
        "inputs and outputs": _ports,
        "attributes": _attributes,
        "broadcasting": lambda new, old: _now_and_before(_rule(new), _rule(old)),
        "limits on ranks and sizes": lambda new, old: _now_and_before(limits_text(new), limits_text(old)),
        "clauses": _clauses,
        "open questions of the document": _unspecified,
        "function body": _function,
        "shape inference": _shape_inference,
    }
    found = {topic: list(compare(new, old)) for topic, compare in topics.items()}
    unchanged = [topic for topic, sentences in found.items() if not sentences]
    said: dict[str, list[str]] = {"Added": [], "Removed": [], "Changed": []}
    for heading, sentence in chain.from_iterable(found.values()):
        said[heading].append(sentence)
    said["Unchanged"] = [f"{_list(unchanged)}."] if unchanged else []
    sections = tuple(Section(name, (Bullets(tuple(items)),)) for name, items in said.items() if items)
    lead = "" if (new.standard, new.name) == (old.standard, old.name) else "These are different operators."
    return Page(f"From {old.id} to {new.id}", lead, sections)


def _list(words: Iterable[str]) -> str:
    *first, last = words
    return f"{', '.join(first)} and {last}" if first else last


def _compared(
    new: Mapping[str, T],
    old: Mapping[str, T],
    text: Callable[[T], str],
    removed: Callable[[T], str],
    changed: Callable[[T, T], str],
) -> Said:
    """Yield a sentence on each item that is new, gone or changed; ``changed`` returns an empty one for no change."""
    yield from (("Added", text(item)) for name, item in new.items() if name not in old)
    yield from (("Removed", removed(item)) for name, item in old.items() if name not in new)
    both = ((item, old[name]) for name, item in new.items() if name in old)
    yield from (("Changed", sentence) for items in both if (sentence := changed(*items)))


def _now_and_before(now: str, before: str) -> Said:
    if now != before:
        yield "Changed", f"{now or 'Nothing.'} Before: {before or 'nothing.'}"


def _rule(op: OpVersion) -> str:
    return rule_text(op) if len(op.inputs) == 2 else ""


def _users(op: OpVersion, variable: str) -> str:
    return _list(port.name for port in (*op.inputs, *op.outputs) if port.type == variable)


def _types(new: OpVersion, old: OpVersion) -> Said:
    for variable, types in new.type_variables.items():
        users = _users(new, variable)
        if variable not in old.type_variables:
            yield "Added", f"Type variable {variable}, for {users}: {_list(types)}."
            continue
        before = old.type_variables[variable]
        verb = "take" if " and " in users else "takes"
        if gained := [name for name in types if name not in before]:
            yield "Added", f"{users} also {verb} {_list(gained)}."
        if lost := [name for name in before if name not in types]:
            yield "Removed", f"{users} no longer {verb} {_list(lost)}."
    for variable in old.type_variables:
        if variable not in new.type_variables:
            yield "Removed", f"Type variable {variable}, for {_users(old, variable)}."


def _port(port: Port) -> str:
    return f"{port.name}: {port.text}"


def _ports(new: OpVersion, old: OpVersion) -> Said:
    ports = {port.name: port for port in (*new.inputs, *new.outputs)}
    before = {port.name: port for port in (*old.inputs, *old.outputs)}

    yield from _compared(ports, before, _port, _port, lambda port, earlier: "")
    for name, port in ports.items():
        earlier = before.get(name, port)
        if port.type != earlier.type:
            sharing = [p.name for p in before.values() if p.type == earlier.type and p.name != name]
            others = _list(sharing) if sharing else "nothing else"
            yield "Changed", f"{name} has the type {port.type}; before, {earlier.type} (with {others})."
        if port.text.rstrip(".") != earlier.text.rstrip("."):
            yield "Changed", f"{name} is described as “{port.text}”; before, “{earlier.text}”"


def _attributes(new: OpVersion, old: OpVersion) -> Said:
    after, earlier = ({attribute.name: attribute for attribute in op.attributes} for op in (new, old))

    def text(attribute: Attribute) -> str:
        default = default_of(attribute, f"default {attribute.default}", "optional")
        return f"Attribute {attribute.name} ({attribute.type}, {default}): {attribute.text}"

    def changed(now: Attribute, before: Attribute) -> str:
        return "" if now == before else f"{text(now)} Before: {text(before)}"

    yield from _compared(after, earlier, text, text, changed)


def _clauses(new: OpVersion, old: OpVersion) -> Said:
    texts, before = ({clause.text for clause in op.clauses} for op in (new, old))
    gone = [clause for clause in old.clauses if clause.text not in texts]
    for clause in [clause for clause in new.clauses if clause.text not in before]:
        # A clause that some check cites in the same place has become this one.
        earlier = next((each for each in gone if {*each.enforces} & {*clause.enforces}), None)
        if earlier is None:
            yield "Added", f"Clause {clause.id}: {clause.text}"
        else:
            gone.remove(earlier)
            yield "Changed", f"Clause {clause.id}: {clause.text} Before, {earlier.id}: {earlier.text}"
    yield from (("Removed", f"Clause {clause.id}: {clause.text}") for clause in gone)


def _unspecified(new: OpVersion, old: OpVersion) -> Said:
    after, earlier = ({item.key: item for item in op.unspecified} for op in (new, old))

    def text(item: Unspecified) -> str:
        return f"Left open: {item.question} Our choice: {item.choice}"

    def changed(now: Unspecified, before: Unspecified) -> str:
        return "" if now.choice == before.choice else f"{text(now)} Before: {before.choice}"

    yield from _compared(after, earlier, text, lambda item: f"No longer left open: {item.question}", changed)


def _function(new: OpVersion, old: OpVersion) -> Said:
    if old.body is None and new.body is not None:
        yield "Added", "A function body: the operator can be expanded into simpler ones."
    elif new.body != old.body:
        yield "Removed" if new.body is None else "Changed", "The function body."


def _shape_inference(new: OpVersion, old: OpVersion) -> Said:
    for heading, one, other in (("Added", new, old), ("Removed", old, new)):
        if one.shape_inference and other.shape_inference is False:
            yield heading, "Shape inference."
