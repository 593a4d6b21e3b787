"""PTX as C++: a function for each of its functions, a statement for each instruction.

So what the compiler made of the kernels runs where there is no GPU, a thread after the other. An instruction that is
not known here is an error. The meanings are those of NVIDIA's "PTX ISA"; ptx_machine.h has the longer ones.
"""

import re
from collections.abc import Iterator
from functools import cache, partial

HEADER = '#include "ptx_machine.h"\n'

_PLACES = {
    "%ctaid.x": "block_index.x",
    "%tid.x": "thread_index.x",
    "%ntid.x": "block_dim.x",
    "%nctaid.x": "grid_dim.x",
}
# An instruction's result, by patterns of its name, as C++. {a}, {b} and so on are the operands behind the first, of the
# last type in its name, and {T} is that type in C++. A letter before is for another type: u and b the unsigned one and
# the bits of the same size, w the one of twice the size, t the name's last but one, n u32, p a predicate.
_EXPRESSIONS = {
    r"add\.rn\.f\d+": "{a} + {b}",
    r"sub\.rn\.f\d+": "{a} - {b}",
    r"mul\.rn\.f\d+": "{a} * {b}",
    r"div\.(rn\.f|[us])\d+": "{a} / {b}",
    r"fma\.rn\.f\d+": "std::fma({a}, {b}, {c})",
    r"sqrt\.rn\.f\d+": "std::sqrt({a})",
    # The approximate one only begins the compiler's division of 128-bit integers, which mends what it lacks.
    r"rcp\.(rn\.f\d+|approx\.f32)": "1 / {a}",
    r"neg\.f32": "{ba} ^ 0x80000000u",
    r"neg\.f64": "{ba} ^ 0x8000000000000000ull",
    r"abs\.f32": "{ba} & ~0x80000000u",
    r"abs\.f64": "{ba} & ~0x8000000000000000ull",
    r"add\.[usb]\d+": "static_cast<{uT}>({ua} + {ub})",
    r"sub\.[usb]\d+": "static_cast<{uT}>({ua} - {ub})",
    r"add(\.cc|c|c\.cc)\.[usb]\d+": "add_carry<{uT}>({ua}, {ub}, {carries})",
    r"sub(\.cc|c|c\.cc)\.[usb]\d+": "sub_carry<{uT}>({ua}, {ub}, {carries})",
    r"mul\.lo\.[usb]\d+": "mul_lo<{uT}>({ua}, {ub})",
    r"mul\.hi\.[usb]\d+": "mul_hi<{T}>({a}, {b})",
    r"mul\.wide\.[us]\d+": "static_cast<{wT}>({a}) * static_cast<{wT}>({b})",
    r"mad\.wide\.[us]\d+": "static_cast<{wT}>(static_cast<{wT}>({a}) * static_cast<{wT}>({b}) + {wc})",
    r"madc?\.lo(\.cc)?\.[usb]\d+": "add_carry<{uT}>(mul_lo<{uT}>({ua}, {ub}), {uc}, {carries})",
    r"madc?\.hi(\.cc)?\.u\d+": "add_carry<{T}>(mul_hi<{T}>({a}, {b}), {c}, {carries})",
    r"rem\.[us]\d+": "{a} % {b}",
    r"neg\.[usb]\d+": "static_cast<{uT}>(0 - {ua})",
    r"abs\.[usb]\d+": "static_cast<{T}>({a} < 0 ? 0 - {ua} : {ua})",
    r"not\.pred": "!{a}",
    r"not\.[usb]\d+": "static_cast<{T}>(~{a})",
    r"clz\.b\d+": "static_cast<uint32_t>(std::countl_zero({ua}))",
    r"popc\.b\d+": "static_cast<uint32_t>(std::popcount({ua}))",
    r"and\.\w+": "static_cast<{T}>({a} & {b})",
    r"or\.\w+": "static_cast<{T}>({a} | {b})",
    r"xor\.\w+": "static_cast<{T}>({a} ^ {b})",
    r"shl\.\w+": "shift_left<{T}>({a}, {nb})",
    r"shr\.\w+": "shift_right<{T}>({a}, {nb})",
    r"shf\.l\.wrap\.b32": "funnel_left({na}, {nb}, {nc} & 31)",
    r"shf\.r\.wrap\.b32": "funnel_right({na}, {nb}, {nc} & 31)",
    r"shf\.l\.clamp\.b32": "funnel_left({na}, {nb}, clamped({nc}))",
    r"shf\.r\.clamp\.b32": "funnel_right({na}, {nb}, clamped({nc}))",
    r"bfi\.b\d+": "insert_bits<{uT}>({ua}, {ub}, {nc}, {nd})",
    r"bfe\.u\d+": "shift_right<{T}>({a}, {nb} & 255) & (shift_left<{T}>(1, {nc} & 255) - 1)",
    r"prmt\.b32": "permute_bytes({na}, {nb}, {nc})",
    r"min\.\w+": "least<{T}>({a}, {b})",
    r"max\.\w+": "greatest<{T}>({a}, {b})",
    r"selp\.\w+": "{pc} ? {ba} : {bb}",
    r"setp\.eq\.\w+": "{a} == {b}",
    r"setp\.lt\.\w+": "{a} < {b}",
    r"setp\.le\.\w+": "{a} <= {b}",
    r"setp\.gt\.\w+": "{a} > {b}",
    r"setp\.ge\.\w+": "{a} >= {b}",
    r"setp\.ne\.[usb]\d+": "{a} != {b}",
    r"setp\.ne\.f\d+": "{a} < {b} || {a} > {b}",  # which is false of NaN
    # These are true of NaN: the contrary of another one.
    r"setp\.equ\.f\d+": "!({a} < {b} || {a} > {b})",
    r"setp\.neu\.f\d+": "!({a} == {b})",
    r"setp\.ltu\.f\d+": "!({a} >= {b})",
    r"setp\.leu\.f\d+": "!({a} > {b})",
    r"setp\.gtu\.f\d+": "!({a} <= {b})",
    r"setp\.geu\.f\d+": "!({a} < {b})",
    r"setp\.nan\.f\d+": "{a} != {a} || {b} != {b}",
    r"setp\.num\.f\d+": "{a} == {a} && {b} == {b}",
    r"cvt\.rzi\.[us]\d+\.f\d+": "to_integer<{tT}>({a})",
    # Exact, or rounded.
    r"cvt\.([usb]\d+\.[usb]\d+|f(32|64)\.f16|f64\.f32)": "static_cast<{tT}>({a})",
    r"cvt\.rn\.(f\d+\.[usb]\d+|f16\.f\d+|f32\.f(32|64)|f64\.f64)": "static_cast<{tT}>({a})",
    r"cvta(\.\w+)*\.u64": "{a}",
}

