"""OpenVINO IR: reads versions 10 and 11, an .xml file and its .bin, as a graph; writes graphs as version 11.

The file is untrusted. Faults are found here, before anything runs, and reported in one line that names the file and the
layer. Layers of all operators are read; only those that halfulp has can be run or written.
"""

from __future__ import annotations

import os
from pathlib import Path

from halfulp.errors import HalfulpError
from halfulp.models.files import replacing
from halfulp.models.graph import Graph, Model
from halfulp.models.openvino.reader import Weights, build, elements
from halfulp.models.openvino.writer import write
from halfulp.models.source import read_source

__all__ = ["load", "save"]

LARGEST_FILE = 1 << 28  # the largest models have .xml files of tens of megabytes


def load(
    source: str | os.PathLike[str] | bytes, *, weights: bytes | None = None, file: str | None = None
) -> Model:
    """Read an IR file and check it.

    An input or output of the model has its tensor name, and its other names as aliases. Any other value has its layer's
    name.

    Args:
        source: a path, whose weights are the .bin beside it, or the bytes of an .xml file.
        weights: the bytes of the .bin file, instead of the file.
        file: the model's name in messages; by default the path, or ``<bytes>``.

    Raises:
        ModelError: the file is broken or unsafe: entities, ids that are not unique, ports and edges that do not exist,
            cycles, shapes that contradict each other or the weights.
        UnsupportedError: another version of the format, an unsupported element type, pdpd.

    Example:
        >>> xml = b'''<net name="n" version="11">
        ...   <layers>
        ...     <layer id="0" name="a" type="Parameter" version="opset1">
        ...       <data shape="?,3" element_type="f16"/>
        ...       <output><port id="0" precision="FP16" names="x"/></output></layer>
        ...     <layer id="1" name="b" type="Power" version="opset1">
        ...       <input><port id="0"/><port id="1"/></input>
        ...       <output><port id="2" names="y"/></output></layer>
        ...     <layer id="2" name="c" type="Result" version="opset1"><input><port id="0"/></input></layer>
        ...   </layers>
        ...   <edges>
        ...     <edge from-layer="0" from-port="0" to-layer="1" to-port="0"/>
        ...     <edge from-layer="0" from-port="0" to-layer="1" to-port="1"/>
        ...     <edge from-layer="1" from-port="2" to-layer="2" to-port="0"/>
        ...   </edges></net>'''
        >>> graph = load(xml).graph
        >>> [(value.name, str(value), value.aliases) for value in (*graph.inputs, *graph.outputs)]
        [('x', 'float16[?, 3]', ('a',)), ('y', 'float16[?, 3]', ('c', 'b'))]
    """
    data, name, path = read_source(source, LARGEST_FILE, file)
    beside = path.with_suffix(".bin") if path is not None and weights is None else weights
    return build(elements(data, name), Weights(beside), name)


def save(model: Model | Graph, path: str | os.PathLike[str]) -> None:
    """Write a graph as IR version 11: the .xml at ``path``, the .bin beside it, both or neither.

    If the process is killed between the two, no .xml is left: an older one would misread the new .bin. The tensor
    names, layer names and rt_info of a graph that was read from a file are kept.

    Args:
        model: a graph of the OpenVINO operators that halfulp has.
        path: a name that ends in .xml.

    Raises:
        UnsupportedError: a node or type that can't be written, by name.
        HalfulpError: the files or a name can't be written.
    """
    graph = model.graph if isinstance(model, Model) else model
    xml = Path(path)
    if xml.suffix.lower() != ".xml":
        raise HalfulpError(f"{xml}: OpenVINO reads files that end in .xml only")
    with replacing(xml) as new_xml, replacing(xml.with_suffix(".bin")) as new_bin:
        with new_bin.open("wb") as weights:
            text = write(graph, weights)
        new_xml.write_bytes(text)
        Path(os.path.realpath(xml)).unlink(missing_ok=True)
