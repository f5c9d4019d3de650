"""The device level of preflight, on answers of drivers and of torch that are replayed."""

from dataclasses import replace
from pathlib import Path

import pytest
from preflight.driver import HEALTHY, OLD, TODAY

from flashbench.preflight.architectures import Setting
from flashbench.preflight.device import CHECKS, Answers, TorchAnswer
from flashbench.preflight.device.nvidia_smi import read_driver
from flashbench.preflight.finding import CannotCheck, Finding

_TORCH = TorchAnswer(version="2.11.0+cu130", cuda="13.0", available=True, archs=("sm_90",))
_PROCESS = "<process_info><pid>1</pid><process_name>other</process_name></process_info>"

_INSTANCE = "<mig_device><index>0</index></mig_device>"


def _answers(**changed: str) -> Answers:
    """The findings on a healthy machine, but for what the driver says otherwise."""
    return Answers(
        driver=read_driver(TODAY.format(**HEALTHY | changed), ["9.0"]),
        torch=_TORCH,
        tools={"nvcc": "Cuda compilation tools, release 13.0, V13.0.88", "ncu": "Version 2025.3"},
        profiling="root, admin only",
        free={"/cache": 50 << 30},
        archs=("80-real", "80-virtual", "90a-real"),
    )


def _found(answers: Answers) -> list[Finding]:
    return [finding for check in CHECKS for finding in check.perform(answers)[0]]


def test_healthy_machine() -> None:
    """Nothing is found, and every check was made."""
    assert [check.perform(_answers()) for check in CHECKS] == [([], [])] * len(CHECKS)


@pytest.mark.parametrize(
    ("changed", "check", "found"),
    [
        ({"persistence": "Disabled"}, "persistence", "is off"),
        ({"mig": "Enabled", "instances": _INSTANCE * 2}, "MIG", "is cut into instances: 2"),
        ({"mig": "Enabled"}, "MIG", "MIG is on, and there is no instance"),
        ({"compute": "Prohibited"}, "compute mode", "is Prohibited"),
        ({"used": "70000"}, "free memory", "11.3 of 79.6 GiB"),
        ({"ecc": "2"}, "ECC", "2 uncorrected errors"),
        ({"pending": "Yes"}, "ECC", "waits for a reset"),
        ({"thermal": "Active"}, "throttling", "hw_thermal_slowdown at 34 degrees"),
        ({"power": "400.00"}, "power limit", "400 W; the default is 700 W"),
        ({"clock": "1200 MHz"}, "clocks", "1200 MHz"),
        ({"processes": _PROCESS}, "other processes", "1 on it: other (1)"),
        ({"busy": "97"}, "other processes", "is 97 % busy with processes not visible"),
        ({"driver": "525.60.13", "cuda": ""}, "driver against torch", "it runs CUDA up to 12.0"),
        ({"cuda": "12.4"}, "driver against torch", "it runs CUDA up to 12.4"),
        (
            {"driver": "535.161.08", "cuda": "12.2"},
            "driver against torch",
            "it runs CUDA up to 12.2; torch 2.11.0+cu130 is built for 13.0",
        ),
    ],
)
def test_each_state_of_the_gpu_is_named(changed: dict[str, str], check: str, found: str) -> None:
    """One state that is not as it should be: that finding, and nothing else of the GPU."""
    findings = _found(_answers(**changed))
    assert [(one.check, found in one.found) for one in findings] == [(check, True)]
    assert findings[0].fix


