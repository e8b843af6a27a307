#!/usr/bin/env python3
"""The peer of trainer_scaling.py: the same training with PyTorch's DistributedDataParallel (Gloo).

Same architectures, same batches per rank, SGD with momentum, one thread per rank. Prints one JSON
line with the median seconds per step, as `fedclient train local --format json` does. Rank and size
come from the environment (RANK, WORLD_SIZE, MASTER_ADDR, MASTER_PORT).
"""

import argparse
import gzip
import json
import os
import statistics
import time

import torch
import torch.distributed as dist
import torch.nn as nn
import torch.nn.functional as functional


class Mlp(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc1 = nn.Linear(784, 128)
        self.fc2 = nn.Linear(128, 64)
        self.fc3 = nn.Linear(64, 10)

    def forward(self, x):
        x = torch.relu(self.fc1(x.flatten(1)))
        return self.fc3(torch.relu(self.fc2(x)))


class LeNet5(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1 = nn.Conv2d(1, 6, 5, padding=2)
        self.conv2 = nn.Conv2d(6, 16, 5)
        self.fc1 = nn.Linear(400, 120)
        self.fc2 = nn.Linear(120, 84)
        self.fc3 = nn.Linear(84, 10)

    def forward(self, x):
        x = torch.max_pool2d(torch.relu(self.conv1(x)), 2)
        x = torch.max_pool2d(torch.relu(self.conv2(x)), 2)
        x = torch.relu(self.fc1(x.flatten(1)))
        return self.fc3(torch.relu(self.fc2(x)))


class Cnn(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1 = nn.Conv2d(1, 32, 3, padding=1)
        self.bn1 = nn.BatchNorm2d(32)
        self.conv2 = nn.Conv2d(32, 64, 3, padding=1)
        self.bn2 = nn.BatchNorm2d(64)
        self.conv3 = nn.Conv2d(64, 128, 3, padding=1)
        self.bn3 = nn.BatchNorm2d(128)
        self.fc = nn.Linear(128, 10)

    def forward(self, x):
        x = torch.max_pool2d(torch.relu(self.bn1(self.conv1(x))), 2)
        x = torch.max_pool2d(torch.relu(self.bn2(self.conv2(x))), 2)
        x = torch.relu(self.bn3(self.conv3(x)))
        return self.fc(x.mean((2, 3)))


def read_idx(path, skip):
    with gzip.open(path, "rb") as file:
        return torch.frombuffer(bytearray(file.read()[skip:]), dtype=torch.uint8)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--model", default="mlp")
    parser.add_argument("--dataset", required=True)
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--batch-size", type=int, default=64, help="per rank")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    rank, size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])

    images = read_idx(f"{arguments.dataset}/train-images-idx3-ubyte.gz", 16).view(-1, 1, 28, 28)
    labels = read_idx(f"{arguments.dataset}/train-labels-idx1-ubyte.gz", 8).long()
    torch.manual_seed(1)
    model = {"mlp": Mlp, "lenet5": LeNet5, "cnn": Cnn}[arguments.model]()
    if size > 1:
        dist.init_process_group("gloo")
        model = nn.parallel.DistributedDataParallel(model)
    optimiser = torch.optim.SGD(model.parameters(), lr=0.02, momentum=0.9)
    order = torch.randperm(len(labels), generator=torch.Generator().manual_seed(3))
    order = order[rank::size]

    seconds = []
    for step in range(arguments.steps):
        started = time.perf_counter()
        begin = step * arguments.batch_size % (len(order) - arguments.batch_size)
        indices = order[begin : begin + arguments.batch_size]
        batch = images[indices].float().mul_(2 / 255).sub_(1)
        optimiser.zero_grad(set_to_none=False)
        loss = functional.cross_entropy(model(batch), labels[indices])
        loss.backward()
        optimiser.step()
        loss.item()
        seconds.append(time.perf_counter() - started)
    if rank == 0:
        print(json.dumps({"ranks": size, "seconds_per_step": statistics.median(seconds[5:])}))


if __name__ == "__main__":
    main()
