"""Changes to an input that keep its form, where bytes changed at random would be refused by the parser each time.

A mutator takes the input and a generator, and returns another input; it raises where the input is not of the form.
"""

import copy
import io
import json
import random
import re
import struct
import warnings
import zipfile
from collections.abc import Callable, Iterator
from typing import Any

import onnx
from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.message import Message
from google.protobuf.message_factory import GetMessageClass

NUMBERS = (0, 1, -1, 2, 3, 4, 7, 13, 16, 22, 64, 65, 255, 1 << 20, (1 << 31) - 1, 1 << 31, -1 << 31, 1 << 32)
NUMBERS += ((1 << 62) + 1, (1 << 63) - 1, -1 << 63)
WORDS = """
x y 0 -1 ? ... 1..4 3,? nan -inf 1e999 True ( ) * é ../x x.npy 9999999999999999999
Pow PRelu If Loop Constant Cast axis ai.onnx ai.onnx.ml com.microsoft own
Power PReLU Add Reshape Unsqueeze Select Less Convert Const Parameter Result opset1 opset9 body
f16 f32 i64 i4 boolean FP16 none pdpd
FLOAT16 FLOAT32 INT8 OWNED_BY_DML dispatch print writeFile deferred UNKNOWN
|b1 <f4 >f8 |S0 <U1 |V2 |O <M8[ns] <c8 wrong
"""
TEXTS = ("", "\x1b[2J", "a\nb", *WORDS.split())


def proto(root: Message, data: bytes, rng: random.Random) -> bytes:
    root.ParseFromString(data)
    messages = list(_messages(root))
    message = rng.choice(messages)
    field = rng.choice(message.DESCRIPTOR.fields)
    if field.type == FieldDescriptor.TYPE_MESSAGE:
        others = [other for other in messages if other.DESCRIPTOR is field.message_type]
        other = copy.deepcopy(rng.choice(others)) if others else GetMessageClass(field.message_type)()
    values = getattr(message, field.name)
    if _is_repeated(values):
        if values and rng.random() < 0.4:
            del values[rng.randrange(len(values))]
        elif field.type == FieldDescriptor.TYPE_MESSAGE:
            values.add().CopyFrom(other)
        elif values and rng.random() < 0.7:
            values[rng.randrange(len(values))] = _scalar(field, messages, rng)
        else:
            values.insert(rng.randint(0, len(values)), _scalar(field, messages, rng))
    elif rng.random() < 0.2:
        message.ClearField(field.name)
    elif field.type == FieldDescriptor.TYPE_MESSAGE:
        getattr(message, field.name).CopyFrom(other)
    else:
        setattr(message, field.name, _scalar(field, messages, rng))
    return root.SerializeToString()


def _messages(message: Message) -> Iterator[Message]:
    yield message
    for field, value in message.ListFields():
        if field.type == FieldDescriptor.TYPE_MESSAGE:
            for each in value if _is_repeated(value) else [value]:
                yield from _messages(each)


def _is_repeated(value: Any) -> bool:
    return hasattr(value, "append")


def _scalar(field: FieldDescriptor, messages: list[Message], rng: random.Random) -> Any:
    match field.cpp_type:
        case FieldDescriptor.CPPTYPE_STRING if field.type == FieldDescriptor.TYPE_BYTES:
            return rng.randbytes(rng.choice((0, 1, 2, 3, 4, 8, 16)))
        case FieldDescriptor.CPPTYPE_STRING:
            names = {text for m in messages for f, text in m.ListFields() if isinstance(text, str)}
            return rng.choice([*sorted(names), *TEXTS])
        case FieldDescriptor.CPPTYPE_ENUM:
            return rng.choice(field.enum_type.values).number
        case FieldDescriptor.CPPTYPE_FLOAT | FieldDescriptor.CPPTYPE_DOUBLE:
            return rng.choice((0.0, 0.5, -1.0, float("inf"), float("nan")))
        case FieldDescriptor.CPPTYPE_INT32:
            return rng.choice(NUMBERS) & 0x7FFFFFFF
        case FieldDescriptor.CPPTYPE_UINT64:
            return rng.choice(NUMBERS) & 0xFFFFFFFFFFFFFFFF
        case _:
            return rng.choice(NUMBERS)


