"""The kernels' PTX: the same bytes everywhere, no operation that the source has not; and its translation."""

import ctypes
import hashlib
import re

import pytest
from tests.cuda.build import CUDA, FLAGS, HERE, compile_with_nvrtc, ptx
from tests.cuda.ptx_to_cpp import UnknownInstruction, translate
from tests.house.builds import ROOT, run, tool


def operations(text: str) -> set[str]:
    """Return the instructions, without their operands."""
    return set(re.findall(r"(?m)^\s+(?:@!?%p\d+\s+)?([a-z]\w*(?:\.\w+)+)\s", text))


def test_the_compiler_makes_the_same_bytes():
    assert hashlib.sha256(ptx().encode()).hexdigest() == (CUDA / "kernels.ptx.sha256").read_text().strip()


def test_every_floating_operation_rounds_as_it_is_written():
    found = operations(ptx())
    assert {"add.rn.f64", "mul.rn.f64", "fma.rn.f64", "sqrt.rn.f32"} <= found
    assert not [name for name in found if re.search(r"\.(ftz|sat|full|rz|rm|rp)\b", name)]
    # It begins the compiler's division of 128-bit integers, which mends it.
    assert [name for name in found if ".approx" in name] in ([], ["rcp.approx.f32"])
    for name in found:
        if re.match(r"(add|sub|mul|fma|div|rcp|sqrt)\.(?!.*[usb]\d+$)(?!cc)", name):
            assert re.search(r"\.(rn|approx)\.f(32|64)$", name), name
    assert not [name for name in found if re.match(r"(sin|cos|ex2|lg2|tanh|rsqrt|mad\.\w+\.f)", name)]


@pytest.mark.exhaustive
def test_no_operation_is_fused_that_is_not_written_so():
    """Where what the source writes is something else, there is none. (This compiles the kernels a second time.)"""
    assert any(name.startswith("fma") for name in operations(ptx()))
    program = (
        f"import sys; sys.path.insert(0, {str(ROOT / 'tools')!r}); import make_ptx\n"
        "make_ptx.OPTIONS.append('--define-macro=__fma_rn(a,b,c)=(a-b-c)'); print(make_ptx.compiled())"
    )
    without = compile_with_nvrtc("-c", program)
    assert len(without) > 1_000_000
    assert not [name for name in operations(without) if re.match(r"fma|mad\.\w+\.f", name)]


def test_tables_are_not_empty():
    """The compiler leaves a function's own constant object without its values, silently."""
    empty = re.findall(r"(?m)^\.(?:global|const) .*\[\d+\];$", ptx())
    assert not empty


def test_kernels_fit_a_launch():
    kernels = re.findall(r"\.visible \.entry (\w+)\(([^)]*)\)", ptx())
    assert len(kernels) == 22
    for name, parameters in kernels:
        sizes = [int(size) for size in re.findall(r"\.b8 \w+\[(\d+)\]", parameters)]
        assert 0 < sum(sizes) < 4096 - 64, name
    assert not re.search(r"\.shared|\.extern", ptx())


@pytest.mark.exhaustive
def test_an_assembler_takes_it(tmp_path):
    """For the oldest devices; docs/cuda.md says of which versions this was tried. A digest pins what it takes."""
    assembler = tool("ptxas")
    source = tmp_path / "kernels.ptx"
    source.write_text(ptx())
    run(assembler, "--gpu-name=sm_75", source, "--output-file", tmp_path / "kernels.cubin")


# The translation.

HEADER = """
.version 8.0
.target sm_75
.address_size 64
"""
PROGRAM = """
.visible .entry {name}(
    .param .u64 {name}_param_0,
    .param .u64 {name}_param_1
)
{{
    .reg .pred %p<3>;
    .reg .b16 %rs<3>;
    .reg .f32 %f<4>;
    .reg .b32 %r<8>;
    .reg .f64 %fd<4>;
    .reg .b64 %rd<8>;

    ld.param.u64 %rd1, [{name}_param_0];
    ld.param.u64 %rd2, [{name}_param_1];
    ld.global.v2.u64 {{%rd3, %rd4}}, [%rd1];
    cvt.u32.u64 %r1, %rd3;
    cvt.u32.u64 %r2, %rd4;
    mov.b64 %fd1, %rd3;
    mov.b64 %fd2, %rd4;
    {instructions}
    ret;
}}
"""


ALL = 2**64 - 1
FLOAT_NAN = 0x7FFFFFFF
SUB = "mov.b32 %f1, %r1; sub.rn.f32 %f2, %f1, %f1;"
FMA = "fma.rn.f64 %fd3, %fd1, %fd1, %fd2;"


