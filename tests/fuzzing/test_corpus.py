"""The checked-in inputs of the fuzzer, valid ones and what once broke a reader: each is read, or refused in our words.

A line of ``corpus/READER.txt`` is an input, as Python writes bytes.
"""

import random
import time

import pytest
from tests.fuzzing.mutators import MUTATORS
from tests.fuzzing.readers import READERS, attempt, corpus
from tests.models.bounded import little_memory


@pytest.mark.parametrize("reader", READERS)
def test_every_input_is_read_or_refused(reader):
    inputs = corpus(reader)
    read = 0
    for data in inputs:
        start = time.process_time()
        with little_memory(32 << 20):
            read += attempt(reader, data)
        assert time.process_time() - start < 10, data
    assert 0 < read < len(inputs)


@pytest.mark.parametrize("reader", READERS)
def test_mutated_inputs_are_read_or_refused(reader):
    """Valid inputs, changed so that they keep their form: most can be changed, and some are still read."""
    inputs = [data for data in corpus(reader) if attempt(reader, data)]
    changed = read = 0
    for seed in range(100):
        rng = random.Random(seed)
        try:
            data = MUTATORS[reader](rng.choice(inputs), rng)
        except Exception:  # what the change makes can't be written
            continue
        changed += 1
        read += attempt(reader, data)
    assert changed > 60
    assert read > 3
