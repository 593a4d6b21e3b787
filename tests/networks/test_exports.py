"""Networks as PyTorch exports them today, by both of its exporters: each verb on each."""

import functools
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from halfulp.cli import app

torch: Any = pytest.importorskip("torch")
pytest.importorskip("onnxruntime")
pytest.importorskip("onnxscript")
nn = torch.nn


class Block(nn.Module):
    """A block of a vision transformer: patches, attention, and a GELU by tanh, which has a Pow in it."""

    def __init__(self) -> None:
        super().__init__()
        self.patches = nn.Conv2d(3, 32, 8, stride=8)
        self.norm = nn.LayerNorm(32)
        self.attention = nn.MultiheadAttention(32, 4, batch_first=True)
        self.wide, self.narrow = nn.Linear(32, 64), nn.Linear(64, 32)

    def forward(self, image: Any) -> Any:
        tokens = self.patches(image).flatten(2).transpose(1, 2)
        x = self.norm(tokens)
        x = tokens + self.attention(x, x, x, need_weights=False)[0]
        h = self.wide(x)
        h = 0.5 * h * (1 + torch.tanh(0.7978845608 * (h + 0.044715 * torch.pow(h, 3.0))))
        return x + self.narrow(h)


class Recurrent(nn.Module):
    """An LSTM with the energy of its last state."""

    def __init__(self) -> None:
        super().__init__()
        self.lstm = nn.LSTM(16, 32, batch_first=True)

    def forward(self, x: Any) -> Any:
        states, _ = self.lstm(x)
        return torch.pow(states, 2).mean(dim=2).pow(0.5)


class Attention(nn.Module):
    """Attention that scales by ``head_dim ** 0.5``, where head_dim is a size that also reshapes, and a norm by Pow."""

    def __init__(self) -> None:
        super().__init__()
        self.mix, self.out = nn.Linear(32, 96), nn.Linear(32, 32)

    def forward(self, x: Any) -> Any:
        batch, tokens, width = x.shape
        head_dim = width // 4
        x = x / (x.pow(2).mean(-1, keepdim=True) + 1e-6).pow(0.5)
        q, k, v = self.mix(x).view(batch, tokens, 3, 4, head_dim).permute(2, 0, 3, 1, 4)
        weights = torch.softmax(q @ k.transpose(-1, -2) / head_dim**0.5, -1)
        return self.out((weights @ v).transpose(1, 2).reshape(batch, tokens, width))


def _super_resolution() -> Any:
    return nn.Sequential(
        *(nn.Conv2d(1, 16, 5, padding=2), nn.PReLU(16), nn.Conv2d(16, 16, 3, padding=1), nn.PReLU()),
        *(nn.Conv2d(16, 4, 3, padding=1), nn.PixelShuffle(2)),
    )


def _activations() -> Any:
    """Operators that older opsets lack, or have in another form."""
    return nn.Sequential(
        *(nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), nn.Hardswish(), nn.Mish(), nn.GroupNorm(2, 8)),
        *(nn.GELU(), nn.PReLU(8), nn.Upsample(scale_factor=2), nn.Flatten(), nn.Dropout()),
        nn.Linear(1152, 4),
    )


MODELS = {
    "activations": (_activations, (2, 3, 8, 8)),
    "vision transformer": (Block, (1, 3, 32, 32)),
    "LSTM": (Recurrent, (1, 12, 16)),
    "attention": (Attention, (2, 5, 32)),
    "super resolution": (_super_resolution, (1, 1, 20, 20)),
}


VERBS = (
    ["run", "{}"],
    ["audit", "{}"],
    ["convert", "{}", "new.onnx", "--opset", "21", "--verify"],
    ["convert", "{}", "old.onnx", "--opset", "17", "--verify"],
    ["convert", "{}", "oldest.onnx", "--opset", "11", "--verify"],
    ["convert", "{}", "target.onnx", "--target", "tensorrt", "--verify"],
    ["convert", "{}", "net.xml", "--verify"],
    ["bench", "{}", "--seconds", "0"],
)
# A model by one of the exporters, with every fourth verb, and the next one by the other; make exhaustive takes all.
EACH = [
    pytest.param(
        (name, dynamo),
        words,
        id=f"{name}-{dynamo}-{' '.join(words[2:4]) or words[0]}",
        marks=[] if i % 2 == dynamo and (i // 2 + j) % 4 == 0 else [pytest.mark.exhaustive],
    )
    for i, name in enumerate(MODELS)
    for dynamo in (False, True)
    for j, words in enumerate(VERBS)
]


Export = Callable[[str, bool], Path]


@pytest.fixture(scope="module")
def exported(tmp_path_factory: pytest.TempPathFactory) -> Export:
    """Returns a file that PyTorch has exported, once for all verbs."""

    @functools.cache
    def export(name: str, dynamo: bool) -> Path:
        make, shape = MODELS[name]
        torch.manual_seed(1)
        path: Path = tmp_path_factory.mktemp("exports") / "model.onnx"
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            names = {0: "batch"} | ({1: "tokens", 2: "width"} if name == "attention" else {})
            axes = {} if dynamo else {"dynamic_axes": {"x": names}}
            torch.onnx.export(
                make().eval(),
                (torch.randn(shape),),
                str(path),
                dynamo=dynamo,
                input_names=["x"],
                verbose=False,
                **axes,
            )
        return path

    return export


@pytest.mark.parametrize(("export", "words"), EACH)
def test_a_verb(export, words, exported, tmp_path, monkeypatch):
    if "net.xml" in words:
        pytest.importorskip("openvino")
    monkeypatch.chdir(tmp_path)
    result = CliRunner().invoke(app, [word.replace("{}", str(exported(*export))) for word in words])
    assert result.exit_code in ((0, 1) if words[0] == "audit" else (0,)), result.output
    assert "not verified" not in result.output
    assert "refused" not in result.output
