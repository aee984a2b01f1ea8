"""All its threads wait for locks, without a time limit."""

import threading

import torch  # noqa: F401

lock = threading.Lock()
lock.acquire()
for _ in range(64):
    threading.Thread(target=lock.acquire, daemon=True).start()
print("ready", flush=True)
lock.acquire()
