"""Write bindings/onnxruntime/rules.h: the broadcasting rules of ONNX's operators, their checks and messages.

    python tools/make_rules.py          # print the file
    python tools/make_rules.py --write  # replace bindings/onnxruntime/rules.h

The rules are functions in halfulp.specs.broadcast, which a session cannot call. bindings/onnxruntime/broadcast.cpp
computes the same in C++ and takes names and messages from this file. Each message is the error of an operator version
for the shapes of an example.
"""

from __future__ import annotations

import argparse
import json
from dataclasses import dataclass, field
from pathlib import Path

from halfulp.specs import OpVersion, find, ids
from halfulp.specs.broadcast import Mismatch

TARGET = Path(__file__).parents[1] / "bindings" / "onnxruntime" / "rules.h"


@dataclass(frozen=True)
class Refused:
    """Shapes that an operator version refuses, for one of the messages."""

    name: str
    id: str
    x: tuple[int, ...]
    y: tuple[int, ...]
    attributes: dict[str, int] = field(default_factory=dict)

    def mismatch(self) -> Mismatch:
        row = find(self.id)
        try:
            row.broadcasting.infer(self.x, self.y, self.attributes)
        except Mismatch as mismatch:
            x, y = (port.name for port in row.inputs)
            return Mismatch(mismatch.check, mismatch.message.format(x=x, y=y))
        raise AssertionError(f"{self.id} accepts the shapes of {self.name}")


REFUSED = (
    Refused("not_broadcastable", "onnx.Pow-15", (2,), (3,)),
    Refused("not_unidirectional", "onnx.PRelu-16", (2,), (3,)),
    Refused("not_per_channel", "onnx.PRelu-1", (2, 3), (4,)),
    Refused("not_equal", "onnx.Pow-1", (2,), (3,)),
    Refused("rank_too_great", "onnx.Pow-1", (2,), (2, 3), {"broadcast": 1}),
    Refused("no_such_axis", "onnx.Pow-1", (2, 3), (2,), {"broadcast": 1, "axis": 2}),
    Refused("beyond_the_end", "onnx.Pow-1", (2, 3), (2, 3), {"broadcast": 1, "axis": 1}),
    Refused("expands_one", "onnx.Pow-1", (2, 3, 4), (1, 4), {"broadcast": 1}),
    Refused("not_a_subset", "onnx.Pow-1", (2, 3), (4,), {"broadcast": 1}),
)


def identifier(name: str) -> str:
    return name.replace("1-dim", "one_dim").replace(" ", "_").replace("-", "_")


def clause_attribute(check: str) -> str:
    """Return the attribute of a patched node that holds the clause of a check."""
    return "clause_" + check.replace(" ", "_").replace("-", "_")


def rows() -> list[OpVersion]:
    return [row for row in map(find, ids()) if row.standard == "onnx"]


def checks() -> list[str]:
    """The checks of shapes, each once, in the order of the examples."""
    return list(dict.fromkeys(refused.mismatch().check for refused in REFUSED))


def generate() -> str:
    rules = list(dict.fromkeys(row.broadcasting.name for row in rows()))
    lines = [
        "// Broadcasting rules, checks and messages, made by tools/make_rules.py from halfulp.specs. Do not edit.",
        "#pragma once",
        "",
        "namespace halfulp::ort {",
        "",
        "// The names are those of the operator versions' rows (broadcasting.name in Python).",
        enumeration("Rule", rules),
        array("rule_names", rules),
        "",
        "// The checks of shapes that clauses enforce, and the attributes of a node that hold the clauses' ids.",
        enumeration("Check", [*checks(), "count"]),
        array("clause_attributes", list(map(clause_attribute, checks()))),
        "",
        "struct Mismatch {",
        "    Check check;",
        "    const char* message;",
        "};",
        "",
    ]
    for refused in REFUSED:
        mismatch = refused.mismatch()
        lines += [
            f"inline constexpr Mismatch {refused.name}{{",
            f"    Check::{identifier(mismatch.check)}, {json.dumps(mismatch.message)}}};",
        ]
    lines += [
        "",
        "// The operator versions, the names of types with a space after each; no exponent's types: those of X.",
        "struct Version {",
        "    const char* name;",
        "    int since, until;",
        "    Rule rule;",
        "    const char *types, *exponent_types;",
        "    const char* clauses[static_cast<int>(Check::count)];",
        "};",
        "inline constexpr int most_versions = 1000;",
        "inline constexpr Version versions[] = {",
        *map(version, rows()),
        "};",
    ]
    lines += ["", "}  // namespace halfulp::ort", ""]
    return "\n".join(lines)


def version(row: OpVersion) -> str:
    """Return the entry of an operator version."""
    later = [
        int(other.version)
        for other in rows()
        if other.name == row.name and int(other.version) > int(row.version)
    ]
    until = str(min(later) - 1) if later else "most_versions"
    enforced = {check: f"{row.id}.{clause.id}" for clause in row.clauses for check in clause.enforces}
    types = ["".join(f"{name} " for name in row.type_variables.get(variable, ())) for variable in ("T", "T1")]
    head = [json.dumps(row.name), row.version, until, f"Rule::{identifier(row.broadcasting.name)}"]
    clauses = ", ".join(json.dumps(enforced.get(check, "")) for check in checks())
    return f"    {{{', '.join([*head, *map(json.dumps, types)])},\n     {{{clauses}}}}},"


def enumeration(name: str, values: list[str]) -> str:
    return f"enum class {name} {{ {', '.join(map(identifier, values))} }};"


def array(name: str, values: list[str]) -> str:
    listed = ", ".join(map(json.dumps, values))
    return f"inline constexpr const char* {name}[] = {{\n    {listed}}};"


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--write", action="store_true", help="replace bindings/onnxruntime/rules.h")
    if parser.parse_args().write:
        TARGET.write_text(generate(), encoding="ascii")
    else:
        print(generate(), end="")


if __name__ == "__main__":
    main()
