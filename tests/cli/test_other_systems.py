"""Every verb where Python lacks what Windows or macOS lack, taken away before anything of halfulp is imported.

``make lint`` has the type checker look for such names with each system's own list of them.
"""

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import onnx
import pytest
from tests.models.onnx_models import single

# What the package uses where it is there; make exhaustive takes each of these away alone as well.
USED = ("os.killpg", "os.posix_fallocate", "os.sched_getaffinity", "os.sysconf", "signal.SIGKILL", "resource")
# What Windows lacks, and macOS some of it, but for what Python's own modules can't do without on Linux.
OTHERS = """
    fcntl grp pty pwd readline syslog termios tty
    os.chown os.confstr os.copy_file_range os.eventfd os.fchown os.fdatasync os.fork os.forkpty os.fstatvfs os.getegid
    os.geteuid os.getgid os.getgroups os.getloadavg os.getpgid os.getrandom os.getsid os.getuid os.getxattr os.lchown
    os.listxattr os.memfd_create os.mkfifo os.mknod os.nice os.openpty os.pathconf os.pipe2 os.posix_fadvise os.pread
    os.preadv os.pwrite os.pwritev os.register_at_fork os.sched_setaffinity os.sched_yield os.sendfile os.setpgid
    os.setsid os.setxattr os.splice os.statvfs os.sync os.sysconf_names os.ttyname os.wait os.wait3 os.wait4
    os.O_CLOEXEC os.O_DIRECTORY os.O_DSYNC os.O_NOCTTY os.O_NOFOLLOW os.O_NONBLOCK os.O_PATH os.O_SYNC os.O_TMPFILE
    signal.SIGALRM signal.SIGHUP signal.SIGPIPE signal.SIGSTOP signal.SIGUSR1 signal.alarm signal.pthread_sigmask
    signal.setitimer signal.sigwait socket.AF_UNIX socket.recvmsg select.poll select.epoll time.tzset
    mmap.MAP_SHARED mmap.MAP_PRIVATE mmap.PROT_READ
"""
# None of these is needed, and some take long to start.
OPTIONAL = "onnxruntime openvino torch jax numba numexpr cupy"

TAKE_AWAY = """
import importlib, os, sys
class Others:
    finders = list(sys.meta_path)
    def find_spec(self, name, path=None, target=None):
        found = (finder.find_spec(name, path, target) for finder in self.finders if name not in MODULES)
        return next((spec for spec in found if spec is not None), None)
taken, MODULES = os.environ["TAKEN"].split(), set(os.environ["MODULES"].split())
for name in taken:
    module, _, attribute = name.partition(".")
    if attribute:
        module = importlib.import_module(module)
        if hasattr(module, attribute):
            delattr(module, attribute)
    else:
        MODULES.add(name)
for name in MODULES:
    sys.modules.pop(name, None)
sys.meta_path[:] = [Others()]
"""

VERBS = """
import sys
from halfulp.cli import app
VERBS = [
    ["run", "m.onnx", "-o", "out.npz"],
    ["run", "m.onnx", "-i", "x=x.npy", "-i", "y=x.npy", "-o", "z.npz"],
    ["convert", "m.onnx", "new.onnx", "--opset", "13", "--verify"],
    ["audit", "m.onnx", "--json", "-"],
    ["spec", "onnx.Pow-15"],
    ["check", "numpy", "--operator", "onnx.PRelu-16", "--types", "float16", "--processes", "1", "--json", "check.json"],
    ["bench", "--seconds", "0"],
]
for words in VERBS:
    try:
        app(words)
    except SystemExit as ended:
        print("STATUS", words[0], ended.code, file=sys.stderr)
"""


def statuses(names: str, folder: Path) -> tuple[list[tuple[str, int]], str]:
    """Return how each verb ended without what is taken away, and what was written to stderr."""
    (folder / "sitecustomize.py").write_text(TAKE_AWAY)
    np.save(folder / "x.npy", np.ones(2, np.float32))
    model = single("Pow", 15, {"x": ("float32", [2]), "y": ("float32", [2])})
    onnx.save(model, folder / "m.onnx")
    done = subprocess.run(
        [sys.executable, "-c", VERBS],
        cwd=folder,
        env=os.environ | {"TAKEN": names, "MODULES": OPTIONAL, "PYTHONPATH": str(folder)},
        capture_output=True,
        text=True,
        check=False,
    )
    lines = [line.split()[1:] for line in done.stderr.splitlines() if line.startswith("STATUS")]
    assert done.returncode == 0, done.stderr
    (z,) = np.load(folder / "z.npz").values()
    assert z.tolist() == [1, 1]
    return [(verb, int(status)) for verb, status in lines], done.stderr


@pytest.mark.exhaustive
@pytest.mark.parametrize("name", USED)
def test_each_alone(name, tmp_path):
    ended, said = statuses(name, tmp_path)
    assert_done(ended, said, has_limits=name not in ("os.killpg", "signal.SIGKILL", "resource"))


def test_without_what_macos_lacks(tmp_path):
    ended, said = statuses("os.posix_fallocate os.sched_getaffinity", tmp_path)
    assert_done(ended, said, has_limits=True)


def test_without_what_windows_lacks(tmp_path):
    ended, said = statuses(" ".join(USED) + OTHERS, tmp_path)
    assert_done(ended, said, has_limits=False)


def assert_done(ended: list[tuple[str, int]], said: str, *, has_limits: bool) -> None:
    """Assert that every verb has done what it does, but check where a process can't be given limits."""
    assert "Traceback" not in said
    assert {verb for verb, _ in ended} == {"run", "convert", "audit", "spec", "check", "bench"}
    statuses = {"check": (0, 1) if has_limits else (2,), "audit": (0, 1)}  # 1 says that there are findings
    assert all(status in statuses.get(verb, (0,)) for verb, status in ended), said
    message = "error: check needs Linux or macOS, which give a runtime's process limits"
    assert (message in said) is not has_limits
