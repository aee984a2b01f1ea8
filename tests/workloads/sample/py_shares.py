"""Three functions of Python take 50, 30 and 20 % of the program's time on a processor, as shares.py without torch; at the
end it says what they have had. py_shares.py SECONDS"""
import sys
import time

WANTED = {"first": 0.5, "second": 0.3, "third": 0.2}


def first():
    for _ in range(300_000):
        pass


def second():
    for _ in range(300_000):
        pass


def third():
    for _ in range(300_000):
        pass


had = dict.fromkeys(WANTED, 0.0)
begin = now = time.thread_time()
while now - begin < float(sys.argv[1]):
    name = min(WANTED, key=lambda n: had[n] / WANTED[n])
    globals()[name]()
    last, now = now, time.thread_time()
    had[name] += now - last
total = sum(had.values())
print("cpu", *(f"{name} {100 * had[name] / total:.1f}" for name in WANTED), flush=True)
