"""Compare modules of PyTorch with what replace() makes of them, in one run.

Both take turns, one run each, so that other load on the machine affects both. A time is the median of all
turns, and a ratio is the median of the turns' ratios.

Usage: python benchmarks/modules.py [--quick] [--threads N]        (needs torch)
"""

from __future__ import annotations

import argparse
import copy
from collections.abc import Callable, Iterator

import torch
from torch import Tensor, nn

import halfulp as hu
from halfulp.benchmark.comparison import in_turns, ratio, sampler, summary
from halfulp.integrations.torch import replace


class Convolutions(nn.Module):  # type: ignore[misc]
    """Three convolutions of 16 and 32 channels, each followed by a PReLU."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(
            *(nn.Conv2d(3, 16, 3, padding=1), nn.PReLU(16), nn.MaxPool2d(2)),
            *(nn.Conv2d(16, 32, 3, padding=1), nn.PReLU(32), nn.MaxPool2d(2)),
            *(nn.Conv2d(32, 32, 3, padding=1), nn.PReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten()),
            nn.Linear(32, 10),
        )

    def forward(self, x: Tensor) -> Tensor:
        y: Tensor = self.layers(x)
        return y


class Gelu(nn.Module):  # type: ignore[misc]
    """GELU with a hyperbolic tangent, as in transformers."""

    def forward(self, x: Tensor) -> Tensor:
        return 0.5 * x * (1.0 + torch.tanh(0.7978845608028654 * (x + 0.044715 * torch.pow(x, 3))))


def rows() -> Iterator[tuple[str, list[Callable[[], object]]]]:
    """Yield a name, and functions that run a module and its replacement."""
    modules: list[tuple[str, nn.Module, tuple[int, ...]]] = [
        *(
            (f"convolutions, 8 x 3 x {side} x {side}", Convolutions(), (8, 3, side, side))
            for side in (32, 64, 128)
        ),
        *((f"GELU, {' x '.join(map(str, shape))}", Gelu(), shape) for shape in ((8, 64, 64), (32, 128, 256))),
    ]
    for name, module, shape in modules:
        pair = [module, replace(copy.deepcopy(module))]
        x = torch.randn(shape, generator=torch.Generator().manual_seed(1))
        yield f"{name}, inference", [lambda m=m, x=x: _infer(m, x) for m in pair]  # type: ignore[misc]
        yield f"{name}, training", [lambda m=m, x=x: _train(m, x) for m in pair]  # type: ignore[misc]


def _infer(module: nn.Module, x: Tensor) -> object:
    with torch.no_grad():
        return module(x)


def _train(module: nn.Module, x: Tensor) -> None:
    module.zero_grad()
    module(x.detach().requires_grad_()).square().sum().backward()


def measure(runs: list[Callable[[], object]], seconds: float) -> tuple[float, float, float, int]:
    """Return the median times of both, the median ratio, and the number of turns."""
    samples = dict(zip(("plain", "replaced"), map(sampler, runs), strict=True))
    plain, ours = in_turns(samples, seconds, least=20).values()
    return summary(plain).median, summary(ours).median, ratio(ours, plain), len(plain)


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="a tenth of the repetitions")
    parser.add_argument("--threads", type=int, default=2, help="of torch (default 2)")
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    torch.manual_seed(0)
    print(
        f"torch {torch.__version__}, halfulp {hu.__version__}, threads: {arguments.threads}; microseconds a run"
    )
    print(f"{'module':44}{'plain':>10}{'replaced':>10}{'ratio':>8}{'turns':>8}")
    for name, runs in rows():
        plain, ours, quotient, turns = measure(runs, 0.3 if arguments.quick else 3.0)
        print(f"{name:44}{plain * 1e6:>10.0f}{ours * 1e6:>10.0f}{quotient:>8.2f}{turns:>8}", flush=True)


if __name__ == "__main__":
    main()
