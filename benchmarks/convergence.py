#!/usr/bin/env python3
"""What the trainer's optimisers, schedules and samplings reach on real data, at equal epochs.

Each cell is `fedclient model init`, `fedclient train local` and `fedclient evaluate` on Fashion-MNIST. A
cell with several learning rates is tried with each on a seed of its own first, and the best one is what the
reported seeds are trained with; the held-out split judges both. Finished trainings are in
OUTPUT/runs.jsonl, so that a comparison that was stopped goes on where it was.

  optimizers   one batch size, cosine, the rate tuned; and once more with what `train find-rate` suggests
  schedules    sgd, the rate tuned for each schedule; auto finds its own
  large batch  batch 32 against batch 2,048: the same rate, scaled, LARS, LAMB, LANS, auto
  sampling     a training split in which class k has 6,000·100^(−k/9) samples

A table goes to standard output, and to OUTPUT/convergence.csv: the mean accuracy over the seeds that stayed
finite, the least and the most of them; `diverged` counts those that did not.
"""

import argparse
import concurrent.futures
import csv
import gzip
import json
import math
import os
import pathlib
import statistics
import struct
import subprocess
import sys
import tempfile

CLASSES = 10
NOT_FINITE = 53  # exit code, docs/exit-codes.md
TUNING_SEED = 1000
FOUND = "found"


def cell(group, name, rates, batch=64, **options):
    """`rates` to choose from (FOUND: by `train find-rate`), or the name of a cell whose choice is taken
    over; options may be functions of the number of steps."""
    return {"group": group, "name": name, "rates": rates, "batch": batch, "options": options}


