#!/usr/bin/env python3
"""The peer of bench_reduce: the same weighted sum in PyTorch, on the same files.

Maps the safetensors files, adds each update in place with `add_(alpha=…)`, writes the result with
its SHA-256 and syncs it, as the reduction does. Start-up and imports are not counted.
"""

import argparse
import hashlib
import json
import mmap
import os
import time

import torch


def open_tensors(path):
    """All f32 tensors of a safetensors file, as views of a private mapping, and its header."""
    with open(path, "rb") as file:
        mapping = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_COPY)
    length = int.from_bytes(mapping[:8], "little")
    entries = json.loads(mapping[8 : 8 + length])
    entries.pop("__metadata__", None)
    tensors = {}
    for name, entry in sorted(entries.items(), key=lambda item: item[1]["data_offsets"]):
        begin, end = entry["data_offsets"]
        tensors[name] = torch.frombuffer(
            mapping, dtype=torch.float32, count=(end - begin) // 4, offset=8 + length + begin
        )
    return mapping[: 8 + length], tensors


def reduce(folder, weights, output):
    header, current = open_tensors(os.path.join(folder, "current.safetensors"))
    updates = [
        open_tensors(os.path.join(folder, f"update{k}.safetensors"))[1]
        for k in range(len(weights))
    ]
    digest = hashlib.sha256(header)
    with open(output, "wb", buffering=0) as file:
        file.write(header)
        for name, tensor in current.items():
            total = tensor.clone()
            for weight, update in zip(weights, updates):
                total.add_(update[name], alpha=weight)
            if not torch.isfinite(total).all():
                raise ValueError(f"tensor {name} is not finite")
            data = memoryview(total.numpy()).cast("B")
            digest.update(data)
            while data:
                data = data[file.write(data) :]
        os.fsync(file.fileno())
    return digest.hexdigest()


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", help="holds current.safetensors and update0.safetensors …")
    parser.add_argument("--updates", type=int, default=8)
    parser.add_argument("--threads", type=int, default=0)
    arguments = parser.parse_args()
    if arguments.threads > 0:
        torch.set_num_threads(arguments.threads)
    weights = [1.0 / (k + 2) for k in range(arguments.updates)]
    output = os.path.join(arguments.folder, "pytorch.safetensors")
    warm = torch.ones(1 << 22)  # starts the threads
    torch.isfinite(warm.clone().add_(warm, alpha=0.5)).all()
    start = time.perf_counter()
    sha256 = reduce(arguments.folder, weights, output)
    seconds = time.perf_counter() - start
    os.unlink(output)
    print(json.dumps({"seconds": seconds, "sha256": sha256, "torch": torch.__version__}))


if __name__ == "__main__":
    main()
