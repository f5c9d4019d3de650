"""Whole commands against golden files: stdout, stderr and exit code, character by character.

After a change that is meant: `UPDATE_GOLDEN=1 python -m pytest tests/golden`, then read the diff.
"""

import os
import shlex
from pathlib import Path

import forks
import pytest

HERE = Path(__file__).parent
INPUTS = "../other_tools/inputs"  # what other tools wrote
COMMANDS = {
    "show": "show a.json",
    "show_detail": "show --view detail a.json",
    "show_markdown": "show --format markdown gpu.json",
    "show_csv": "show --format csv a.json",
    "show_json": "show --format json gpu.json",
    "show_gpu_cold": "show --metric gpu_cold gpu.json",
    "show_baseline_only": "show baseline.json",
    "profile_gpu": "profile profile_gpu.json",
    "profile_gpu_markdown": "profile --format markdown profile_gpu.json",
    "profile_gpu_json": "profile --format json profile_gpu.json",
    "compare_one_regression": "compare a.json",
    "compare_one_pass": "compare equal.json",
    "compare_one_best": "compare --against best a.json",
    "compare_one_launch": "compare one_launch.json",
    "compare_one_launch_allowed": "compare --allow undecided one_launch.json",
    "compare_two": "compare a.json b.json",
    "compare_two_exit_zero": "compare --exit-zero a.json b.json",
    "compare_two_tolerance": "compare --tolerance 10% a.json b.json",
    "compare_two_markdown": "compare --format markdown a.json b.json",
    "compare_two_github": "compare --format github a.json b.json",
    "compare_two_junit": "compare --format junit a.json b.json",
    "compare_failures_github": "compare --format github failures.json",
    "compare_failures_junit": "compare --format junit failures.json",
    "compare_one_launch_markdown": "compare --format markdown one_launch.json",
    "show_detail_junit": "show --view detail --format junit failures.json",
    "compare_itself": "compare a.json a.json",
    "compare_failures": "compare failures.json",
    "compare_failures_detail": "show --view detail failures.json",
    "compare_baseline_only": "compare baseline.json",
    "compare_nothing_in_common": "compare a.json other_cases.json",
    "compare_other_machine": "compare gpu.json a.json",
    "compare_truncated": "compare truncated.json",
    "compare_future": "compare future.json",
    "compare_missing_file": "compare nowhere.json",
    "compare_not_a_run_file": "compare make_inputs.py",
    "compare_builds": "compare --format markdown ../../results/machines/h200-planted-2.json",
    "compare_bad_tolerance": "compare --tolerance much a.json",
    "compare_missing_metric": "compare --metric graph a.json",
    "other_tools_pyperf": f"compare {INPUTS}/pyperf_a.json {INPUTS}/pyperf_b.json",
    "other_tools_pytest": f"compare {INPUTS}/pytest_a.json {INPUTS}/pytest_b.json",
    "other_tools_asv": f"compare {INPUTS}/asv/box/a.json {INPUTS}/asv/box/b.json",
    "other_tools_plugin": f"compare {INPUTS}/plugin_a {INPUTS}/plugin_b",
    "other_tools_plugin_alone": f"compare {INPUTS}/plugin_a",
    "other_tools_ours_plugin": f"compare --format json {INPUTS}/ours.json {INPUTS}/plugin_b",
    "other_tools_plugin_ours": f"compare --format markdown {INPUTS}/plugin_a {INPUTS}/ours.json",
    "other_tools_asv_csv": f"compare --format csv {INPUTS}/asv/box/a.json {INPUTS}/asv/box/b.json",
    "other_tools_other_machine": f"compare {INPUTS}/asv/box/a.json {INPUTS}/ours.json",
    "other_tools_nothing_in_common": f"compare {INPUTS}/pyperf_a.json a.json",
    "other_tools_no_sdpa": f"compare {INPUTS}/pyperf_a.json",
    "other_tools_mixed_folder": f"compare {INPUTS} {INPUTS}/plugin_a",
    "other_tools_show_asv": f"show {INPUTS}/asv/box/a.json",
    "other_tools_show_pyperf": f"show {INPUTS}/pyperf_b.json",
    "show_plot_60": "COLUMNS=60 show --plot a.json",
    "show_plot_80": "COLUMNS=80 show --plot a.json",
    "show_plot_file": "show --plot a.json",
    "show_plot_detail": "show --plot --view detail --columns distribution,p50_us a.json",
    "compare_60": "COLUMNS=60 compare a.json",
    "compare_80": "COLUMNS=80 compare a.json b.json",
    "compare_plot_120": "COLUMNS=120 compare --plot a.json",
    "compare_plot_200": "COLUMNS=200 compare --plot a.json b.json",
    "compare_other_tools_80": f"COLUMNS=80 compare {INPUTS}/pyperf_a.json {INPUTS}/pyperf_b.json",
    "show_arranged": "show --sort -speedup --group dtype --columns speedup,launches,verdict a.json",
    "show_only": "show --only slower --format markdown a.json",
    "show_unknown_column": "show --columns nope a.json",
    "show_only_detail": "show --view detail --only SAME a.json",
}


@pytest.mark.parametrize("name", COMMANDS)
def test_golden(name):
    """The command's output and exit code match the golden file."""
    words = shlex.split(COMMANDS[name])
    given = dict(word.split("=") for word in words if word.startswith("COLUMNS="))
    run = forks.run(words[len(given) :], HERE, given)
    found = (
        f"$ flashbench {COMMANDS[name]}\nexit code {run.returncode}\n"
        f"--- stdout\n{run.stdout}--- stderr\n{run.stderr}"
    )
    golden = HERE / f"{name}.txt"
    if os.environ.get("UPDATE_GOLDEN"):
        golden.write_text(found, encoding="utf-8")
    assert found == golden.read_text(encoding="utf-8")


def test_no_golden_file_is_left_over():
    """Every golden file belongs to a command."""
    assert {path.stem for path in HERE.glob("*.txt")} == set(COMMANDS)
