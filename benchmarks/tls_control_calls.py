#!/usr/bin/env python3
"""Latency of small calls while many facilities are connected, and the server's memory.

Starts the real server with a small model, opens the connections over mutual TLS, and lets each of
them ask for the run's status at random moments. Prints one JSON object:

  server.control_p50_s, server.control_p99_s   from the first byte sent to the answer's last byte
  server.resident_bytes                        of the server, with all connections open

The client shares the machine with the server, so the latencies are an upper bound.
"""

import argparse
import asyncio
import json
import os
import random
import resource
import signal
import ssl
import struct
import subprocess
import sys
import tempfile
import time

REQUEST = b"GET /v1/runs/bench HTTP/1.1\r\nHost: bench\r\n\r\n"
HANDSHAKES_AT_ONCE = 50


def write_model(path):
    header = json.dumps({"w": {"dtype": "F32", "shape": [256], "data_offsets": [0, 1024]}}).encode()
    header += b" " * (-len(header) % 8)
    with open(path, "wb") as out:
        out.write(struct.pack("<Q", len(header)) + header + bytes(1024))


def start_server(program, folder):
    model = os.path.join(folder, "initial.safetensors")
    run = os.path.join(folder, "run")
    write_model(model)
    quiet = {"stdout": subprocess.DEVNULL, "check": True}
    subprocess.run([program, "init", run, "--run", "bench", "--initial", model, "--port", "0"],
                   **quiet)
    subprocess.run([program, "cert", "facility", run, "site-a", "--samples", "10"], **quiet)
    log = open(os.path.join(folder, "server.log"), "w", encoding="utf-8")
    server = subprocess.Popen([program, "run", run], stdout=log, stderr=log)
    endpoint = os.path.join(run, "server", "endpoint")
    while not os.path.exists(endpoint):
        if server.poll() is not None:
            sys.exit("the server ended before it listened")
        time.sleep(0.02)
    with open(endpoint, encoding="utf-8") as text:
        return server, run, int(text.read().strip().rsplit(":", 1)[1])


def client_context(run):
    kit = os.path.join(run, "facilities", "site-a")
    context = ssl.create_default_context(cafile=os.path.join(kit, "ca.crt"))
    context.load_cert_chain(os.path.join(kit, "client.crt"), os.path.join(kit, "client.key"))
    return context


async def call(reader, writer):
    start = time.perf_counter()
    writer.write(REQUEST)
    head = await reader.readuntil(b"\r\n\r\n")
    if not head.startswith(b"HTTP/1.1 200"):
        sys.exit(head.decode())
    length = next(int(line.split(b":")[1]) for line in head.split(b"\r\n")
                  if line.lower().startswith(b"content-length"))
    await reader.readexactly(length)
    return time.perf_counter() - start


def resident_bytes(process):
    with open(f"/proc/{process}/statm", encoding="utf-8") as text:
        return int(text.read().split()[1]) * resource.getpagesize()


async def measure(port, context, server, arguments):
    gate = asyncio.Semaphore(HANDSHAKES_AT_ONCE)

    async def connect():
        async with gate:
            return await asyncio.open_connection("127.0.0.1", port, ssl=context)

    streams = await asyncio.gather(*[connect() for _ in range(arguments.connections)])

    async def facility(reader, writer):
        seconds = []
        for _ in range(arguments.calls):
            await asyncio.sleep(random.random() * 2 * arguments.interval)
            seconds.append(await call(reader, writer))
        return seconds

    parts = await asyncio.gather(*[facility(*stream) for stream in streams])
    seconds = sorted(second for part in parts for second in part)
    return {"connections": arguments.connections, "calls": len(seconds),
            "control_p50_s": seconds[len(seconds) // 2],
            "control_p99_s": seconds[int(len(seconds) * 0.99)],
            "resident_bytes": resident_bytes(server.pid)}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--server", default="fedserver", help="the fedserver program")
    parser.add_argument("--connections", type=int, default=1000)
    parser.add_argument("--calls", type=int, default=5, help="of each connection")
    parser.add_argument("--interval", type=float, default=5, help="mean seconds between two calls")
    parser.add_argument("--quick", action="store_true", help="50 connections, to see that it works")
    arguments = parser.parse_args()
    if arguments.quick:
        arguments.connections, arguments.calls, arguments.interval = 50, 2, 0.2
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    with tempfile.TemporaryDirectory() as folder:
        server, run, port = start_server(arguments.server, folder)
        try:
            result = asyncio.run(measure(port, client_context(run), server, arguments))
        finally:
            server.send_signal(signal.SIGTERM)
            server.wait()
    print(json.dumps({"server": result}, indent=2))


if __name__ == "__main__":
    main()
