"""Holds 200 MiB, eleven more threads and seven more files, has written 3,000,000 bytes, and burns some time."""

import os
import threading
import time

kept = bytearray(os.urandom(1 << 20) * 200)
files = [open("/dev/null", "wb", buffering=0) for _ in range(7)]
files[0].write(bytes(3000000))
wait = threading.Event()
for _ in range(11):
    threading.Thread(target=wait.wait, daemon=True).start()
print("ready", flush=True)
while True:
    sum(range(10000))
    time.sleep(0.002)
