#!/usr/bin/env python3
"""Runs the fuzzers of fuzz/, built by clang under the address and undefined-behaviour sanitizers.

    tools/fuzz.py                         every reader, an hour in all
    tools/fuzz.py --seconds 60            a minute each
    tools/fuzz.py --seconds 600 graph npy these readers alone

Inputs that a reader has no answer to (a crash, a sanitizer's report, a hang, an internal error) are
left in build/fuzz/found/READER. When the reader is mended, such an input goes into
fuzz/corpus/READER, where every test run replays it.
"""

import argparse
import os
import resource
import shutil
import subprocess
import sys

from source_files import ROOT

BUILD = ROOT / "build" / "fuzz"
CORPUS = ROOT / "fuzz" / "corpus"
HOUR = 3600
MEMORY_MIB = 3072
SECONDS_OF_ONE_INPUT = 20

JSON = {"json", "safetensors", "weight_map", "index", "tokenizer", "metrics", "run"}
NO_WORDS = {"token_cache", "table"}


def dictionary_of(reader):
    """The words of its format; a binary format may have none."""
    if reader in NO_WORDS:
        return []
    name = "json" if reader in JSON else "npy" if reader == "npy" else "text"
    return [f"-dict={ROOT / 'fuzz' / 'dictionaries' / name}.dict"]


def build():
    """False, with the reason said, where clang or its libFuzzer is not there."""
    if not shutil.which("clang++-19"):
        print("[fuzz] there is no clang++-19: install clang-19 and libclang-rt-19-dev", file=sys.stderr)
        return False
    return subprocess.run(["tools/build.sh", "fuzz"], cwd=ROOT).returncode == 0


def fuzz(reader, seconds):
    """True where every input had an answer."""
    found = BUILD / "found" / reader
    grown = BUILD / "grown" / reader
    found.mkdir(parents=True, exist_ok=True)
    grown.mkdir(parents=True, exist_ok=True)
    # fmt: off
    command = [BUILD / "fuzz" / f"fuzz_{reader}", f"-max_total_time={seconds}", f"-timeout={SECONDS_OF_ONE_INPUT}",
               f"-rss_limit_mb={MEMORY_MIB}", "-max_len=16384", "-print_final_stats=1",
               f"-artifact_prefix={found}/", *dictionary_of(reader), grown, CORPUS / reader]
    # fmt: on
    log = BUILD / "found" / f"{reader}.log"
    with log.open("wb") as output:
        status = subprocess.run(
            [str(word) for word in command],
            cwd=BUILD,
            stdout=output,
            stderr=output,
            timeout=2 * seconds + 120,
            preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_CORE, (0, 0)),
            env={**os.environ, "ASAN_OPTIONS": "detect_leaks=0", "UBSAN_OPTIONS": "print_stacktrace=1"},
        ).returncode
    text = log.read_text(errors="replace")
    counts = [line.split()[-1] for line in text.splitlines() if line.startswith("stat::number_of_executed_units")]
    print(
        f"[fuzz] {reader:12} {counts[0] if counts else '?':>10} inputs  {'ok' if status == 0 else 'FAILED'}", flush=True
    )
    if status:
        print("\n".join(text.splitlines()[-30:]))
        print(f"[fuzz] the input is in {found.relative_to(ROOT)}, all that was said in {log.relative_to(ROOT)}")
    return status == 0


def main():
    readers = sorted(path.name for path in CORPUS.iterdir())
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("readers", nargs="*", metavar="reader", help=", ".join(readers))
    parser.add_argument("--seconds", type=int, default=HOUR // len(readers), help="for each reader")
    options = parser.parse_args()
    chosen = options.readers or readers
    for reader in chosen:
        if reader not in readers:
            parser.error(f"no reader {reader}; there are {', '.join(readers)}")
    if not build():
        return 2
    failed = [reader for reader in chosen if not fuzz(reader, options.seconds)]
    print(f"[fuzz] {len(chosen) - len(failed)} readers ok, {len(failed)} failed", flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
