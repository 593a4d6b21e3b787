"""The fuzzer of one reader: ``python -m tests.fuzzing.fuzz READER FOLDER... [libFuzzer's options]``.

By Atheris, which guides libFuzzer by the lines and comparisons of halfulp's Python. Two thirds of the changes keep the
input's form, the others are libFuzzer's own. It ends at the first input that :func:`tests.fuzzing.readers.attempt`
fails on, and keeps that.
"""

import contextlib
import random
import sys
import warnings

import atheris

with atheris.instrument_imports(include=["halfulp"]):
    from tests.fuzzing.readers import attempt

from tests.fuzzing.mutators import MUTATORS

_FORM_KEPT = 2 / 3


def main() -> None:
    reader = sys.argv.pop(1)
    warnings.simplefilter("error", RuntimeWarning)  # NumPy's: a computation on what should have been refused

    def attempted(data: bytes) -> None:
        attempt(reader, data)

    def mutated(data: bytes, most: int, seed: int) -> bytes:
        rng = random.Random(seed)
        with contextlib.suppress(Exception):  # what is not of the form
            if rng.random() < _FORM_KEPT:
                for _ in range(rng.choice((1, 1, 2, 4))):
                    data = MUTATORS[reader](data, rng)
                return data[:most]
        return bytes(atheris.Mutate(data, most))

    atheris.Setup(sys.argv, attempted, custom_mutator=mutated)
    atheris.Fuzz()


if __name__ == "__main__":
    main()