# The types of registers by their names: bits, which a double's or a float's are too.
_REGISTERS = {"p": "bool", "rs": "uint16_t", "r": "uint32_t", "rd": "uint64_t"}
_REGISTERS |= {"f": "uint32_t", "fd": "uint64_t"}


class UnknownInstruction(ValueError):
    """An instruction, or an operand, that has no translation."""


def c_type(kind: str) -> str:
    """Return the C++ type of a PTX type: ``"u32"``, ``"b64"``, ``"f64"``, ``"pred"``."""
    if kind == "pred":
        return "bool"
    letter, bits = kind[0], kind[1:]
    if letter == "f" and bits in ("16", "32", "64"):
        return {"16": "_Float16", "32": "float", "64": "double"}[bits]
    if letter in "usb" and bits in ("8", "16", "32", "64"):
        return ("int" if letter == "s" else "uint") + bits + "_t"
    raise UnknownInstruction(f"type {kind}")


def unsigned(kind: str) -> str:
    return "u" + kind[1:] if kind[0] in "sb" else kind


def wider(kind: str) -> str:
    return kind[0] + str(2 * int(kind[1:]))


def name(text: str) -> str:
    """Return a PTX name as one of C++."""
    return text.strip().replace("%", "r_").replace("$", "L_").replace(".", "_")


def value(text: str, kind: str) -> str:
    """Return an operand as a C++ expression of a PTX type."""
    text = text.strip()
    if text in _PLACES:
        return _PLACES[text]
    if m := re.fullmatch(r"%(p|rs|r|rd|f|fd)\d+|%SPL?", text):
        # Without a call where there is nothing to convert: the compiler takes half of the time for them.
        own = _REGISTERS.get(m[1]) == c_type(kind)
        return name(text) if own else f"bits_as<{c_type(kind)}>({name(text)})"
    if m := re.fullmatch(r"0([df])([0-9A-Fa-f]+)", text):
        suffix = "ull" if m[1] == "d" else "u"
        return f"bits_as<{c_type(kind)}>(0x{m[2]}{suffix})"
    if re.fullmatch(r"-?\d+", text):
        return f"static_cast<{c_type(kind)}>({int(text) % 2**64}ull)"
    if re.fullmatch(r"[A-Za-z_$][\w$]*", text):
        return f"reinterpret_cast<uint64_t>({name(text)})"
    raise UnknownInstruction(f"operand {text}")


