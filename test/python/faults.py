# SPDX-License-Identifier: Apache-2.0
"""Faults for runs of `weft train`: what is done to them, at which moment, and what has to come of it."""

import contextlib
import os
import pathlib
import signal
import struct
import subprocess
import threading
import time

from training_runs import Run

# As src/execute/heartbeat.h has it.
HEARTBEAT_SECONDS = 3
# What a machine with more ranks than cores may be late.
LATE_SECONDS = float(os.environ.get("WEFT_FAULT_LATE_SECONDS", 6))
STALL_SECONDS = HEARTBEAT_SECONDS
NAMED_SECONDS = 2 * HEARTBEAT_SECONDS + LATE_SECONDS
# src/execute/flight_record.h: FlightPhase.
PHASES = ["beginning", "preparing", "loading", "feeding", "evaluating", "saving", "exporting", "leaving", "meeting"]
PHASES += ["agreeing", "publishing"]
GROUPS = pathlib.Path("/sys/fs/cgroup")
PROCESSES = 96
MEMORY_BYTES = 6 << 30


def last_marks(output, rank, count=1):
    """The names of a rank's last marks, the last one first: a phase, or "instruction"."""
    try:
        data = pathlib.Path(output, "flight", f"rank-{rank}.flight").read_bytes()
    except OSError:
        return []
    if data[:8] != b"weftfly1":
        return []
    entries, channels, header_bytes = struct.unpack_from("<III", data, 12)
    written = struct.unpack_from("<Q", data, 104)[0]
    found = []
    for i in range(written - 1, max(written - count, 0) - 1, -1):
        what = struct.unpack_from("<Q", data, header_bytes + 8 * channels + i % entries * 16 + 8)[0]
        number = what & 0xFFFFFFFF
        found.append(PHASES[number] if number < len(PHASES) else "instruction")
    return found


class Group:
    """Control groups of version 1 in which a test's processes run, so that they are bounded and none is lost."""

    def __init__(self, name, processes=PROCESSES, memory_bytes=MEMORY_BYTES):
        self.folders = [GROUPS / kind / f"weft-{os.getpid()}-{name}" for kind in ("pids", "memory")]
        self.limits = [("pids.max", processes), ("memory.limit_in_bytes", memory_bytes)]

    @staticmethod
    def missing():
        """Why there are none, or None."""
        if os.geteuid() != 0:
            return "control groups need root"
        for kind, file in (("pids", "cgroup.procs"), ("memory", "memory.limit_in_bytes")):
            if not os.access(GROUPS / kind / file, os.W_OK):
                return f"there is no {kind} control group of version 1"
        return None

    def __enter__(self):
        for folder, (file, value) in zip(self.folders, self.limits):
            folder.mkdir()
            with contextlib.suppress(FileNotFoundError):
                (folder / file).write_text(str(value))
        return self

    def __exit__(self, *_):
        for pid in self.processes():
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        end = time.monotonic() + 10
        while self.processes() and time.monotonic() < end:
            time.sleep(0.05)
        for folder in self.folders:
            with contextlib.suppress(OSError):
                folder.rmdir()

    def processes(self):
        return [int(pid) for pid in (self.folders[0] / "cgroup.procs").read_text().split()]

    def add(self, pid):
        for folder in self.folders:
            (folder / "cgroup.procs").write_text(str(pid))

    def command(self, *words):
        """Runs these within."""
        enter = "".join(f"echo $$ > {folder}/cgroup.procs && " for folder in self.folders)
        return ["sh", "-c", enter + 'exec "$@"', "sh", *words]


class WatchedRun(Run):
    """A run whose messages are read as they come."""

    def __init__(self, *arguments, **variables):
        super().__init__(*arguments, **variables)
        self.said = []
        self.reader = threading.Thread(target=self.read, daemon=True)
        self.reader.start()

    def read(self):
        for line in self.process.stderr:
            self.said.append((time.monotonic(), line))

    def wait_for(self, what, seconds=60):
        end = time.monotonic() + seconds
        while not what():
            assert self.process.poll() is None, f"ended before: {self.text()}"
            assert time.monotonic() < end, f"waited too long: {self.text()}"
            time.sleep(0.001)

    def text(self):
        return "".join(line for _, line in list(self.said))

    def when_said(self, words):
        return next((moment for moment, line in list(self.said) if words in line), None)

    def end(self, seconds=60):
        try:
            self.process.wait(timeout=seconds)
        except subprocess.TimeoutExpired:
            raise AssertionError(f"it hangs: {self.text()}") from None
        self.reader.join(timeout=5)
        out = self.process.stdout.read()
        return self.process.returncode, out, self.text()

    def __exit__(self, *_):
        for pid in [*self.ranks().values(), self.process.pid]:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        self.process.wait()
        self.reader.join(timeout=5)
        self.process.stdout.close()


# Writes fail with EIO while the file WEFT_TEST_EIO is there: of files whose name ends as those of checkpoints do.
EIO_SHIM = r"""
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>
#include <unistd.h>
static int fails(int fd) {
  char link[64], path[4096];
  const char* trigger = getenv("WEFT_TEST_EIO");
  if (!trigger || access(trigger, F_OK)) return 0;
  snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
  ssize_t count = readlink(link, path, sizeof path - 1);
  if (count <= 0) return 0;
  path[count] = 0;
  return strstr(path, ".partial") != NULL;
}
ssize_t write(int fd, const void* data, size_t bytes) {
  static ssize_t (*real)(int, const void*, size_t);
  if (!real) real = dlsym(RTLD_NEXT, "write");
  if (fails(fd)) { errno = EIO; return -1; }
  return real(fd, data, bytes);
}
int fsync(int fd) {
  static int (*real)(int);
  if (!real) real = dlsym(RTLD_NEXT, "fsync");
  if (fails(fd)) { errno = EIO; return -1; }
  return real(fd);
}
"""


def make_eio_shim(folder):
    source, library = folder / "eio.c", folder / "eio.so"
    source.write_text(EIO_SHIM)
    subprocess.run(["cc", "-shared", "-fPIC", "-O1", source, "-o", library, "-ldl"], check=True)
    return library