# Instructions that take %rd3, %rd4, and their lower halves %r1, %r2; those operands; what they leave in %rd5.
CASES = [
    # Carries: of a sum, and of a difference, where a borrow is no carry.
    ("add.cc.u64 %rd6, %rd3, %rd4; addc.u64 %rd5, 0, 0;", ALL, 1, 1),
    ("add.cc.u64 %rd6, %rd3, %rd4; addc.u64 %rd5, 5, 0;", ALL, 0, 5),
    ("sub.cc.u64 %rd6, %rd3, %rd4; subc.u64 %rd5, 10, 0;", 1, 2, 9),
    ("sub.cc.u64 %rd6, %rd3, %rd4; subc.u64 %rd5, 10, 0;", 2, 2, 10),
    ("mul.hi.u64 %rd5, %rd3, %rd4;", ALL, ALL, ALL - 1),
    ("mul.hi.s64 %rd5, %rd3, %rd4;", ALL, ALL, 0),
    ("mul.wide.s32 %rd5, %r1, %r2;", 2**32 - 1, 3, 2**64 - 3),
    (
        "mad.lo.cc.u32 %r3, %r1, %r2, -1; madc.hi.u32 %r4, %r1, %r2, 0; cvt.u64.u32 %rd5, %r4;",
        2**16,
        2**16 + 1,
        2,
    ),
    # Shifts by the width and more.
    ("shl.b64 %rd5, %rd3, %r2;", 1, 64, 0),
    ("shr.s64 %rd5, %rd3, %r2;", 2**63, 200, ALL),
    ("shr.u64 %rd5, %rd3, %r2;", 2**63, 63, 1),
    ("shf.l.wrap.b32 %r3, %r1, %r2, 33; cvt.u64.u32 %rd5, %r3;", 2**31, 3, 7),
    ("shf.r.clamp.b32 %r3, %r1, %r2, 40; cvt.u64.u32 %rd5, %r3;", 5, 9, 9),
    ("bfi.b64 %rd5, %rd3, %rd4, 8, 4;", 0xF5, ALL, ALL - 0xA00),
    ("bfe.u64 %rd5, %rd3, 8, 4;", 0xABCD, 0, 0xB),
    ("bfe.u32 %r3, %r1, 28, %r2; cvt.u64.u32 %rd5, %r3;", 0xABCDEF01, 32, 0xA),
    ("prmt.b32 %r3, %r1, %r2, 29712; cvt.u64.u32 %rd5, %r3;", 0x44332211, 0x88776655, 0x88552211),
    # Conversions and comparisons.
    ("cvt.rzi.s64.f64 %rd5, %fd1;", 0x7FF0000000000000, 0, 2**63 - 1),
    ("cvt.rzi.u64.f64 %rd5, %fd1;", 0xC000000000000000, 0, 0),
    ("cvt.u16.u64 %rs1, %rd3; cvt.s64.s16 %rd5, %rs1;", 0x8000, 0, ALL - 0x7FFF),
    ("setp.ltu.f64 %p1, %fd1, %fd2; selp.b64 %rd5, 1, 2, %p1;", 0x7FF8000000000000, 0, 1),
    ("setp.ne.f64 %p1, %fd1, %fd2; selp.b64 %rd5, 1, 2, %p1;", 0x7FF8000000000000, 0, 2),
    ("setp.lt.s64 %p1, %rd3, %rd4; selp.b64 %rd5, 1, 2, %p1;", ALL, 0, 1),
    (
        "max.f64 %fd3, %fd1, %fd2; mov.b64 %rd5, %fd3;",
        0x7FF8000000000000,
        0x4000000000000000,
        0x4000000000000000,
    ),
    ("max.f64 %fd3, %fd1, %fd2; mov.b64 %rd5, %fd3;", 2**63, 0, 0),
    ("min.s64 %rd5, %rd3, %rd4;", ALL, 5, ALL),
    # A NaN is the device's.
    (f"{SUB} mov.b32 %r3, %f2; cvt.u64.u32 %rd5, %r3;", 0x7F800000, 0, FLOAT_NAN),
    ("neg.f64 %fd3, %fd1; mov.b64 %rd5, %fd3;", 0x7FF8000000000001, 0, 0xFFF8000000000001),
    (f"{FMA} mov.b64 %rd5, %fd3;", 0x3FF0000000000001, 0xBFF0000000000002, 0x3970000000000000),
]


@pytest.fixture(scope="module")
def machine(tmp_path_factory: pytest.TempPathFactory) -> ctypes.CDLL:
    """A library that runs the instructions of a case, by its number."""
    library = tmp_path_factory.mktemp("machine") / "programs.so"
    source = library.with_suffix(".cpp")
    text = HEADER
    for number, (instructions, *_) in enumerate(CASES):
        lines = f"{instructions} st.global.u64 [%rd2], %rd5;".replace("; ", ";\n    ")
        text += PROGRAM.format(name=f"program{number}", instructions=lines)
    places = "thread_local Index grid_dim, block_dim, block_index, thread_index;\n"
    call = "void call(int number, void** parameters) { kernels_of_ptx[number].run_thread(parameters); }\n"
    source.write_text(f'{translate(text)}{places}extern "C" {call}')
    run(tool("g++"), *FLAGS, f"-I{HERE}", "-shared", "-o", library, source)
    return ctypes.CDLL(str(library))


@pytest.mark.parametrize("number", range(len(CASES)), ids=lambda number: CASES[number][0].split()[0])
def test_instructions(machine, number):
    _, a, b, expected = CASES[number]
    operands, result = (ctypes.c_uint64 * 2)(a, b), ctypes.c_uint64(0)
    pointers = [ctypes.c_void_p(ctypes.addressof(o)) for o in (operands, result)]
    machine.call(number, (ctypes.c_void_p * 2)(*(ctypes.addressof(p) for p in pointers)))
    assert result.value == expected


@pytest.mark.parametrize(
    "instruction",
    [
        "ex2.approx.f32 %f1, %f2;",
        "add.rn.ftz.f32 %f1, %f2, %f3;",
        "fma.rz.f64 %fd1, %fd2, %fd3, %fd1;",
        "rcp.approx.f64 %fd1, %fd2;",
        "vote.sync.any.pred %p1, %p2, -1;",
        "st.shared.u32 [%rd1], %r1;",
        "mov.u32 %r1, %laneid;",
        "atom.global.cas.b64 %rd1, [%rd2], %rd3, %rd4;",
    ],
)
def test_what_has_no_translation_is_an_error(instruction):
    with pytest.raises(UnknownInstruction):
        translate(HEADER + PROGRAM.format(name="program", instructions=instruction))
