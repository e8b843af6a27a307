#!/usr/bin/env python3
"""The trainer's step next to PyTorch's, with one rank and with two, one thread each.

For each model these run in turn, several rounds, in one go on one machine:

  one      one training                            pytorch  the same in plain PyTorch
  ranks    one training on two MPI ranks           ddp      the same with DistributedDataParallel
  alone    two trainings side by side that know nothing of each other: the ideal for two ranks,
           with cores, caches and memory shared as two ranks share them

Reported, as medians over the rounds of the ratio within a round: trainer.MODEL.RANKS.ratio_to_pytorch
of the seconds per step (below 1: faster than PyTorch), .memory_ratio_to_pytorch of the peak resident
sizes, and trainer.MODEL.2.efficiency = alone / ranks. trainer.scaling.2 is the efficiencies' geometric
mean. What needs PyTorch is left out where it is missing.
"""

import argparse
import json
import math
import os
import pathlib
import random
import shutil
import statistics
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
PORT = 29517
# Batch per rank and steps: a few seconds each.
WORK = {"mlp": (64, 2000), "lenet5": (64, 500), "cnn": (64, 40), "resnet18": (16, 12), "gpt": (16, 40)}


def environment(**more):
    return {
        **os.environ,
        "OMP_NUM_THREADS": "1",
        "OPENBLAS_NUM_THREADS": "1",
        "OMPI_ALLOW_RUN_AS_ROOT": "1",
        "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
        **more,
    }


def last_json(text):
    return json.loads([line for line in text.splitlines() if line.startswith("{")][-1])


class Running:
    """A started program; what it printed goes to files, so that its resources can be asked for."""

    def __init__(self, command, **more):
        self.command = command
        self.output = tempfile.TemporaryFile("w+")
        self.errors = tempfile.TemporaryFile("w+")
        self.process = subprocess.Popen(
            command, env=environment(**more), stdout=self.output, stderr=self.errors
        )

    def result(self):
        _, status, used = os.wait4(self.process.pid, 0)
        self.process.returncode = os.waitstatus_to_exitcode(status)
        for file in (self.output, self.errors):
            file.seek(0)
        if self.process.returncode != 0:
            name = " ".join(map(str, self.command))
            sys.exit(f"{name} exited {self.process.returncode}:\n{self.errors.read()}")
        text = self.output.read()
        seconds = last_json(text)["seconds_per_step"] if text.strip() else 0
        return seconds, used.ru_maxrss


def slowest(running):
    results = [one.result() for one in running]
    return max(seconds for seconds, _ in results), max(memory for _, memory in results)


def ratio(figures, above, below, index=0):
    pairs = zip(figures[above], figures[below])
    return statistics.median(a[index] / b[index] for a, b in pairs)


class Contest:
    def __init__(self, arguments, model, folder):
        self.arguments, self.model = arguments, model
        self.batch, self.steps = WORK[model]
        if arguments.quick:
            self.steps = 8
        self.data = folder / "tokens" if model == "gpt" else arguments.dataset
        self.initial = folder / f"{model}.safetensors"
        shape = ["--input", "tokens:64", "--classes", "256"] if model == "gpt" else []
        command = [arguments.trainer, "model", "init", "--model", model, *shape]
        subprocess.run([*command, "-o", self.initial], check=True, stdout=subprocess.DEVNULL)

    def local(self, ranks=1):
        command = [self.arguments.trainer, "train", "local", "--initial", self.initial]
        command += ["--dataset", self.data, "--steps", str(self.steps)]
        command += ["--batch_size", str(self.batch * ranks), "--threads", "1"]
        command += ["--learning_rate", "0.02", "--format", "json"]
        return Running(command if ranks == 1 else ["mpirun", "-n", str(ranks), *command])

    def pytorch(self, **more):
        command = [self.arguments.python, HERE / "trainer_pytorch.py", "--model", self.model]
        command += ["--dataset", self.data, "--steps", str(self.steps)]
        return Running([*command, "--batch-size", str(self.batch)], **more)

    def ddp(self):
        place = {"WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(PORT)}
        return [self.pytorch(RANK=str(rank), **place) for rank in (0, 1)]

    def run(self, peer):
        figures = {name: [] for name in ("one", "pytorch", "ranks", "ddp", "alone")}
        for _ in range(self.arguments.rounds):
            figures["one"].append(slowest([self.local()]))
            if peer:
                figures["pytorch"].append(slowest([self.pytorch()]))
            figures["ranks"].append(slowest([self.local(2)]))
            if peer:
                figures["ddp"].append(slowest(self.ddp()))
            figures["alone"].append(slowest([self.local(), self.local()]))
        report = {"batch_per_rank": self.batch}
        for key, ours, theirs in (("1", "one", "pytorch"), ("2", "ranks", "ddp")):
            report[key] = {"step_s": statistics.median(s for s, _ in figures[ours])}
            if peer:
                report[key]["pytorch_step_s"] = statistics.median(s for s, _ in figures[theirs])
                report[key]["ratio_to_pytorch"] = ratio(figures, ours, theirs)
        if peer:
            report["1"]["memory_ratio_to_pytorch"] = ratio(figures, "one", "pytorch", 1)
        report["2"]["efficiency"] = ratio(figures, "alone", "ranks")
        return report


def write_tokens(folder):
    """A stream without a meaning: the time of a step does not depend on it."""
    folder.mkdir()
    source = random.Random(1)
    stream = bytes(b for _ in range(200_000) for b in (source.randrange(256), 0))
    (folder / "train.tokens").write_bytes(stream)
    (folder / "tokens.json").write_text('{"dtype": "u16", "vocabulary": 256}\n')


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--trainer", required=True, help="fedclient-train")
    parser.add_argument("--dataset", default="/usr/share/datasets/fashion-mnist")
    parser.add_argument("--models", default=",".join(WORK))
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--quick", action="store_true", help="few steps, one round: a smoke test")
    parser.add_argument("--python", default="/usr/bin/python3", help="one that has torch")
    arguments = parser.parse_args()
    if arguments.quick:
        arguments.rounds = 1
    peer = shutil.which(arguments.python) is not None and (
        subprocess.run([arguments.python, "-c", "import torch"], capture_output=True).returncode == 0
    )
    report = {}
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        write_tokens(folder / "tokens")
        for model in arguments.models.split(","):
            report[model] = Contest(arguments, model, folder).run(peer)
            print(model, json.dumps(report[model]), file=sys.stderr)
    logs = [math.log(figures["2"]["efficiency"]) for figures in report.values()]
    report["scaling"] = {"2": math.exp(statistics.fmean(logs))}
    print(json.dumps({"trainer": report}))


if __name__ == "__main__":
    main()
