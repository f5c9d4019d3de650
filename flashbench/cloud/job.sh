#!/usr/bin/env bash
# Measures on an unattended machine, and ends in time by itself.
#
# Lies beside `parameters` and `limits`, measure.sh, sources.bundle, wheels/ and perhaps worktree.tar and
# earlier/. Writes results/, and at last `ended`: exit code and reason.
# Started again, it does nothing.
set -u
cd "$(dirname "$0")" || exit 4
here=$PWD
umask 077
exec 9>lock
# Wait a little: who asks for the job's state holds the lock for a moment.
if ! flock -w 5 9 || [ -e ended ]; then
    echo "flashbench: this job runs already, or has ended" >&2
    exit 0
fi
# shellcheck source=/dev/null
. ./parameters && . ./limits
echo $$ >pid
mkdir -p results
cp -n earlier/* results/ 2>/dev/null # run files of a machine that was taken away

# One limit, also for a job that is started again after the machine was. Of a rented machine its
# whole life is paid for, not this job alone.
[ -s until ] || echo $(($(date +%s) + seconds)) >until
end=$(cat until)
power_off() { sudo -n shutdown -h "$1" || shutdown -h "$1"; }
stays=$(cat "$HOME/.flashbench-stays" 2>/dev/null) # of a rented machine
[ -z "$off" ] || power_off "+$(((end - $(date +%s) + grace + off) / 60 + 10))" || # should this job be killed
    stays="this user may not shut the machine down: it stays on"
if [ "$life" -gt 0 ] && [ -r "$HOME/.flashbench-born" ]; then
    died=$(($(cat "$HOME/.flashbench-born") + life))
    [ "$died" -lt "$end" ] && end=$died
fi

keep() { # A bucket that is mounted takes whole files, not renames.
    [ -z "$bucket" ] || { mkdir -p "$bucket" && cp results/* "$bucket/"; }
}
[ -z "$bucket" ] || cp -n "$bucket"/*.json results/ 2>/dev/null

left=$((end - $(date +%s)))
code=124
if [ "$left" -gt 0 ]; then
    # The group of `timeout` gets SIGTERM, on which flashbench saves, and SIGKILL a minute later.
    timeout --kill-after="$grace" "$left" bash ./measure.sh "$end" \
        >results/stdout.txt 2>results/stderr.txt </dev/null &
    measuring=$!
    trap 'kill -TERM $measuring 2>/dev/null' TERM INT HUP
    # Not by the tool that waits for the work: a bucket that hangs must not hold the job.
    while kill -0 $measuring 2>/dev/null && sleep "$every"; do keep; done >/dev/null 2>&1 9>&- &
    keeping=$!
    wait $measuring
    code=$?
    while kill -0 $measuring 2>/dev/null; do # a signal ended the wait, not the work
        wait $measuring
        code=$?
    done
    kill $keeping 2>/dev/null
fi
why=
case $code in
124 | 137) why="the limit of time was reached" code=4 ;;
esac
timeout 300 bash -c "$(declare -f keep); bucket=$(printf %q "$bucket"); keep" ||
    why="${why:+$why; }the bucket did not take the results"
[ -z "$stays" ] || why="${why:+$why; }$stays"
printf '%s %s\n' "$code" "$why" >ended.new && mv ended.new ended
if [ -n "$off" ]; then # home removes the folder once it has the results
    exec 9>&-
    while [ "$off" -gt 0 ] && [ -d "$here" ]; do
        sleep 1
        off=$((off - 1))
    done
    power_off now
fi
exit "$code"
