"""What ptxas prints, read into one entry a kernel and arch."""

import importlib.util
from pathlib import Path

PATH = Path(__file__).resolve().parents[2] / "build_support" / "ptxas_report.py"
spec = importlib.util.spec_from_file_location("ptxas_report", PATH)
assert spec is not None
assert spec.loader is not None
ptxas_report = importlib.util.module_from_spec(spec)
spec.loader.exec_module(ptxas_report)

REPORT = """\
ptxas info    : 0 bytes gmem
ptxas info    : Compiling entry function '_Z4fastPf' for 'sm_80'
ptxas info    : Function properties for _Z4fastPf
    0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads
ptxas info    : Used 10 registers, used 1 barriers, 4096 bytes smem, 360 bytes cmem[0]
ptxas info    : Compile time = 3.2 ms
ptxas info    : Compiling entry function '_Z4slowPf' for 'sm_90a'
ptxas info    : Function properties for _Z4slowPf
    72 bytes stack frame, 136 bytes spill stores, 64 bytes spill loads
ptxas info    : Used 255 registers, used 0 barriers, 72 bytes cumulative stack size
"""


def test_each_kernel_has_its_own_numbers() -> None:
    """Registers, shared memory, stack and spills go to the kernel and arch they follow."""
    fast, slow = ptxas_report.parse(REPORT)
    assert fast == {
        "name": "_Z4fastPf", "arch": "80", "registers": 10, "static_shared_bytes": 4096,
        "stack_bytes": 0, "spill_store_bytes": 0, "spill_load_bytes": 0,
    }  # fmt: skip
    assert slow == {
        "name": "_Z4slowPf", "arch": "90a", "registers": 255, "static_shared_bytes": 0,
        "stack_bytes": 72, "spill_store_bytes": 136, "spill_load_bytes": 64,
    }  # fmt: skip


def test_reports_of_deleted_objects_are_left_out(tmp_path: Path) -> None:
    """A report counts only while its object file is still part of the build directory."""
    (tmp_path / "kept.o").touch()
    (tmp_path / "kept.o.ptxas").write_text(REPORT)
    (tmp_path / "gone.o.ptxas").write_text(REPORT.replace("fast", "lost"))
    found = ptxas_report.collect(tmp_path)
    assert [entry["name"] for entry in found] == ["fast(float*)", "slow(float*)"]