@pytest.mark.parametrize(
    ("answers", "check", "found"),
    [
        (replace(_answers(), driver=None, driver_error="no nvidia-smi"), "driver", "no nvidia-smi"),
        (
            replace(_answers(), torch=TorchAnswer(version="2.13.0+cpu")),
            "torch sees the GPU",
            "is built without CUDA",
        ),
        (
            replace(_answers(), torch=replace(_TORCH, available=False, error="no device")),
            "torch sees the GPU",
            "sees no GPU: no device",
        ),
        (
            replace(
                _answers(), torch=replace(_TORCH, available=False, error="no device"), chosen="-1"
            ),
            "torch sees the GPU",
            "CUDA_VISIBLE_DEVICES=-1 hides",
        ),
        (
            replace(_answers(), torch=replace(_TORCH, missing=("cudnn",))),
            "SDPA backends",
            "cudnn cannot be used",
        ),
        (replace(_answers(), archs=("100-real",)), "chip is covered", "the build has 100-real"),
        (replace(_answers(), tools={"ncu": "Version"}), "nvcc", "not on PATH"),
        (
            replace(_answers(), tools={"ncu": "Version", "nvcc": "fails: no libstdc++"}),
            "nvcc",
            "no libstdc++",
        ),
        (replace(_answers(), tools={"nvcc": "release 13.0"}), "ncu", "not on PATH"),
        (replace(_answers(), profiling="user, admin only"), "ncu", "lets only administrators"),
        (
            replace(_answers(), torch=replace(_TORCH, archs=("sm_80", "sm_100", "compute_120"))),
            "torch covers the chip",
            "has kernels for sm_80, sm_100, compute_120",
        ),
        (replace(_answers(), free={"/cache": 1 << 20}), "free disk", "0.00 GiB are free"),
    ],
)
def test_each_lack_of_software_is_named(answers: Answers, check: str, found: str) -> None:
    """One thing that is missing or does not fit: that finding, and nothing else."""
    findings = _found(answers)
    assert [(one.check, found in one.found) for one in findings] == [(check, True)]


@pytest.mark.parametrize(
    ("archs", "reason"),
    [
        (CannotCheck("HEAD does not build"), "HEAD does not build"),
        ((), "the build has no code for a GPU"),
    ],
)
def test_chip_that_may_be_covered(archs: tuple[str, ...] | CannotCheck, reason: str) -> None:
    """What the build has code for is unknown, or it has none: neither is said to cover a chip."""
    done = {check.name: check.perform(replace(_answers(), archs=archs)) for check in CHECKS}
    assert done.pop("chip is covered") == ([], [reason])
    assert list(done.values()) == [([], [])] * len(done)


@pytest.mark.parametrize(
    ("changed", "error", "check"),
    [
        ({"cuda": "12.4"}, "RuntimeError: The NVIDIA driver on your system is too old", None),
        ({"mig": "Enabled"}, "RuntimeError: No CUDA GPUs are available", "MIG"),
        ({"compute": "Prohibited"}, "RuntimeError: all CUDA-capable devices", "compute mode"),
        ({"used": "81000"}, "OutOfMemoryError: CUDA out of memory.", "free memory"),
        ({"ecc": "2"}, "AcceleratorError: uncorrectable ECC error encountered", "ECC"),
    ],
)
def test_torch_that_fails_for_a_named_reason(
    changed: dict[str, str], error: str, check: str | None
) -> None:
    """One defect is one finding: torch and nvcc fail for what another check names."""
    torch = replace(_TORCH, available="memory" in error or "ECC" in error, error=error)
    findings = _found(replace(_answers(**changed), torch=torch))
    assert [one.check for one in findings] == [check or "driver against torch"]


def test_torch_without_a_driver_and_without_kernels() -> None:
    """Neither is a second defect beside the one that explains it."""
    torch = replace(_TORCH, available=False, error="RuntimeError: Found no NVIDIA driver")
    answers = replace(_answers(), driver=None, driver_error="nvidia-smi is not on PATH")
    assert [one.check for one in _found(replace(answers, torch=torch))] == ["driver"]
    torch = replace(_TORCH, archs=("sm_100",), error="AcceleratorError: no kernel image is here")
    assert [one.check for one in _found(replace(_answers(), torch=torch))] == [
        "torch covers the chip"
    ]


