"""Calls in turns, medians, ratios: with a clock that the test winds."""

import gc
from collections.abc import Callable

import pytest

from halfulp.benchmark import comparison as timing


class Clock:
    """A clock that goes on when a call says how long it took."""

    def __init__(self) -> None:
        self.now = 0.0
        self.log: list[str] = []

    def call(self, name: str, length: float) -> Callable[[], None]:
        def call() -> None:
            self.now += length
            self.log.append(name)

        return call


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(timing.time, "perf_counter", lambda: clock.now)
    return clock


def test_every_call_is_timed_once_a_turn_in_another_order(clock):
    samples = {"a": timing.sampler(clock.call("a", 1.0)), "b": timing.sampler(clock.call("b", 2.0))}
    clock.log.clear()
    times = timing.in_turns(samples, 0, least=3)
    assert times == {"a": [1.0] * 3, "b": [2.0] * 3}
    assert clock.log == ["a", "b", "b", "a", "a", "b"]


def test_it_goes_on_until_the_time_is_up(clock):
    samples = {"a": timing.sampler(clock.call("a", 1.0))}
    assert len(timing.in_turns(samples, 5.5)["a"]) == 6
    assert len(timing.in_turns(samples, 100, most=4)["a"]) == 4


def test_a_short_call_is_warmed_and_repeated(clock):
    samples = {"short": timing.sampler(clock.call("short", 1e-4))}
    clock.log.clear()
    (time,) = timing.in_turns(samples, 0, least=1)["short"]
    assert time == pytest.approx(1e-4)
    assert len(clock.log) == 1 + 3


def test_the_collector_is_off_while_it_measures_and_on_again_after_a_failure(clock):
    seen, lengths = [], [1.0]

    def call() -> None:
        seen.append(gc.isenabled())
        clock.call("a", 1 / lengths[0])()

    samples = {"a": timing.sampler(call)}
    timing.in_turns(samples, 0, least=1)
    assert seen[-1] is False
    assert gc.isenabled()
    lengths[0] = 0.0
    with pytest.raises(ZeroDivisionError):
        timing.in_turns(samples, 0)
    assert seen[-1] is False
    assert gc.isenabled()


def test_summary():
    assert timing.summary([5.0]) == (5.0, 5.0, 5.0, 5.0)
    assert timing.summary([4, 1, 3, 2, 5]) == (3, 2, 4, 1)


def test_a_change_of_the_machines_speed_leaves_the_ratio_alone():
    speed = [1.0, 1.0, 5.0, 9.0, 2.0]
    assert timing.ratio([3 * s for s in speed], [4 * s for s in speed]) == 0.75
