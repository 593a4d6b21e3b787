"""Launches: which kernels, of how many blocks, on which device and stream, with what memory; and what fails."""

import textwrap

import numpy as np
import pytest
from tests.cuda.build import HOST, PTX, Driver
from tests.house.builds import ROOT

F32 = np.float32


def launches(driver: Driver) -> list[str]:
    """Return the kernels that the log has, with the blocks of each."""
    lines = (line.split() for line in driver.log())
    return [f"{words[0]} {words[4]}" for words in lines if words[1] == "device"]


def test_a_power_takes_two_launches_and_a_byte_for_each_thread(driver):
    x = np.full(5000, 2.5, F32)
    driver.apply(x, x.copy(), np.empty_like(x), device=HOST, stream=77)
    assert driver.log() == [
        "allocate 1280 stream 77",
        "pow_own_float32 device 1 grid 5 block 256 stream 77",  # four elements a thread
        "pow_rest device 1 grid 1 block 256 stream 77",
        "free stream 77",
    ]


def test_memory_may_be_the_callers(driver):
    x, memory = np.full(5000, 2.5, F32), np.empty(1280, np.uint8)
    asked: list[int] = []

    def allocate(size: int) -> int:
        asked.append(size)
        return memory.ctypes.data

    out = np.empty_like(x)
    driver.core.apply(False, driver.operand(x), driver.operand(x), driver.operand(out), PTX, 0, allocate)
    assert asked == [1280]
    assert [line.split()[0] for line in driver.log()] == ["pow_own_float32", "pow_rest"]
    assert memory.max() == 0


def test_few_elements_take_one_launch(driver):
    x = np.full(256, 2.5, F32)
    driver.apply(x, x, np.empty_like(x))
    assert launches(driver) == ["pow_rest 1"]


@pytest.mark.parametrize(
    ("x", "y", "kernel"),
    [
        ((1000,), (1000,), "own"),
        ((20, 50), (20, 50), "own"),
        ((20, 52), (20, 1), "one"),
        ((4, 3, 20, 20), (3, 1, 1), "one"),
        ((400, 52), (52,), "own"),
        ((400, 50), (50,), "each"),  # rows that are no vectors
        ((1000,), (1,), "one"),
        ((1,), (1000,), "each"),
    ],
)
def test_the_kernel_suits_the_layout(driver, x, y, kernel):
    a, b = np.full(x, 2.5, F32), np.full(y, 1.5, F32)
    driver.apply(a, b, np.empty(np.broadcast_shapes(x, y), F32))
    assert launches(driver)[0].split()[0] == f"pow_{kernel}_float32"


def test_what_does_not_fill_a_vector_is_another_launch(driver):
    x = np.full(1027, 2.5, F32)
    driver.apply(x, x, np.empty_like(x))
    assert launches(driver) == ["pow_own_float32 1", "pow_rest 1", "pow_rest 1"]
    driver.apply(x, x, np.empty_like(x), prelu=True)
    assert launches(driver) == ["prelu_own_float32 1", "prelu_each 1"]


def test_exponents_of_another_type(driver):
    x = np.full(1024, 2.5, F32)
    driver.apply(x, np.arange(1024), np.empty_like(x))
    assert launches(driver) == ["pow_each_float32 1", "pow_rest 1"]
    driver.apply(np.arange(1024), np.arange(1024), np.empty(1024, np.int64))
    assert launches(driver) == ["pow_rest 4"]


def test_more_than_two_to_the_30_elements(driver):
    """One element of memory, walked over; of the launches only the last runs, and what the others are is looked at."""
    one, out = np.full(1, 2.5, F32), np.zeros(1, F32)
    operand, to = driver.operand(one), driver.core.Operand(out.ctypes.data, "float32", [3 << 30, 2], [0, 0])
    driver.library.fake_run_only_small_grids(1)
    try:
        driver.core.apply(True, operand, operand, to, PTX, 0)
    finally:
        driver.library.fake_run_only_small_grids(0)
    blocks = (1 << 30) // 1024
    assert launches(driver) == [f"prelu_each {blocks}"] * 6


def test_a_device_that_is_not_there(driver):
    x = np.ones(10, F32)
    with pytest.raises(RuntimeError, match=r"^CUDA, device 7: CUDA_ERROR_INVALID_VALUE$"):
        driver.apply(x, x, x.copy(), device=7)
    assert driver.library.fake_open_contexts() == 0


def test_no_memory(driver):
    x = np.ones(1000, F32)
    driver.fail(0)
    with pytest.raises(RuntimeError, match=r"^CUDA, memory for undecided powers: CUDA_ERROR_OUT_OF_MEMORY$"):
        driver.apply(x, x, x.copy())
    driver.fail(-1)
    assert driver.library.fake_open_contexts() == 0
    assert not launches(driver)


def test_operands_that_do_not_fit_are_refused(driver):
    x = np.ones((3, 4), F32)
    with pytest.raises(ValueError, match="does not broadcast"):
        driver.apply(x, np.ones(3, F32), x.copy())
    with pytest.raises(ValueError, match="wrong number of axes"):
        driver.apply(x, x, np.ones(4, F32))
    with pytest.raises(ValueError, match="unknown element type float128"):
        driver.core.apply(False, driver.core.Operand(0, "float128", [], []), *[driver.operand(x)] * 2, PTX, 0)
    assert not driver.log()


AT_EXIT = """
import threading
from tests.cuda.build import PTX, Driver

def work():
    while True:
        driver.core.synchronize(PTX, 7)
        driver.log()
        waited.set()

driver = Driver()
waited = threading.Event()
threading.Thread(target=work, daemon=True).start()
waited.wait()
print("ends")
"""


def test_a_daemon_thread_that_waits_at_exit(driver, python):
    """The interpreter ends as without it: no abort."""
    for _ in range(3):
        assert python(AT_EXIT, PYTHONPATH=str(ROOT)) == "ends\n"


def test_no_driver_is_said_in_a_line(python):
    program = """
        from halfulp import _cuda
        try:
            print(_cuda.device_count())
        except RuntimeError as error:
            print(error)
    """
    told = python(textwrap.dedent(program))
    if "no NVIDIA driver" not in told:
        pytest.skip("this machine has a driver")
    assert told == "no NVIDIA driver: cannot load libcuda.so.1\n"
