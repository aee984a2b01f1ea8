"""When there is a file, makes a thread, a fork and a program that take a processor for a time, and says which they are:
born.py FILE"""

import os
import sys
import threading
import time


def spin(seconds):
    end = time.thread_time() + seconds
    while time.thread_time() < end:
        pass


print("ready", flush=True)
while not os.path.exists(sys.argv[1]):
    time.sleep(0.05)
t = threading.Thread(target=spin, args=(0.3,))
t.start()
forked = os.fork()
if not forked:
    spin(0.3)
    os._exit(0)
program = [sys.executable, "-c", "import time\nwhile time.thread_time() < 0.4: pass"]
started = os.spawnv(os.P_NOWAIT, sys.executable, program)
t.join()
os.waitpid(forked, 0)
os.waitpid(started, 0)
print("made", t.native_id, forked, started, flush=True)
time.sleep(36000)
