# SPDX-License-Identifier: Apache-2.0
"""What was measured of the machine is kept where nobody else writes, or not at all."""

import socket
import subprocess

from training_runs import GPT, WEFT, capture, environment, finish, make_text


def test_a_cluster_that_others_may_write_is_not_read(tmp_path):
    """One is there for any number of threads, and reading it would be an error."""
    graph = capture(f"{GPT}:tiny", tmp_path / "tiny.graph")
    folder = tmp_path / "cache" / "weft" / socket.gethostname()
    folder.mkdir(parents=True)
    for threads in range(1, 65):
        (folder / f"2_ranks_{threads}_threads.cluster").write_text("not a cluster\n")
    folder.chmod(0o777)
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    words = [graph, "--data", make_text(tmp_path / "data"), "--steps", 1, "--nproc", 2]
    status, _, err = finish(words, tmp_path / "run", XDG_CACHE_HOME=tmp_path / "cache", TMPDIR=temporary)
    assert status == 0, err
    assert f"is not kept: {folder} may be written by others than its owner" in err
    assert not list(temporary.iterdir()), "temporary files were left"


def test_without_a_folder_of_the_user_nothing_is_kept(tmp_path):
    variables = environment(TMPDIR=tmp_path)
    for name in ("HOME", "XDG_CACHE_HOME", "XDG_RUNTIME_DIR"):
        variables.pop(name, None)
    done = subprocess.run(
        [WEFT, "cluster", "measure", "--ranks", "1", "--keep"],
        capture_output=True,
        text=True,
        env=variables,
        timeout=60,
    )
    assert done.returncode == 2
    assert "neither HOME nor XDG_CACHE_HOME is set" in done.stderr
    assert not list(tmp_path.iterdir())
