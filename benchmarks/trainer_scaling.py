#!/usr/bin/env python3
"""How much of two cores' training speed two MPI ranks keep, and how that compares with PyTorch DDP.

For each model three set-ups run in turn, several rounds, in one go on one machine:

  alone   two trainings side by side that know nothing of each other: the ideal for two ranks,
          with the cores, caches and memory shared as two ranks share them
  ranks   one training on two MPI ranks, the same batch per rank
  ddp     the same with PyTorch DistributedDataParallel over Gloo (skipped where torch is missing)

Reported: medians over the rounds of the seconds per step, efficiency = alone / ranks, and ddp /
ranks (above 1: faster than DDP).
"""

import argparse
import json
import os
import pathlib
import shutil
import statistics
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
PORT = 29517


def environment(**more):
    return {
        **os.environ,
        "OMP_NUM_THREADS": "1",
        "OMPI_ALLOW_RUN_AS_ROOT": "1",
        "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
        **more,
    }


def last_json(text):
    return json.loads([line for line in text.splitlines() if line.startswith("{")][-1])


def start(command, **more):
    return subprocess.Popen(
        command, env=environment(**more), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )


def slowest_step(processes):
    outputs = [process.communicate() for process in processes]
    for process, (_, errors) in zip(processes, outputs):
        if process.returncode != 0:
            sys.exit(f"{' '.join(map(str, process.args))} exited {process.returncode}:\n{errors}")
    return max(last_json(text)["seconds_per_step"] for text, _ in outputs if text.strip())


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--trainer", required=True, help="fedclient-train")
    parser.add_argument("--dataset", default="/usr/share/datasets/fashion-mnist")
    parser.add_argument("--models", default="mlp,lenet5,cnn")
    parser.add_argument("--batch-size", type=int, default=64, help="per rank")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--quick", action="store_true", help="few steps, one round: a smoke test")
    parser.add_argument("--python", default="/usr/bin/python3", help="one that has torch")
    arguments = parser.parse_args()
    steps = {"mlp": 2000, "lenet5": 600, "cnn": 60}
    if arguments.quick:
        arguments.rounds, steps = 1, {name: 10 for name in steps}
    has_torch = shutil.which(arguments.python) is not None and (
        subprocess.run([arguments.python, "-c", "import torch"], capture_output=True).returncode == 0
    )

    report = []
    with tempfile.TemporaryDirectory() as folder:
        for model in arguments.models.split(","):
            initial = f"{folder}/{model}.safetensors"
            subprocess.run(
                [arguments.trainer, "model", "init", "--model", model, "-o", initial],
                check=True,
                stdout=subprocess.DEVNULL,
            )

            def local(ranks):
                return [
                    *[arguments.trainer, "train", "local", "--initial", initial],
                    *["--dataset", arguments.dataset, "--steps", str(steps[model])],
                    *["--batch_size", str(arguments.batch_size * ranks), "--threads", "1"],
                    *["--learning_rate", "0.02", "--format", "json"],
                ]

            def ddp(rank):
                command = [arguments.python, str(HERE / "trainer_scaling_ddp.py")]
                command += ["--model", model, "--dataset", arguments.dataset]
                command += ["--steps", str(steps[model]), "--batch-size", str(arguments.batch_size)]
                return start(
                    command,
                    RANK=str(rank),
                    WORLD_SIZE="2",
                    MASTER_ADDR="127.0.0.1",
                    MASTER_PORT=str(PORT),
                )

            figures = {"alone": [], "ranks": [], "ddp": []}
            for _ in range(arguments.rounds):
                figures["alone"].append(slowest_step([start(local(1)), start(local(1))]))
                figures["ranks"].append(slowest_step([start(["mpirun", "-n", "2", *local(2)])]))
                if has_torch:
                    figures["ddp"].append(slowest_step([ddp(0), ddp(1)]))
            row = {"model": model, "batch_per_rank": arguments.batch_size}
            for name, values in figures.items():
                row[name + "_s"] = statistics.median(values) if values else None
            row["efficiency"] = row["alone_s"] / row["ranks_s"]
            row["against_ddp"] = row["ddp_s"] / row["ranks_s"] if row["ddp_s"] else None
            report.append(row)
            print(
                f"{model}: alone {row['alone_s'] * 1e3:.3f} ms, two ranks {row['ranks_s'] * 1e3:.3f} "
                f"ms per step, efficiency {row['efficiency']:.1%}"
                + (f", {row['against_ddp']:.2f} x DDP's speed" if has_torch else ""),
                file=sys.stderr,
            )
    print(json.dumps(report))


if __name__ == "__main__":
    main()