def address(text: str) -> str:
    m = re.fullmatch(r"\[([%\w$]+)(?:\+(-?\d+))?\]", text.strip())
    if m is None:
        raise UnknownInstruction(f"address {text}")
    return f"{value(m[1], 'u64')} + {m[2] or 0}"


def put(to: str, expression: str) -> str:
    own = _REGISTERS.get(to.strip("%0123456789 "), "nothing")
    register = re.fullmatch(r"r_([a-z]+)\d+", expression)
    if register:
        is_its_own = _REGISTERS.get(register[1]) == own
    else:
        is_its_own = expression.startswith(f"static_cast<{own}>(")
    return f"{name(to)} = {expression};" if is_its_own else f"put({name(to)}, {expression});"


def split(text: str) -> list[str]:
    """Return what commas part that stand in no brackets."""
    parts = re.findall(r"(?:[^,{\[(]|\{[^}]*\}|\[[^\]]*\]|\([^)]*\))+", text)
    return [part.strip() for part in parts]


def elements(text: str) -> list[str]:
    return split(text[1:-1]) if text.startswith("{") else [text]


def statement(opcode: str, operands: list[str]) -> str:
    """Return an instruction as C++ statements."""
    base, *modifiers, kind = opcode.split(".")
    if base in _FUNCTIONS:
        result = _FUNCTIONS[base](base, modifiers, kind, operands)
    elif (expression := _expression(opcode)) is not None and "|" not in operands[0]:
        carry_in = "carry" if base.endswith("c") else "true" if base == "sub" else "false"
        carries = f"{carry_in}, {'carry' if 'cc' in modifiers else 'no_carry'}"
        others = {"u": unsigned(kind), "b": "b" + kind[1:], "n": "u32", "p": "pred"}
        others["t"] = modifiers[-1] if modifiers else kind

        def filled(place: re.Match[str]) -> str:
            own = wider(kind) if place[1] == "w" else others.get(place[1], kind)
            return c_type(own) if place[2] == "T" else value(operands["abcd".index(place[2]) + 1], own)

        expression = expression.replace("{carries}", carries)
        result = put(operands[0], re.sub(r"\{([a-z]?)([abcdT])\}", filled, expression))
    else:
        result = None
    if result is None:
        raise UnknownInstruction(f"{opcode} {', '.join(operands)}")
    return result


@cache
def _expression(opcode: str) -> str | None:
    matching = (text for pattern, text in _EXPRESSIONS.items() if re.fullmatch(pattern, opcode))
    return next(matching, None)


def _move(base: str, modifiers: list[str], kind: str, o: list[str]) -> str | None:
    if modifiers:
        return None
    if kind == "pred":
        return put(o[0], {"-1": "true", "0": "false"}.get(o[1]) or name(o[1]))
    bits, to, source = int(kind[1:]), elements(o[0]), elements(o[1])
    kind = f"b{bits}"
    if len(to) > 1:
        part = bits // len(to)
        shifted = (
            f"static_cast<{c_type(f'b{part}')}>({value(o[1], kind)} >> {part * i})" for i in range(len(to))
        )
        return " ".join(put(register, expression) for register, expression in zip(to, shifted, strict=True))
    if len(source) > 1:
        part = bits // len(source)
        shifted = (
            f"static_cast<{c_type(kind)}>({value(a, f'b{part}')}) << {part * i}" for i, a in enumerate(source)
        )
        return put(o[0], f"static_cast<{c_type(kind)}>({' | '.join(shifted)})")
    return put(o[0], value(o[1], kind))


