#!/usr/bin/env bash
# Installs the packages of the test zoo into .venv/zoo: apart, so that nothing
# in them takes the place of what .venv holds, and without their own
# requirements, which would ask for another torch. Returns at once when nothing
# changed since the last run.
set -euo pipefail
cd "$(dirname "$0")/.."

folder=.venv/zoo
stamp=$folder/zoo.stamp
fingerprint() { sha256sum requirements/zoo.lock; }

[ -f "$stamp" ] && [ "$(cat "$stamp")" = "$(fingerprint)" ] && exit 0

printf '[zoo] installing requirements/zoo.lock into %s\n' "$folder"
rm -rf "$folder"
.venv/bin/python -m pip install --disable-pip-version-check --progress-bar off --quiet \
  --require-hashes --no-deps --target "$folder" -r requirements/zoo.lock
fingerprint >"$stamp"
printf '[zoo] ready\n'
