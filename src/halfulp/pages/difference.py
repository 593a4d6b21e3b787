"""What changed between two versions of an operator, in words."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from halfulp.pages.page import Bullets, Page, Section, limits_text, rule_text
from halfulp.specs.model import Attribute, Clause, OpVersion


@dataclass
class _Changes:
    added: list[str] = field(default_factory=list)
    removed: list[str] = field(default_factory=list)
    changed: list[str] = field(default_factory=list)
    unchanged: list[str] = field(default_factory=list)

    def count(self) -> int:
        return len(self.added) + len(self.removed) + len(self.changed)


def difference(new: OpVersion, old: OpVersion) -> Page:
    """Return what was added, removed and changed from one version to another, as a page."""
    changes = _Changes()
    topics = {
        "types": _types,
        "inputs and outputs": _ports,
        "attributes": _attributes,
        "broadcasting": _broadcasting,
        "limits on ranks and sizes": _limits,
        "clauses": _clauses,
        "what the document leaves open": _unspecified,
        "function body": _function,
        "shape inference": _shape_inference,
    }
    for topic, compare in topics.items():
        before = changes.count()
        compare(new, old, changes)
        if changes.count() == before:
            changes.unchanged.append(topic)
    headings = {
        "Added": changes.added,
        "Removed": changes.removed,
        "Changed": changes.changed,
        "Unchanged": [f"{_list(changes.unchanged)}."] if changes.unchanged else [],
    }
    sections = tuple(Section(name, (Bullets(tuple(items)),)) for name, items in headings.items() if items)
    lead = "" if (new.standard, new.name) == (old.standard, old.name) else "These are different operators."
    return Page(f"From {old.id} to {new.id}", lead, sections)


def _list(words: Iterable[str]) -> str:
    *first, last = words
    return f"{', '.join(first)} and {last}" if first else last


def _users(op: OpVersion, variable: str) -> str:
    return _list(port.name for port in (*op.inputs, *op.outputs) if port.type == variable)


def _verb(users: str) -> str:
    return "take" if " and " in users else "takes"


def _types(new: OpVersion, old: OpVersion, changes: _Changes) -> None:
    for variable, types in new.type_variables.items():
        users = _users(new, variable)
        if variable not in old.type_variables:
            changes.added.append(f"Type variable {variable}, for {users}: {_list(types)}.")
            continue
        before = old.type_variables[variable]
        if gained := [name for name in types if name not in before]:
            changes.added.append(f"{users} also {_verb(users)} {_list(gained)}.")
        if lost := [name for name in before if name not in types]:
            changes.removed.append(f"{users} no longer {_verb(users)} {_list(lost)}.")
    changes.removed += [
        f"Type variable {variable}, for {_users(old, variable)}."
        for variable in old.type_variables
        if variable not in new.type_variables
    ]


def _ports(new: OpVersion, old: OpVersion, changes: _Changes) -> None:
    ports = {port.name: port for port in (*new.inputs, *new.outputs)}
    before = {port.name: port for port in (*old.inputs, *old.outputs)}
    changes.added += [f"{name}: {ports[name].text}" for name in ports if name not in before]
    changes.removed += [f"{name}: {before[name].text}" for name in before if name not in ports]
    for name in ports:
        if name not in before:
            continue
        port, earlier = ports[name], before[name]
        if port.type != earlier.type:
            changes.changed.append(
                f"{name} has the type {port.type};"
                f" before, {earlier.type} (with {_others(old, earlier.type, name)})."
            )
        if port.text.rstrip(".") != earlier.text.rstrip("."):
            changes.changed.append(f"{name} is described as “{port.text}”; before, “{earlier.text}”")


def _others(op: OpVersion, variable: str, name: str) -> str:
    names = [p.name for p in (*op.inputs, *op.outputs) if p.type == variable and p.name != name]
    return _list(names) if names else "nothing else"


def _attributes(new: OpVersion, old: OpVersion, changes: _Changes) -> None:
    attributes = {attribute.name: attribute for attribute in new.attributes}
    before = {attribute.name: attribute for attribute in old.attributes}
    changes.added += [_attribute(attributes[name]) for name in attributes if name not in before]
    changes.removed += [_attribute(before[name]) for name in before if name not in attributes]
    changes.changed += [
        f"{_attribute(attributes[name])} Before: {_attribute(before[name])}"
        for name in attributes
        if name in before and attributes[name] != before[name]
    ]


def _attribute(attribute: Attribute) -> str:
    default = "required" if attribute.required else f"default {attribute.default}"
    if attribute.default is None and not attribute.required:
        default = "optional"
    return f"Attribute {attribute.name} ({attribute.type}, {default}): {attribute.text}"


def _broadcasting(new: OpVersion, old: OpVersion, changes: _Changes) -> None:
    texts = [rule_text(op) if len(op.inputs) == 2 else "" for op in (new, old)]
    if texts[0] != texts[1]:
        changes.changed.append(_now_and_before(*texts))


def _limits(new: OpVersion, old: OpVersion, changes: _Changes) -> None:
    texts = (limits_text(new), limits_text(old))
    if texts[0] != texts[1]:
        changes.changed.append(_now_and_before(*texts))


def _now_and_before(now: str, before: str) -> str:
    return f"{now or 'Nothing.'} Before: {before or 'nothing.'}"


def _clauses(new: OpVersion, old: OpVersion, changes: _Changes) -> None:
    texts = {clause.text for clause in new.clauses}
    before = {clause.text for clause in old.clauses}
    gone = [clause for clause in old.clauses if clause.text not in texts]
    for clause in new.clauses:
        if clause.text in before:
            continue
        earlier = next(_same_topic(clause, gone), None)
        if earlier is None:
            changes.added.append(f"Clause {clause.id}: {clause.text}")
        else:
            gone.remove(earlier)
            changes.changed.append(f"Clause {clause.id}: {clause.text} Before, {earlier.id}: {earlier.text}")
    changes.removed += [f"Clause {clause.id}: {clause.text}" for clause in gone]


def _same_topic(clause: Clause, others: list[Clause]) -> Iterator[Clause]:
    """The clauses that some check cites where it cites this one."""
    return (other for other in others if set(other.enforces) & set(clause.enforces))


def _unspecified(new: OpVersion, old: OpVersion, changes: _Changes) -> None:
    after = {item.key: item for item in new.unspecified}
    before = {item.key: item for item in old.unspecified}
    changes.added += [
        f"Left open: {item.question} Our choice: {item.choice}"
        for key, item in after.items()
        if key not in before
    ]
    changes.removed += [
        f"No longer left open: {item.question}" for key, item in before.items() if key not in after
    ]
    changes.changed += [
        f"Left open: {item.question} Our choice: {item.choice} Before: {before[key].choice}"
        for key, item in after.items()
        if key in before and item.choice != before[key].choice
    ]


def _function(new: OpVersion, old: OpVersion, changes: _Changes) -> None:
    if new.body is not None and old.body is None:
        changes.added.append("A function body: the operator can be expanded into simpler ones.")
    elif new.body is None and old.body is not None:
        changes.removed.append("The function body.")
    elif new.body != old.body:
        changes.changed.append("The function body.")


def _shape_inference(new: OpVersion, old: OpVersion, changes: _Changes) -> None:
    if new.shape_inference and old.shape_inference is False:
        changes.added.append("Shape inference.")
    elif old.shape_inference and new.shape_inference is False:
        changes.removed.append("Shape inference.")
