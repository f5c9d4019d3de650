"""Answers of nvidia-smi that are cut short, odd or late, and the GPUs that CUDA sees of many."""

import re
import stat
from pathlib import Path
from xml.etree import ElementTree

import pytest
from preflight.driver import HEALTHY, TODAY

from flashbench.preflight.device import CHECKS, Answers, TorchAnswer
from flashbench.preflight.device import answers as asking
from flashbench.preflight.device.nvidia_smi import GpuState, read_driver
from flashbench.preflight.device.visible import visible


def _program(folder: Path, text: str) -> None:
    folder.mkdir()
    path = folder / "nvidia-smi"
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(path.stat().st_mode | stat.S_IXUSR)


def _process(name: str) -> str:
    return f"<process_info><pid>7</pid><process_name>{name}</process_name></process_info>"


@pytest.mark.parametrize("name", ["a<b && c>d", "a &amp; b", "a\x01b", "日本語", ""])
def test_processes_of_any_name(name: str) -> None:
    """Some drivers do not escape the name, so that the document is not XML."""
    text = TODAY.format(**HEALTHY | {"processes": _process(name)})
    ((process,),) = (gpu.processes for gpu in read_driver(text).gpus)
    expected = {"a &amp; b": "a & b", "a\x01b": "a?b", "": "a process without a name"}
    assert (process.pid, process.name) == (7, expected.get(name, name))


def test_document_that_is_cut_short() -> None:
    """It is refused, wherever it ends."""
    text = TODAY.format(**HEALTHY)
    for end in range(0, len(text.rstrip()) - 1, 97):
        with pytest.raises(ElementTree.ParseError):
            read_driver(text[:end])


_FAILED = (
    "NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver. Make sure that "
    "the latest NVIDIA driver is installed and running."
)


@pytest.mark.parametrize(
    ("said", "code", "fix"),
    [
        (_FAILED, 9, "sudo modprobe nvidia"),
        (
            "Failed to initialize NVML: Driver/library version mismatch\n"
            "NVML library version: 535.183",
            18,
            "sudo reboot  # the driver was updated",
        ),
        ("No devices were found", 6, "sudo dmesg"),
        ("Failed to initialize NVML: Unknown Error", 255, "docker restart"),
        ("Failed to initialize NVML: Insufficient Permissions", 4, "ls -l /dev/nvidia*"),
        (
            "Unable to determine the device handle for GPU0000:00:1E.0: GPU is lost.  Reboot the "
            "system to recover this GPU",
            15,
            "sudo reboot  # the GPU has left the bus",
        ),
        (
            "NVIDIA-SMI couldn't find libnvidia-ml.so library in your system. Please make sure "
            "that the NVIDIA Display Driver is properly installed and present in your system.",
            12,
            "docker run --gpus all",
        ),
    ],
)
def test_drivers_that_fail(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, said: str, code: int, fix: str
) -> None:
    """The tool's own message is the finding, with what helps, and nothing else is found."""
    (tmp_path / "said").write_text(f"{said}\n")
    _program(tmp_path / "bin", f"cat {tmp_path}/said; exit {code}")
    monkeypatch.setenv("PATH", f"{tmp_path}/bin:/usr/bin:/bin")
    driver, error = asking._ask_driver()
    torch = TorchAnswer(version="2.11.0+cu130", cuda="13.0", error="RuntimeError: no driver")
    tools = {"nvcc": "release 13.0", "ncu": "Version 2025.3"}
    answers = Answers(driver=driver, driver_error=error, torch=torch, tools=tools)
    (finding,) = [one for check in CHECKS for one in check.perform(answers)[0]]
    assert (finding.check, finding.found) == ("driver", said.splitlines()[0][:200])
    assert finding.fix.startswith(fix)


@pytest.mark.parametrize(
    ("program", "error"),
    [
        ("exec sleep 30", r"nvidia-smi did not answer in 0\.3 s"),
        ("head -c 400 $0.xml", r"nvidia-smi is not understood \(.*\): <\?xml"),
        ("echo 'Failed to initialize NVML: Driver/library version mismatch'; exit 18", "mismatch"),
        ("echo 'No devices were found'; exit 6", "No devices were found"),
        ("exit 9", "no answer"),
    ],
)
def test_programs_that_do_not_answer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, program: str, error: str
) -> None:
    """Each is one line, in time."""
    _program(tmp_path / "bin", program)
    (tmp_path / "bin/nvidia-smi.xml").write_text(TODAY.format(**HEALTHY))
    monkeypatch.setenv("PATH", f"{tmp_path}/bin:/usr/bin:/bin")
    monkeypatch.setattr(asking, "_SECONDS", 0.3)
    driver, said = asking._ask_driver()
    assert driver is None
    assert re.fullmatch(f".*{error}.*", said)


def test_chip_of_an_old_driver_is_not_known(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It does not know the question, or answers that it does not know."""
    for index, reply in enumerate(["echo 'Field is not valid'; exit 2", "echo '[N/A]'"]):
        _program(tmp_path / f"bin{index}", f'case "$1" in -q) cat $0.xml;; *) {reply};; esac')
        (tmp_path / f"bin{index}/nvidia-smi.xml").write_text(TODAY.format(**HEALTHY))
        monkeypatch.setenv("PATH", f"{tmp_path}/bin{index}:/usr/bin:/bin")
        driver, error = asking._ask_driver()
        assert driver is not None, error
        assert [gpu.capability for gpu in driver.gpus] == [""]


_GPUS = [
    GpuState("GPU 0: H100", uuid="GPU-aa-1"),
    GpuState("GPU 1: H100", uuid="GPU-ab-2"),
    GpuState("GPU 2: H100", uuid="GPU-b-3", instances=2),
]


@pytest.mark.parametrize(
    ("chosen", "seen"),
    [
        (None, "012"),
        ("0,1,2", "012"),
        ("2,0", "20"),
        (" 1 ", "1"),
        ("", ""),
        ("-1", ""),
        ("NoDevFiles", ""),
        ("7", ""),
        ("0,7,1", "0"),  # CUDA reads as far as the first that it does not know
        ("GPU-ab", "1"),
        ("GPU-a", "01"),
        ("GPU-c", ""),
        ("MIG-GPU-b-3/1/0", "2"),
        ("MIG-c6d4f1ef-42e4-5de3-91c7-45d71c87eb3f", "2"),
        ("0,0", "0"),
    ],
)
def test_gpus_that_cuda_sees(chosen: str | None, seen: str) -> None:
    """By index, by the beginning of a UUID, by a MIG instance; others are not judged."""
    assert [gpu.name for gpu in visible(_GPUS, chosen)] == [_GPUS[int(one)].name for one in seen]


def test_indices_of_different_models() -> None:
    """CUDA numbers the fastest first, the driver by the bus: an index may mean any of them."""
    gpus = [GpuState("GPU 0: T4"), GpuState("GPU 1: H100")]
    assert visible(gpus, "0") == gpus
    assert visible(gpus, "0", "PCI_BUS_ID") == gpus[:1]


def test_several_gpus_have_their_index() -> None:
    """Findings of two equal GPUs are distinguishable."""
    text = TODAY.format(**HEALTHY)
    one = text[text.index("<gpu ") : text.index("</gpu>") + len("</gpu>")]
    driver = read_driver(text.replace(one, one * 2), ["9.0", "9.0"])
    assert [gpu.name for gpu in driver.gpus] == [
        "GPU 0: NVIDIA H100 80GB HBM3",
        "GPU 1: NVIDIA H100 80GB HBM3",
    ]