def test_what_the_level_below_found_is_not_found_again() -> None:
    """torch and nvcc that are missing are errors of the level build."""
    answers = replace(
        _answers(), torch=None, tools={"ncu": "Version"}, named=frozenset({"nvcc", "torch"})
    )
    assert _found(answers) == []


def test_what_the_driver_does_not_say_is_not_ok() -> None:
    """`N/A` in place of every answer: no check that needs one says that all is well."""
    nothing = {key: "[N/A]" for key in HEALTHY if key not in ("driver", "cuda", "processes")}
    answers = replace(_answers(), driver=read_driver(TODAY.format(**HEALTHY | nothing), ["[N/A]"]))
    done = {check.name: check.perform(answers) for check in CHECKS}
    assert [name for name, (findings, _) in done.items() if findings] == []
    unknown = {name for name, (_, reasons) in done.items() if reasons}
    # Idleness is active there, whatever else is unknown.
    assert unknown == {"compute mode", "power limit", "persistence", "free memory"} | {
        "chip is covered",
        "torch covers the chip",
    }
    by_torch = replace(answers, torch=replace(_TORCH, chips=("9.0",)))
    assert [check.perform(by_torch) for check in CHECKS if "cover" in check.name] == [([], [])] * 2


def test_processes_that_draw_are_a_warning() -> None:
    """The machine's display is on the GPU, as on every desktop."""
    process = _PROCESS.replace("<pid>", "<type>G</type><pid>")
    (finding,) = _found(_answers(processes=process))
    assert (finding.check, finding.severity) == ("other processes", "warning")


def test_old_driver() -> None:
    """What a driver of 2020 says under other names is understood, all of it."""
    answers = replace(_answers(), driver=read_driver(OLD))
    found = {one.check: one.found for one in _found(answers)}
    assert set(found) == {
        "driver against torch",
        "other processes",
        "compute mode",
        "ECC",
        "throttling",
        "clocks",
        "power limit",
        "persistence",
        "free memory",
    }
    assert found["other processes"] == "1 on it: python train.py (4711)"
    assert found["power limit"].startswith("it was set to 50 W")


def test_real_gpu_beside_another_process() -> None:
    """What an H100 said while another process held 50 GiB of it: those two facts, nothing else."""
    told = read_driver((Path(__file__).parent / "h100_busy.xml").read_text(), ["9.0"])
    (gpu,) = told.gpus
    assert (told.version, told.cuda, gpu.name) == ("580.159.04", "13.0", "NVIDIA H100 80GB HBM3")
    assert (gpu.power_limit, gpu.temperature) == (700, 33)
    found = {one.check: one.found for one in _found(replace(_answers(), driver=told))}
    assert found == {
        "other processes": "1 on it: python3 (1188)",
        "free memory": "29.1 of 79.6 GiB are free",
    }


def test_ecc_errors_of_old_drivers() -> None:
    """Their sum stands below `double_bit`, and memory that waits has another name."""
    (gpu,) = read_driver(
        "<nvidia_smi_log><gpu><ecc_errors><volatile><single_bit><total>4</total></single_bit>"
        "<double_bit><device_memory>7</device_memory><total>7</total></double_bit></volatile>"
        "</ecc_errors><retired_pages><pending_blacklist>Yes</pending_blacklist></retired_pages>"
        "</gpu></nvidia_smi_log>"
    ).gpus
    assert (gpu.ecc_errors, gpu.retired_pending) == (7, True)


def test_chip_is_covered_by_the_setting_of_the_project() -> None:
    """The fix is the setting that the project's own build reads."""
    answers = replace(_answers(), archs=("80-real",), setting=Setting("TORCH_CUDA_ARCH_LIST"))
    (finding,) = [one for one in _found(answers) if one.check == "chip is covered"]
    assert finding.fix == "export TORCH_CUDA_ARCH_LIST=9.0  # and build again"
