#!/usr/bin/env python3
"""The peer of trainer_benchmark.py: the same training in PyTorch, plain or with
DistributedDataParallel over Gloo.

Same architectures, same batches per rank, SGD with momentum, the loss read in every step. Prints one
JSON line with the median seconds per step, as `fedclient train local --format json` does. Rank and
size come from the environment (RANK, WORLD_SIZE, MASTER_ADDR, MASTER_PORT) if they are set.
"""

import argparse
import gzip
import json
import math
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


class Residual(nn.Module):
    def __init__(self, channels_in, channels, stride):
        super().__init__()
        self.conv1 = nn.Conv2d(channels_in, channels, 3, stride, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(channels)
        self.conv2 = nn.Conv2d(channels, channels, 3, 1, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(channels)
        self.downsample = None
        if stride != 1 or channels_in != channels:
            self.downsample = nn.Sequential(
                nn.Conv2d(channels_in, channels, 1, stride, bias=False), nn.BatchNorm2d(channels)
            )

    def forward(self, x):
        y = self.bn2(self.conv2(functional.relu(self.bn1(self.conv1(x)), inplace=True)))
        y += x if self.downsample is None else self.downsample(x)
        return functional.relu(y, inplace=True)


class ResNet18(nn.Module):
    """For small images: a 3 x 3 convolution and no pooling to begin with."""

    def __init__(self):
        super().__init__()
        self.conv1 = nn.Conv2d(1, 64, 3, 1, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(64)
        stages, channels_in = [], 64
        for stage in range(4):
            for block in range(2):
                channels = 64 << stage
                stages.append(Residual(channels_in, channels, 2 if block == 0 and stage else 1))
                channels_in = channels
        self.stages = nn.Sequential(*stages)
        self.fc = nn.Linear(512, 10)

    def forward(self, x):
        x = functional.relu(self.bn1(self.conv1(x)), inplace=True)
        return self.fc(self.stages(x).mean((2, 3)))


class Block(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.ln_1, self.ln_2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.c_attn, self.attn_proj = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.c_fc, self.mlp_proj = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def attention(self, x, mask):
        n, tokens, width = x.shape
        head = width // self.heads
        qkv = self.c_attn(x).view(n, tokens, 3, self.heads, head).permute(2, 0, 3, 1, 4)
        q, k, v = (part.reshape(n * self.heads, tokens, head) for part in qkv)
        scores = torch.baddbmm(mask, q, k.transpose(1, 2), alpha=1 / math.sqrt(head))
        seen = torch.bmm(scores.softmax(-1), v)
        seen = seen.view(n, self.heads, tokens, head).transpose(1, 2).reshape(n, tokens, width)
        return self.attn_proj(seen)

    def forward(self, x, mask):
        x = x + self.attention(self.ln_1(x), mask)
        return x + self.mlp_proj(functional.gelu(self.c_fc(self.ln_2(x))))


class Gpt(nn.Module):
    def __init__(self, vocabulary=256, context=64, layers=4, heads=4, width=128):
        super().__init__()
        self.wte, self.wpe = nn.Embedding(vocabulary, width), nn.Embedding(context, width)
        self.h = nn.ModuleList(Block(width, heads) for _ in range(layers))
        self.ln_f = nn.LayerNorm(width)
        self.mask = torch.full((context, context), -math.inf).triu_(1)

    def forward(self, tokens):
        x = self.wte(tokens) + self.wpe.weight
        for block in self.h:
            x = block(x, self.mask)
        return functional.linear(self.ln_f(x), self.wte.weight)


MODELS = {"mlp": Mlp, "lenet5": LeNet5, "cnn": Cnn, "resnet18": ResNet18, "gpt": Gpt}
CONTEXT = 64


def read_idx(path, skip):
    with gzip.open(path, "rb") as file:
        return torch.frombuffer(bytearray(file.read()[skip:]), dtype=torch.uint8)


class Images:
    def __init__(self, folder):
        self.images = read_idx(f"{folder}/train-images-idx3-ubyte.gz", 16).view(-1, 1, 28, 28)
        self.labels = read_idx(f"{folder}/train-labels-idx1-ubyte.gz", 8).long()

    def __len__(self):
        return len(self.labels)

    def batch(self, indices):
        return self.images[indices].float().mul_(2 / 255).sub_(1), self.labels[indices]


class Tokens:
    def __init__(self, folder):
        data = bytearray(open(f"{folder}/train.tokens", "rb").read())
        self.tokens = torch.frombuffer(data, dtype=torch.int16)

    def __len__(self):
        return (len(self.tokens) - 1) // CONTEXT

    def batch(self, indices):
        places = indices.unsqueeze(1) * CONTEXT + torch.arange(CONTEXT)
        return self.tokens[places].long(), self.tokens[places + 1].long()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--model", default="mlp", choices=MODELS)
    parser.add_argument("--dataset", required=True)
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--batch-size", type=int, default=64, help="per rank")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    rank, size = int(os.environ.get("RANK", 0)), int(os.environ.get("WORLD_SIZE", 1))

    data = (Tokens if arguments.model == "gpt" else Images)(arguments.dataset)
    torch.manual_seed(1)
    model = MODELS[arguments.model]()
    if size > 1:
        dist.init_process_group("gloo")
        model = nn.parallel.DistributedDataParallel(model)
    optimiser = torch.optim.SGD(model.parameters(), lr=0.02, momentum=0.9)
    order = torch.randperm(len(data), generator=torch.Generator().manual_seed(3))[rank::size]

    seconds = []
    for step in range(arguments.steps):
        started = time.perf_counter()
        begin = step * arguments.batch_size % (len(order) - arguments.batch_size)
        inputs, targets = data.batch(order[begin : begin + arguments.batch_size])
        optimiser.zero_grad(set_to_none=False)
        scores = model(inputs)
        loss = functional.cross_entropy(scores.view(-1, scores.shape[-1]), targets.view(-1))
        loss.backward()
        optimiser.step()
        loss.item()
        seconds.append(time.perf_counter() - started)
    if rank == 0:
        print(json.dumps({"ranks": size, "seconds_per_step": statistics.median(seconds[5:])}))


if __name__ == "__main__":
    main()
