#!/usr/bin/env python3
"""Builds, runs every test and check, and ends with one line that counts them.

    tools/run_tests.py                 everything, as `make test`
    tools/run_tests.py unit text       only these suites

A suite passes its results on as JUnit files, which all the tools here can write. A suite whose
program fails without naming a failed test (a crash, a build that stops) counts as one failure:
nothing that went wrong is left out of the count.
"""

import argparse
import dataclasses
import os
import shutil
import subprocess
import sys
import tempfile
import time
import xml.etree.ElementTree as ElementTree

from source_files import BIN, ROOT, source_files

JOBS = os.environ.get("JOBS") or str(os.cpu_count())
RESULTS = ROOT / "build" / "test-results"


@dataclasses.dataclass
class Count:
    passed: int = 0
    failed: int = 0
    skipped: int = 0

    def __add__(self, other):
        return Count(self.passed + other.passed, self.failed + other.failed, self.skipped + other.skipped)

    def __str__(self):
        skipped = f", {self.skipped} skipped" if self.skipped else ""
        return f"{self.passed} passed, {self.failed} failed{skipped}"


def run(*command, **environment):
    """Runs with its output shown as it comes; returns the exit status."""
    return subprocess.run([str(part) for part in command], cwd=ROOT, env={**os.environ, **environment}).returncode


def outcome(case):
    """`passed`, `failed` or `skipped`, for a <testcase> of any of our tools."""
    if case.find("failure") is not None or case.find("error") is not None or case.get("status") == "fail":
        return "failed"
    if case.find("skipped") is not None or case.get("status") in ("notrun", "disabled"):
        return "skipped"
    return "passed"


def count_junit(path):
    count = Count()
    for case in ElementTree.parse(path).getroot().iter("testcase"):
        result = outcome(case)
        setattr(count, result, getattr(count, result) + 1)
    return count


def with_status(count, status):
    """A status other than 0 with no failed test in the file is itself a failure."""
    return count + Count(failed=1) if status and not count.failed else count


def count_file(path, status):
    return with_status(count_junit(path) if path.exists() else Count(), status or not path.exists())


def check(*command):
    """A suite that is one command: it passes or fails."""
    return Count(failed=1) if run(*command) else Count(passed=1)


def count_gtest(name, preset):
    """Runs the GoogleTest programs by ctest and counts their single tests.

    A program that ends early writes no results of its own; ctest's word then stands for it.
    """
    folder = RESULTS / name
    folder.mkdir(parents=True, exist_ok=True)
    summary = folder / "ctest.junit"
    build = ROOT / "build" / preset
    # fmt: off
    status = run("ctest", "--test-dir", build, "-j", JOBS, "--output-on-failure", "--no-tests=error",
                 "--output-junit", summary, GTEST_OUTPUT=f"xml:{folder}/")
    # fmt: on
    if not summary.exists():
        return Count(failed=1)
    total = Count()
    for case in ElementTree.parse(summary).getroot().iter("testcase"):
        own = folder / f"{case.get('name')}.xml"
        if own.exists():
            total += with_status(count_junit(own), outcome(case) == "failed")
        elif outcome(case) == "passed":
            total += Count(passed=1)
        else:
            total += Count(failed=1)
    return with_status(total, status)


def layers():
    return check(sys.executable, "tools/check_layers.py")


def format():
    return check(sys.executable, "tools/format.py", "--check")


def docs():
    return check(sys.executable, "tools/check_docs.py")


def build():
    return check("tools/build.sh", "release")


def unit():
    # Tests of lost ranks wait more than they work: the next build goes on beside them.
    if sanitized_build.is_wanted:
        sanitized_build.start()
    return count_gtest("unit", "release")


def text():
    """The lit tests: input, RUN line, CHECK lines."""
    results = RESULTS / "text.xml"
    status = run(BIN / "lit", "-j", JOBS, "-s", "-v", "--xunit-xml-output", results, "test")
    return count_file(results, status)


def python():
    if not source_files("test/python/*test_*.py"):
        return Count()
    results = RESULTS / "python.xml"
    # Neighbours share what a file makes once, so each worker has a stretch of them.
    # fmt: off
    status = run(BIN / "pytest", "-q", "-m", "not clock", "-n", JOBS, "--dist", "worksteal",
                 f"--junitxml={results}")
    # fmt: on
    return count_file(results, status)


def clock():
    """Tests that compare times, with nothing beside them."""
    results = RESULTS / "clock.xml"
    return count_file(results, run(BIN / "pytest", "-q", "-m", "clock", f"--junitxml={results}"))


class Background:
    """A command that may be started before its result is needed; its output is shown then."""

    def __init__(self, *command):
        self.command, self.process, self.is_wanted = command, None, False

    def start(self):
        self.output = tempfile.TemporaryFile()  # noqa: SIM115 - read when the command has ended
        self.process = subprocess.Popen(self.command, cwd=ROOT, stdout=self.output, stderr=subprocess.STDOUT)

    def wait(self):
        """The exit status."""
        if not self.process:
            return run(*self.command)
        status = self.process.wait()
        self.output.seek(0)
        sys.stdout.write(self.output.read().decode(errors="replace"))
        return status


sanitized_build = Background("nice", "tools/build.sh", "sanitize")


def sanitize():
    """What needs no torch, again, under the address and undefined-behaviour sanitizers."""
    if sanitized_build.wait():
        return Count(failed=1)
    return count_gtest("sanitize", "sanitize")


# Quick ones first: the sooner a mistake shows, the better.
SUITES = [layers, format, docs, build, unit, text, python, sanitize, clock]
NEED_BUILD = [unit, text, python, clock]


def main():
    names = [suite.__name__ for suite in SUITES]
    parser = argparse.ArgumentParser(description="Run the tests and checks; all of them unless some are named.")
    parser.add_argument("suites", nargs="*", metavar="suite", help=", ".join(names))
    chosen = parser.parse_args().suites or names
    for name in chosen:
        if name not in names:
            parser.error(f"no suite {name}; there are {', '.join(names)}")

    shutil.rmtree(RESULTS, ignore_errors=True)
    RESULTS.mkdir(parents=True)
    sanitized_build.is_wanted = "sanitize" in chosen
    total, rows, broken = Count(), [], False
    for suite in SUITES:
        if suite.__name__ not in chosen:
            continue
        if broken and suite in NEED_BUILD:
            # What is there was built from other sources: its results would mislead.
            rows.append(f"  {suite.__name__:9}          not run: the build failed")
            continue
        print(f"[test] {suite.__name__}", flush=True)
        start = time.monotonic()
        count = suite()
        rows.append(f"  {suite.__name__:9} {time.monotonic() - start:7.1f} s  {count}")
        print(f"[test]{rows[-1][1:]}", flush=True)
        total += count
        broken |= suite is build and count.failed > 0

    print("\n[test] all suites", *rows, sep="\n")
    print(total, flush=True)
    return 1 if total.failed or not total.passed else 0


if __name__ == "__main__":
    sys.exit(main())
