#!/usr/bin/env bash
# Makes a fresh clone ready to build: system packages, then .venv.
#
# Safe to run at any time: what is done is not done again, and when nothing
# changed since the last run it returns at once. PYTHON chooses the interpreter.
set -euo pipefail
cd "$(dirname "$0")/.."

python=${PYTHON:-python3}
venv=.venv
stamp=$venv/setup.stamp
log=$venv/setup.log

say() { printf '[setup] %s\n' "$*"; }
die() {
  printf '[setup] error: %s\n' "$*" >&2
  exit 2
}

# Everything the result depends on. .venv/bin/python is part of it so that a
# removed or broken environment is made again.
fingerprint() {
  sha256sum requirements/dev.txt requirements/dev.lock requirements/system.txt tools/setup.sh
  "$venv/bin/python" -c 'import sys; print(sys.version, sys.prefix)' 2>/dev/null ||
    echo "no environment"
}

up_to_date() { [ -f "$stamp" ] && [ "$(cat "$stamp")" = "$(fingerprint)" ]; }

# --- system packages ---------------------------------------------------------

has() { # has command:NAME | header:PATH | file:PATH
  case $1 in
    command:*) command -v "${1#command:}" >/dev/null ;;
    file:*) [ -e "${1#file:}" ] ;;
    header:*) echo "#include <${1#header:}>" | "${CXX:-c++}" -std=c++20 -E -x c++ - >/dev/null 2>&1 ;;
  esac
}

missing_packages() { # missing_packages required|optional
  local package probe need
  while read -r package probe need; do
    case $package in '' | \#*) continue ;; esac
    if [ "$need" = "$1" ] && ! has "$probe"; then echo "$package"; fi
  done <requirements/system.txt
  [ "$1" = required ] || return 0
  # Debian keeps these apart from its Python; elsewhere they come with it.
  "$python" -c 'import venv, ensurepip' 2>/dev/null || echo python3-venv
  "$python" -c 'import os, sys, sysconfig
sys.exit(not os.path.exists(sysconfig.get_path("include") + "/Python.h"))' || echo python3-dev
}

apt_install() {
  DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "$@" >/dev/null
}

install_packages() {
  local required optional package
  required=$(missing_packages required | xargs)
  optional=$(missing_packages optional | xargs)
  [ -n "$required$optional" ] || return 0
  if [ "$(id -u)" != 0 ] || ! command -v apt-get >/dev/null; then
    if [ -n "$required" ]; then
      die "these packages are missing: $required${optional:+ (and, useful: $optional)}
        On Debian or Ubuntu: sudo apt-get update && sudo apt-get install $required${optional:+ $optional}
        Elsewhere, the same libraries by their own names. Then run this again."
    fi
    say "going on without: $optional (faster builds, lint and planning)"
    return 0
  fi
  say "system packages: $required $optional"
  apt-get update -qq || say "apt-get update failed; trying with the lists that are here"
  # shellcheck disable=SC2086  # a list of package names
  [ -z "$required" ] || apt_install $required ||
    die "apt-get could not install: $required (its message is above)"
  for package in $optional; do
    apt_install "$package" || say "going on without $package (not in this distribution)"
  done
}

# --- Python environment ------------------------------------------------------

pip_failed() {
  grep -vE '^(Requirement already|Looking in|WARNING: Location)' "$log" | tail -n 15 | cut -c1-240 >&2
  if grep -q 'No space left on device' "$log"; then
    die "the disk is full: $(df -h --output=avail,target . | tail -n 1 | xargs) left.
        A CPU build of torch takes about 2 GB, a CUDA build about 8 GB; pip also unpacks in ${TMPDIR:-/tmp}."
  fi
  die "pip could not install $1. The end of its log is above; all of it is in $log."
}

pip_install() { # pip_install WHAT ARGUMENT...
  local what=$1 start=$SECONDS
  shift
  say "installing $what"
  # pip's own words are many; show the ones that tell how far it is.
  "$venv/bin/python" -m pip install --disable-pip-version-check --progress-bar off "$@" 2>&1 |
    tee -a "$log" | { grep --line-buffered -E '^ *(Downloading|Installing collected)' || true; } |
    cut -c1-100 || pip_failed "$what"
  say "installed $what in $((SECONDS - start)) s"
}

make_venv() {
  local torch
  torch=$(grep -m1 '^torch==' requirements/dev.txt)
  # A venv records where it lives: one that was moved or copied is no use.
  if [ ! -x $venv/bin/python ] || ! $venv/bin/python -m pip --version >/dev/null 2>&1 ||
    [ "$($venv/bin/python -c 'import sys; print(sys.prefix)')" != "$PWD/$venv" ]; then
    say "making $venv with $("$python" --version)"
    "$python" -m venv --clear $venv || die "could not make $venv with $python"
  fi
  : >"$log"
  # Every byte is one that was there when the lock was written. Nothing that it
  # does not name is installed, another torch least of all.
  pip_install "requirements/dev.lock" --require-hashes --no-deps -r requirements/dev.lock
  # What a CPU build requires is in the lock. A CUDA build brings more.
  pip_install "$torch" "$torch"
}

# --- in order ----------------------------------------------------------------

up_to_date && exit 0

# Two makes at once in one clone must not install over each other.
exec 9>.setup.lock
flock 9 2>/dev/null || true
up_to_date && exit 0

command -v "$python" >/dev/null || die "no $python here; install Python 3.10 or newer, or set PYTHON"
"$python" -c 'import sys; sys.exit(sys.version_info < (3, 10))' ||
  die "$("$python" --version) is too old; Weft needs 3.10 or newer (set PYTHON to another)"
command -v "${CXX:-c++}" >/dev/null || die "no C++ compiler here; install g++ 12 or newer"
command -v cmake >/dev/null || die "no cmake here; install CMake 3.25 or newer"

install_packages
make_venv
fingerprint >"$stamp"
say "ready"