def json_text(data: bytes, rng: random.Random) -> bytes:
    root = [json.loads(data)]
    places: list[tuple[Any, Any]] = []

    def walk(value: Any) -> None:
        for key in value if isinstance(value, dict) else range(len(value)) if isinstance(value, list) else ():
            places.append((value, key))
            walk(value[key])

    walk(root)
    values = [value[key] for value, key in places]
    names = [key for _, key in places if isinstance(key, str)]
    value, key = rng.choice(places)
    match rng.randrange(5):
        case 0 if value is not root:
            del value[key]
        case 1 if isinstance(value, dict):
            value[rng.choice(names)] = value[key]
        case 2 if isinstance(value, list) and value is not root:
            value.insert(key, copy.deepcopy(rng.choice(values)))
        case 3:
            value[key] = copy.deepcopy(rng.choice(values))
        case _:
            kinds = (
                NUMBERS,
                TEXTS,
                names or TEXTS,
                (None, True, 0.5, -0.0, 1e308, float("nan"), [], {}, "\ud800"),
            )
            value[key] = rng.choice(rng.choice(kinds))
    return json.dumps(root[0]).encode()


def npy(data: bytes, rng: random.Random) -> bytes:
    long = data[6] > 1
    start = 12 if long else 10
    length = int.from_bytes(data[8:start], "little")
    parts = re.findall(r"\w+|\s+|.", data[start : start + length].decode("latin1"))
    words = [place for place, part in enumerate(parts) if part[0].isalnum()]
    place = rng.choice(words) if rng.random() < 0.8 else rng.randrange(len(parts))
    kinds = (
        ("1", "2", "3"),
        ("b1", "i2", "f4", "f8", "c8"),
        TEXTS,
        [*map(str, NUMBERS)],
        parts,
        [parts[place] * 2],
    )
    parts[place] = rng.choice(rng.choice(kinds))
    header = "".join(parts).encode("latin1", "replace")
    rest = data[start + length :] + rng.randbytes(rng.choice((0, 0, 8, 64)))
    return data[:8] + struct.pack("<I" if long else "<H", len(header)) + header + rest


_METHODS = 20 * (zipfile.ZIP_STORED,) + (
    zipfile.ZIP_DEFLATED,
    zipfile.ZIP_DEFLATED,
    zipfile.ZIP_BZIP2,
    zipfile.ZIP_LZMA,
)


def npz(data: bytes, rng: random.Random) -> bytes:
    target = io.BytesIO()
    warnings.simplefilter("ignore", UserWarning)  # that two entries have one name
    with zipfile.ZipFile(io.BytesIO(data)) as source, zipfile.ZipFile(target, "w") as archive:
        entries = source.infolist()
        if any(entry.compress_type == zipfile.ZIP_LZMA for entry in entries):
            raise ValueError("to read it may take 4 GiB")
        chosen = rng.choice(entries)
        for entry in entries:
            member = source.read(entry)
            name = rng.choice((*TEXTS, entry.filename)) if rng.random() < 0.1 else entry.filename
            archive.writestr(name, npy(member, rng) if entry is chosen else member, rng.choice(_METHODS))
    return target.getvalue()


def allowed(data: bytes, rng: random.Random) -> bytes:
    try:
        return json_text(data, rng)
    except ValueError:
        words = re.findall(r"\S+|\s", data.decode())
        words[rng.randrange(len(words))] = rng.choice((*TEXTS, *words))
        return "".join(words).encode()


def answer(data: bytes, rng: random.Random) -> bytes:
    length, _ = struct.unpack_from("<QQ", data)
    header, payload = json_text(data[16 : 16 + length], rng), data[16 + length :]
    return struct.pack("<QQ", len(header), len(payload)) + header + payload


MUTATORS: dict[str, Callable[[bytes, random.Random], bytes]] = {
    "onnx": lambda data, rng: proto(onnx.ModelProto(), data, rng),
    "npy": npy,
    "npz": npz,
    "pb": lambda data, rng: proto(onnx.TensorProto(), data, rng),
    "allowed": allowed,
    "answer": answer,
}