def _memory(base: str, modifiers: list[str], kind: str, o: list[str]) -> str | None:
    spaces = [m for m in modifiers if m not in ("nc", "v2", "v4")]
    if spaces not in ([], ["param"], ["global"], ["local"]):
        return None
    signed = kind if kind[0] == "s" else "b" + kind[1:]
    at, registers = (o[1], o[0]) if base == "ld" else (o[0], o[1])
    places = [f"{address(at)} + {i} * {int(kind[1:]) // 8}" for i in range(len(elements(registers)))]
    if base == "ld":
        loads = (f"load<{c_type(signed)}>({place})" for place in places)
        return " ".join(put(r, load) for r, load in zip(elements(registers), loads, strict=True))
    bits = "b" + kind[1:]
    return " ".join(
        f"store<{c_type(bits)}>({place}, {value(r, bits)});"
        for r, place in zip(elements(registers), places, strict=True)
    )


def _atomic(base: str, modifiers: list[str], kind: str, o: list[str]) -> str | None:
    if modifiers != ["global", "add"] or kind != "u64":
        return None
    at, addend = (o[1], o[2]) if base == "atom" else (o[0], o[1])
    old = put(o[0], f"load<uint64_t>({address(at)})") if base == "atom" else ""
    return f"{old} store<uint64_t>({address(at)}, load<uint64_t>({address(at)}) + {value(addend, kind)});".strip()


_FUNCTIONS = {"mov": _move, "ld": _memory, "st": _memory, "atom": _atomic, "red": _atomic}

_FUNCTION = re.compile(
    r"^(?:\.visible |\.weak )?\.(?P<what>entry|func)\s*(?:\((?P<result>[^)]*)\)\s*)?(?P<name>[\w$]+)\s*"
    r"\((?P<parameters>[^)]*)\)(?P<attributes>[^{;]*)(?P<end>[{;])",
    re.M,
)
_VARIABLE = re.compile(
    r"^(?:\.visible |\.weak )?\.(?:global|const)\s+\.align (\d+) \.(\w+) ([\w$]+)(?:\[(\d+)\])?"
    r"(?:\s*=\s*([^;]*))?;",
    re.M,
)


def translate(ptx: str) -> str:
    """Return a C++ source with a table ``kernels_of_ptx`` of the kernels that PTX defines (device.h)."""
    ptx = re.sub(r"//[^\n]*|/\*.*?\*/", "", ptx, flags=re.S)
    functions = list(_functions(ptx))
    signatures = [f"static void {name(head['name'])}({_parameters(head)});" for head, _ in functions]
    entries = [head for head, _ in functions if head["what"] == "entry"]
    parts = [HEADER, *_variables(ptx), *signatures, *(_function(head, body) for head, body in functions)]
    return "\n".join([*parts, *map(_entry, entries), _table(entries)]) + "\n"


def _functions(ptx: str) -> Iterator[tuple[re.Match[str], str]]:
    position = 0
    while head := _FUNCTION.search(ptx, position):
        position = head.end()
        if head["end"] == ";":
            continue
        depth = 1
        while depth:
            depth += {"{": 1, "}": -1}.get(ptx[position], 0)
            position += 1
        yield head, ptx[head.end() : position - 1]


def _names_of_parameters(head: re.Match[str]) -> list[str]:
    return [m[1] for p in split(head["parameters"]) if (m := re.search(r"([\w$]+)(?:\[\d+\])?$", p))]


