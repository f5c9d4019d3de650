#!/usr/bin/env bash
# Of a job: installs the wheel, unpacks the sources, gates, measures. `measure.sh END`: the second
# (of `date +%s`) at which it will have been ended.
set -u
end=$1
# shellcheck source=/dev/null
. ./parameters
step() { echo "flashbench: $1" >&2; }
fail() {
    echo "flashbench: $1" >&2
    exit 4
}

step "installing flashbench"
command -v git >/dev/null || fail "this machine has no git; install it, or take another --image"
names=(python3 python3.13 python3.12 python3.11 python)
for name in "${python:-${names[@]}}"; do
    found=$(command -v "$name") &&
        "$found" -c 'import sys; sys.exit(sys.version_info < (3, 11))' && break
    found=
done
[ -n "$found" ] || fail "no Python 3.11 or later here; name one with --python, or another --image"
# torch and the rest of the machine's own Python are used where it has them.
{ [ -x env/bin/flashbench ] || {
    "$found" -m venv --clear --without-pip env &&
        "$found" -c '
import pathlib, sys, sysconfig
(site,) = pathlib.Path("env").glob("lib/python*/site-packages")
own = dict.fromkeys(sysconfig.get_paths()[name] for name in ("purelib", "platlib"))
(site / "host-packages.pth").write_text("".join(f"{place}\n" for place in own))'
}; } || fail "no virtual environment can be made with $found"
pip() { "$found" -m pip --disable-pip-version-check --python env/bin/python "$@" -q >&2; }
# Where all is there already, no network is needed.
wanted="flashbench$extras"
pip install --force-reinstall --no-deps --no-index --find-links wheels flashbench ||
    fail "no wheel that was sent is for $found; make one for it (make wheel), send it by --wheel"
pip install --no-index "$wanted" 2>/dev/null || pip install "$wanted" ||
    fail "what flashbench needs could not be installed"

step "unpacking the sources"
if [ ! -e repo/.git/unpacked ]; then
    rm -rf repo
    git init -q repo &&
        git -C repo symbolic-ref HEAD refs/heads/flashbench-job &&
        git -C repo fetch -q ../sources.bundle '+refs/*:refs/*' &&
        git -C repo checkout -q --detach "$head" || fail "the sources could not be unpacked"
    if [ -e worktree.tar ]; then
        git -C repo ls-files -z | (cd repo && xargs -0 rm -f --)
        tar -xf worktree.tar -C repo || fail "the working tree could not be unpacked"
    fi
    touch repo/.git/unpacked
fi
flashbench="$PWD/env/bin/flashbench"
PATH="$PWD/env/bin:$PATH"
results="$PWD/results"
cd "repo/$folder" || fail "the sources have no folder $folder"
requires=$("$results/../env/bin/python" -c '
import pathlib, tomllib
file = pathlib.Path("pyproject.toml")
table = tomllib.loads(file.read_text()).get("build-system", {}) if file.exists() else {}
print("\n".join(table.get("requires", [])))')
if [ -n "$requires" ]; then
    step "installing what the build needs"
    (cd "$results/.." && printf '%s\n' "$requires" >requires.txt && pip install -r requires.txt) ||
        fail "what the build needs could not be installed"
fi

# A copy that was cut short, of a machine that went away or in a bucket, is not worth the job.
for file in "$results"/*.json; do
    [ -e "$file" ] || continue
    "$flashbench" show "$file" >/dev/null 2>&1
    [ $? -ne 2 ] || { mv "$file" "$file.damaged" && step "$(basename "$file") is damaged, and set aside"; }
done

if [ -n "$gate" ]; then
    step "gating $gate"
    "$flashbench" gate "$gate" --no-speed >"$results/gate.txt"
    code=$?
    cat "$results/gate.txt" >&2
    # What the gate could not measure, the command below may; it says so itself.
    case $code in 1 | 2) exit $code ;; esac
fi
step "measuring"
date +%s >"$results/../measuring"
# Its own stop comes before the one that is forced, so that it ends with a verdict; by the clock,
# because a budget does not count builds.
[ -z "$budget" ] || export FLASHBENCH_DEADLINE=$((end - (end - $(date +%s)) / 10))
exec "$flashbench" "${command[@]}" # it gets the signal of `timeout` itself, and saves
