"""OpenVINO: from an ONNX model, or from a graph of its own operators."""

from __future__ import annotations

from halfulp.conformance.case import Case
from halfulp.conformance.report.literals import VARIABLES, keywords
from halfulp.types import element_type

_FUNCTIONS = {"openvino.Power-1": "power", "openvino.PReLU-1": "prelu"}


def from_onnx(case: Case) -> tuple[str, ...]:
    """Return the code that reads ``model``."""
    graph = "core = ov.Core()\ngraph = core.read_model(model.SerializeToString())\n"
    return (
        "import openvino as ov\n",
        _tensors(case),
        graph,
        _infer(case, "feeds.items()", "request.set_tensor"),
    )


def native(case: Case) -> tuple[str, ...]:
    """Return the code that builds a graph of one node."""
    lines, operands, fed = [], [], []
    for place, (name, array) in enumerate(zip(VARIABLES, case.inputs, strict=False)):
        if place in case.constants:
            operands.append(f"ov.op.Constant(tensor({name}))")
        else:
            kind = f"ov.Type.{element_type(array.dtype).openvino}"
            lines.append(f"input_{name} = ov.op.Parameter({kind}, ov.PartialShape(list({name}.shape)))\n")
            operands.append(f"input_{name}")
            fed.append(name)
    parameters = ", ".join(f"input_{name}" for name in fed)
    graph = (
        "core = ov.Core()\n"
        f"{''.join(lines)}"
        f"node = opset1.{_FUNCTIONS[case.operator]}({', '.join(operands)}{keywords(case.attributes)})\n"
        f"graph = ov.Model([node], [{parameters}])\n"
    )
    feeds = f"enumerate([{', '.join(fed)}])"
    return (
        "import openvino as ov\nfrom openvino import opset1\n",
        _tensors(case),
        graph,
        _infer(case, feeds, "request.set_input_tensor"),
    )


def _tensors(case: Case) -> str:
    """Return the functions from arrays to tensors, bit for bit, and back."""
    rows = {array.dtype.name: element_type(array.dtype) for array in case.inputs}
    kinds = ", ".join(f"{name!r}: ov.Type.{row.openvino}" for name, row in rows.items())
    pack = unpack = ""
    # OpenVINO stores two values of four bits in a byte; arrays have one in each.
    packed = [name for name, row in rows.items() if row.bits == 4]
    if packed:
        pack = (
            f"    if array.dtype.name in {packed}:\n"
            "        bits = np.append(bits.reshape(-1) & 15, np.zeros(bits.size % 2, np.uint8))\n"
            "        bits = bits[::2] | bits[1::2] << 4\n"
        )
        unpack = (
            f"    if dtype.name in {packed}:\n"
            "        data = np.stack([data & 15, data >> 4], axis=-1).reshape(-1)[: int(np.prod(made.shape))]\n"
            "        data = data.reshape(tuple(made.shape))\n"
        )
    return (
        f"\nkinds = {{{kinds}}}\n\n\n"
        "def tensor(array):\n"
        "    made = ov.Tensor(kinds[array.dtype.name], ov.Shape(array.shape))\n"
        '    bits = np.ascontiguousarray(array).view(f"u{array.itemsize}")\n'
        f"{pack}"
        "    made.data.view(bits.dtype)[...] = bits.reshape(made.data.shape)\n"
        "    return made\n\n\n"
        "def array_of(made, dtype):\n"
        '    data = np.array(made.data).view(f"u{dtype.itemsize}")\n'
        f"{unpack}"
        "    return data.view(dtype)\n\n\n"
    )


def _infer(case: Case, feeds: str, feed: str) -> str:
    return (
        f'settings = {{"INFERENCE_NUM_THREADS": {case.threads or 1}}}\n'
        'settings |= {"EXECUTION_MODE_HINT": "ACCURACY", "INFERENCE_PRECISION_HINT": "f32"}\n'
        'request = core.compile_model(graph, "CPU", settings).create_infer_request()\n'
        f"for name, array in {feeds}:\n"
        f"    {feed}(name, tensor(array))\n"
        "request.infer()\n"
        "got = array_of(request.output_tensors[0], x.dtype)\n"
    )