def _sizes_of_parameters(head: re.Match[str]) -> list[int]:
    found = (re.search(r"\.[a-z](\d+)\s+[\w$]+(?:\[(\d+)\])?$", p) for p in split(head["parameters"]))
    return [int(m[1]) // 8 * int(m[2] or 1) for m in found if m]


def _parameters(head: re.Match[str]) -> str:
    result = ["unsigned char* func_retval0"] if head["result"] else []
    return ", ".join(result + [f"unsigned char* {name(p)}" for p in _names_of_parameters(head)])


def _variables(ptx: str) -> Iterator[str]:
    for align, kind, variable, count, values in _VARIABLE.findall(ptx):
        values = re.sub(
            r"generic\([\w$]+\)", "0", values.strip()
        )  # the names of types, which no kernel reads
        if m := re.fullmatch(r"0[df]([0-9A-Fa-f]+)", values):
            kind, values = "u" + kind[1:], f"0x{m[1]}"
        bits = int(kind[1:])
        values = re.sub(r"-\d+", partial(_as_unsigned, bits), values)
        values = values if values.startswith("{") else "{" + values + "}"
        yield f"alignas({align}) static {c_type(f'b{bits}')} {name(variable)}[{count or 1}] = {values};"


def _as_unsigned(bits: int, number: re.Match[str]) -> str:
    return f"{int(number[0]) % 2**bits}u"


def _function(head: re.Match[str], body: str) -> str:
    lines = [f"static void {name(head['name'])}({_parameters(head)}) {{"]
    lines.append("    [[maybe_unused]] bool carry = false, no_carry = false;")
    lines += (f"    {line}" for line in _declarations(body))
    lines += (f"    {_translated(text)}" for text in _statements(body))
    return "\n".join([*lines, "}"])


def _declarations(body: str) -> Iterator[str]:
    """Return the registers and local variables: before all else, since no jump may pass them."""
    for kind, prefix, count in re.findall(r"\.reg \.(\w+)\s+%(\w+)<(\d+)>;", body):
        used = sorted({int(n) for n in re.findall(rf"%{prefix}(\d+)\b", body)})
        if any(n >= int(count) for n in used):
            raise UnknownInstruction(f"register %{prefix}{used[-1]}")
        register = _REGISTERS[prefix]
        if register != ("bool" if kind == "pred" else c_type("u" + kind[1:])):
            raise UnknownInstruction(f"register %{prefix} of {kind}")
        yield from (f"{register} r_{prefix}{n}{{}};" for n in used)
    for kind, register in re.findall(r"\.reg \.(\w+)\s+(%\w+);", body):
        yield f"{c_type('u' + kind[1:])} {name(register)}{{}};"
    for align, variable, size in re.findall(r"\.local \.align (\d+) \.b8\s+(\w+)\[(\d+)\];", body):
        yield f"alignas({align}) unsigned char {variable}[{size}];"


def _statements(body: str) -> Iterator[str]:
    body = re.sub(r"\.(?:reg|local|pragma) [^;]*;", "", body)
    body = re.sub(r"(?m)^\s*([{}])\s*$", r"\1;", body)
    body = re.sub(r"(?m)^\s*([\w$]+:)\s*$", r"\1;", body)
    for text in body.split(";"):
        if text := re.sub(r"\s+", " ", text).strip():
            yield text


def _translated(text: str) -> str:
    if text in "{}":
        return text
    if m := re.fullmatch(r"([\w$]+):", text):
        return f"{name(m[1])}:;"
    if m := re.fullmatch(r"\.param (?:\.align \d+ )?\.[a-z](\d+) (\w+)(?:\[(\d+)\])?", text):
        return f"alignas(16) unsigned char {m[2]}[{int(m[1]) // 8 * int(m[3] or 1)}];"
    condition = ""
    if m := re.fullmatch(r"@(!?)(%\w+) (.*)", text):
        condition, text = f"if ({m[1]}{name(m[2])}) ", m[3]
    if m := re.fullmatch(r"bra(?:\.uni)? ([\w$]+)", text):
        return f"{condition}goto {name(m[1])};"
    if text == "exit":  # LLVM writes it where nothing arrives
        return f"{condition}__builtin_trap();"
    if text == "ret":
        return f"{condition}return;"
    if m := re.fullmatch(r"call(?:\.uni)? (?:\((\w+)\), )?([\w$]+)(?:, \(([^)]*)\))?", text):
        operands = [m[1]] if m[1] else []
        return f"{condition}{name(m[2])}({', '.join(operands + split(m[3] or ''))});"
    opcode, _, operands_text = text.partition(" ")
    return f"{condition}{{ {statement(opcode, split(operands_text))} }}"


def _entry(head: re.Match[str]) -> str:
    function = name(head["name"])
    sizes = _sizes_of_parameters(head)
    arguments = ", ".join(f"static_cast<unsigned char*>(parameters[{i}])" for i in range(len(sizes)))
    return (
        f"static const unsigned sizes_{function}[] = {{{', '.join(map(str, sizes))}}};\n"
        f"static void run_{function}(void** parameters) {{ {function}({arguments}); }}"
    )


def _table(entries: list[re.Match[str]]) -> str:
    rows = (
        f'    {{"{head["name"]}", run_{name(head["name"])}, {len(_sizes_of_parameters(head))}, '
        f"sizes_{name(head['name'])}}},"
        for head in entries
    )
    return "\n".join(
        [
            "extern const Kernel kernels_of_ptx[];",
            "const Kernel kernels_of_ptx[] = {",
            *rows,
            "    {nullptr, nullptr, 0, nullptr},",
            "};",
        ]
    )