def all_cells():
    cosine = {"lr_schedule": "cosine", "lr_schedule_steps": lambda steps: steps}
    polynomial = {"lr_schedule": "polynomial", "lr_schedule_steps": lambda steps: steps}
    thirds = {
        "lr_schedule": "step",
        "lr_step_factor": 0.2,
        "lr_step_every": lambda steps: math.ceil(steps / 3),
    }
    warm = {"lr_warm_up_steps": lambda steps: steps // 10, **cosine}
    auto = {"lr_warm_up": "auto", **cosine}
    scaled = {"lr_reference_batch": 32}

    def optimizer(name, rates, **more):
        return cell("optimizers", name, rates, optimizer=name.split()[0], **more, **cosine)

    def schedule(name, rates, **options):
        return cell("schedules", name, rates, **options)

    def large(name, rates, batch=2048, **options):
        return cell("large batch", f"{batch}: {name}", rates, batch, **options)

    return [
        optimizer("sgd", [0.01, 0.02, 0.05]),
        optimizer("sgd nesterov", [0.02, 0.05, 0.1], nesterov="true"),
        optimizer("adamw", [0.0005, 0.001, 0.002]),
        optimizer("lars", [2, 5, 10]),
        optimizer("lamb", [0.001, 0.003, 0.01]),
        optimizer("lans", [0.001, 0.003, 0.01]),
        optimizer("sgd found", [FOUND]),
        optimizer("adamw found", [FOUND]),
        schedule("constant", [0.01, 0.02, 0.05]),
        schedule("step, rate / 5", [0.01, 0.02, 0.05], **thirds),
        schedule("step, batch * 5", [0.01, 0.02, 0.05], batch_growth=5, **thirds),
        schedule("cosine", [0.01, 0.02, 0.05], **cosine),
        schedule("polynomial", [0.01, 0.02, 0.05], **polynomial),
        schedule("auto, Gaussian process", [1], **auto),
        schedule("auto, kernel", [1], lr_warm_up_test="kernel", **auto),
        large("sgd", [0.005, 0.01, 0.02], 32, **cosine),
        large("sgd, rate of 32", "32: sgd", **cosine),
        large("sgd, rate * 64", "32: sgd", **scaled, **cosine),
        large("sgd, rate * 64, warm-up", "32: sgd", **scaled, **warm),
        large("sgd, warm-up", [0.1, 0.2, 0.4], **warm),
        large("lars, warm-up", [5, 10, 20], optimizer="lars", **warm),
        large("lamb, warm-up", [0.01, 0.03, 0.1], optimizer="lamb", **warm),
        large("lans, warm-up", [0.01, 0.03, 0.1], optimizer="lans", **warm),
        large("sgd, auto", [4], **auto),
        large("lamb, auto", [1], optimizer="lamb", **auto),
        *(
            cell("sampling", name, [0.02, 0.05, 0.1], sampling=name, **cosine)
            for name in ("shuffled", "balanced", "loss_weighted")
        ),
    ]


def read_idx(directory, name):
    """The header's size, and the bytes."""
    packed = directory / f"{name}.gz"
    data = gzip.open(packed).read() if packed.exists() else (directory / name).read_bytes()
    return 4 + 4 * data[3], data


def make_long_tail(source, target):
    """A training split whose class k has 6,000*100^(-k/9) samples, the first of each; returns their number."""
    target.mkdir(parents=True, exist_ok=True)
    left = [round(6000 * 100 ** (-k / (CLASSES - 1))) for k in range(CLASSES)]
    count = sum(left)
    begin, labels = read_idx(source, "train-labels-idx1-ubyte")
    image_begin, images = read_idx(source, "train-images-idx3-ubyte")
    size = (len(images) - image_begin) // (len(labels) - begin)
    kept = []
    for index, label in enumerate(labels[begin:]):
        if left[label] > 0:
            left[label] -= 1
            kept.append(index)
    with open(target / "train-labels-idx1-ubyte", "wb") as file:
        file.write(labels[:4] + struct.pack(">I", count))
        file.write(bytes(labels[begin + index] for index in kept))
    with open(target / "train-images-idx3-ubyte", "wb") as file:
        file.write(images[:4] + struct.pack(">I", count) + images[8:image_begin])
        for index in kept:
            file.write(images[image_begin + index * size : image_begin + (index + 1) * size])
    return count


class Trainings:
    def __init__(self, arguments):
        self.arguments = arguments
        self.record = arguments.output / "runs.jsonl"
        self.done = {}
        if self.record.exists():
            for line in self.record.read_text().splitlines():
                run = json.loads(line)
                self.done[run["key"]] = run
        long_tail = arguments.output / "long-tail"
        self.long_tail = long_tail, make_long_tail(arguments.dataset, long_tail)
        begin, labels = read_idx(arguments.dataset, "train-labels-idx1-ubyte")
        self.whole = arguments.dataset, len(labels) - begin

    def fedclient(self, *words, may_diverge=False):
        """What it printed as JSON; nothing if the training left the numbers."""
        command = [self.arguments.fedclient, *map(str, words)]
        environment = {**os.environ, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
        process = subprocess.run(command, env=environment, capture_output=True, text=True)
        if may_diverge and process.returncode == NOT_FINITE:
            return None
        if process.returncode != 0:
            sys.exit(f"{' '.join(command)} exited {process.returncode}:\n{process.stderr}")
        lines = [line for line in process.stdout.splitlines() if line.startswith("{")]
        return json.loads(lines[-1]) if lines else {}

    def run(self, one, rate, seed):
        dataset, samples = self.long_tail if one["group"] == "sampling" else self.whole
        steps = math.ceil(samples * self.arguments.epochs / one["batch"])
        words = ["--batch_size", one["batch"], "--seed", seed]
        for name, value in one["options"].items():
            words.append(f"--{name}={value(steps) if callable(value) else value}")
        if "batch_growth" in one["options"]:  # the same samples in fewer steps
            third = math.ceil(steps / 3)
            growth = one["options"]["batch_growth"]
            steps = third + math.ceil(third / growth) + math.ceil(third / growth**2)
        key = " ".join(map(str, [self.arguments.model, one["group"], steps, rate, *words]))
        if key not in self.done:
            run = {"key": key, "steps": steps, **self.train(dataset, words, steps, rate, seed)}
            self.done[key] = run
            with self.record.open("a") as file:
                file.write(json.dumps(run) + "\n")
        return self.done[key]

    def train(self, dataset, words, steps, rate, seed):
        """The rate, and the accuracy on the held-out split: none if the training left the numbers."""
        with tempfile.TemporaryDirectory() as scratch:
            initial, trained = pathlib.Path(scratch, "initial"), pathlib.Path(scratch, "trained")
            self.fedclient(
                "model", "init", "--model", self.arguments.model, "--seed", seed, "-o", initial
            )
            common = ["--dataset", dataset, "--initial", initial, "--format", "json", *words]
            if rate == FOUND:
                rate = self.fedclient("train", "find-rate", *common)["learning_rate"]
            result = {"learning_rate": rate, "accuracy": None}
            local = ["train", "local", *common, "--learning_rate", rate, "--steps", steps]
            if self.fedclient(*local, "-o", trained, may_diverge=True) is not None:
                judge = ["evaluate", "--model", trained, "--dataset", self.arguments.dataset]
                result["accuracy"] = self.fedclient(*judge, "--format", "json")["accuracy"]
            return result


def judge(trainings, cells, seeds, processes):
    """The cells' rows, in order."""
    chosen = {}
    with concurrent.futures.ThreadPoolExecutor(processes) as pool:

        def accuracy_of(run):
            return -1 if run["accuracy"] is None else run["accuracy"]

        def choose(one):
            if len(one["rates"]) == 1:
                return one["rates"][0]
            return max(
                one["rates"], key=lambda rate: accuracy_of(trainings.run(one, rate, TUNING_SEED))
            )

        own = [one for one in cells if not isinstance(one["rates"], str)]
        for one, rate in zip(own, pool.map(choose, own)):
            chosen[one["name"]] = rate
        work = [(one, seed) for one in cells for seed in range(1, seeds + 1)]

        def train(task):
            one, seed = task
            name = one["rates"] if isinstance(one["rates"], str) else one["name"]
            return trainings.run(one, chosen[name], seed)

        runs = list(pool.map(train, work))
    for index, one in enumerate(cells):
        of_cell = runs[index * seeds : (index + 1) * seeds]
        finite = [run["accuracy"] for run in of_cell if run["accuracy"] is not None]
        yield {
            "group": one["group"],
            "cell": one["name"],
            "batch": one["batch"],
            "steps": of_cell[0]["steps"],
            "learning_rate": f"{statistics.mean(run['learning_rate'] for run in of_cell):.3g}",
            "accuracy": f"{statistics.mean(finite):.4f}" if finite else "",
            "least": f"{min(finite):.4f}" if finite else "",
            "most": f"{max(finite):.4f}" if finite else "",
            "diverged": seeds - len(finite),
        }


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--fedclient", default="fedclient", help="the program")
    parser.add_argument(
        "--dataset", type=pathlib.Path, default=pathlib.Path("/usr/share/datasets/fashion-mnist")
    )
    parser.add_argument("--model", default="mlp")
    parser.add_argument("--epochs", type=float, default=10)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--processes", type=int, default=1, help="trainings at a time")
    parser.add_argument("--groups", default="optimizers,schedules,large batch,sampling")
    parser.add_argument("--output", type=pathlib.Path, default=pathlib.Path("convergence"))
    arguments = parser.parse_args()
    arguments.output.mkdir(parents=True, exist_ok=True)
    groups = arguments.groups.split(",")
    cells = [one for one in all_cells() if one["group"] in groups]
    rows = list(judge(Trainings(arguments), cells, arguments.seeds, arguments.processes))
    if not rows:
        sys.exit(f"no cells in --groups {arguments.groups}")
    with open(arguments.output / "convergence.csv", "w", newline="") as file:
        table = csv.DictWriter(file, rows[0].keys(), lineterminator="\n")
        table.writeheader()
        table.writerows(rows)
    print("| " + " | ".join(rows[0]) + " |")
    print("|" + "---|" * len(rows[0]))
    for row in rows:
        print("| " + " | ".join(map(str, row.values())) + " |")


if __name__ == "__main__":
    main()
