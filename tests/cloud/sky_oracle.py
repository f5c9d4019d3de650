"""What SkyPilot itself makes of tasks: `sky_oracle.py TASK.yaml...` prints a line of JSON for each.

Runs in an environment of SkyPilot (`make cloud`), without flashbench, network or credentials. The
catalog of prices is written by the test: the prices are no real ones.
"""

import json
import os
import sys
from pathlib import Path

os.environ["SKYPILOT_DISABLE_USAGE_COLLECTION"] = "1"

import sky
from sky import check, clouds, execution, optimizer
from sky.catalog import common

# One cloud has spot machines, the other is cheaper for the rest. The prices are made up.
HEAD = (
    "InstanceType,AcceleratorName,AcceleratorCount,vCPUs,MemoryGiB,Price,Region,GpuInfo,SpotPrice"
)
NEBIUS = """\
gpu-l4_one,L4,1,8,32,1.10,here,L4,0.25
gpu-a100_one,A100,1,16,128,2.10,here,A100,0.50
gpu-h100_one,H100,1,16,200,4.10,here,H100,1.50
gpu-h100_eight,H100,8,128,1600,32.00,here,H100,12.00
"""
LAMBDA = """\
gpu_1x_l4,L4,1,8,32,1.00,here,L4,
gpu_1x_a100,A100,1,16,128,2.00,here,A100,
gpu_1x_a100_80,A100-80GB,1,16,128,2.50,here,A100-80GB,
gpu_1x_h100,H100,1,16,200,4.00,here,H100,
gpu_1x_h200,H200,1,16,200,5.00,here,H200,
"""
ACCELERATORS = """\
AcceleratorName,Clouds
L4,"['Lambda']"
A100,"['Lambda']"
A100-80GB,"['Lambda']"
H100,"['Lambda']"
H200,"['Lambda']"
"""


def asked(path: str) -> dict[str, object]:
    """What the parser read, and what the optimizer chose."""
    task = sky.Task.from_yaml(path)
    (wanted,) = task.resources
    stop = wanted.autostop_config
    found: dict[str, object] = {
        "name": task.name,
        "accelerators": wanted.accelerators,
        "spot": wanted.use_spot,
        "disk": wanted.disk_size,
        "image": wanted.image_id,
        "autostop": [stop.enabled, stop.idle_minutes, stop.down, stop.wait_for.value],
        "workdir": task.workdir,
        "run": task.run,
        "setup": task.setup,
        "mounts": {where: [s.source, s.mode.value] for where, s in task.storage_mounts.items()},
    }
    with sky.Dag() as dag:
        dag.add(task)
    try:
        optimizer.Optimizer.optimize(dag, quiet=True)
        best = task.best_resources
        found["chosen"], found["hourly"] = best.instance_type, best.get_cost(3600)
        if best.cloud.is_same_cloud(clouds.Lambda()):  # the others ask for their own packages
            _, handle = execution.launch(sky.Task.from_yaml(path), cluster_name="dry", dryrun=True)
            found["dry"] = handle is None
    except sky.exceptions.ResourcesUnavailableError as error:
        found["refused"] = str(error)
    return found


if __name__ == "__main__":
    tables = {
        "nebius/vms.csv": f"{HEAD}\n{NEBIUS}",
        "lambda/vms.csv": f"{HEAD}\n{LAMBDA}",
        "common/accelerators.csv": ACCELERATORS,
    }
    for file, text in tables.items():
        path = Path(common.get_catalog_path(file))
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    enabled = [clouds.Nebius(), clouds.Lambda()]
    check.get_cached_enabled_clouds_or_refresh = lambda *_, **__: enabled
    for name in sys.argv[1:]:
        print(json.dumps(asked(name)))
