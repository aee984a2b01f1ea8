#!/usr/bin/env python3
"""Code that is made, run and dropped, again and again, so that code objects, names and line tables have the addresses of earlier
ones: short_lived.py SECONDS. Round N is in the file <made N>; its functions begin at lines that differ, and say so. Prints when
each round began, by the monotonic clock in ns."""

import sys
import time

TEXT = """{blank}def leaf_{n}_{leaf}():
    n = 0
    for i in range(800):
        n += i
    n += sum(range(8000))
    return n
{gap}def outer_{n}_{outer}():
    return leaf_{n}_{leaf}()
outer_{n}_{outer}()
"""


def make(n):
    blank, gap = n % 7, n % 3
    lines = {"leaf": blank + 1, "outer": blank + gap + 7}
    exec(compile(TEXT.format(blank="\n" * blank, gap="\n" * gap, n=n, **lines), f"<made {n}>", "exec"), {})


def main(seconds):
    end = time.process_time() + seconds
    began = []
    while time.process_time() < end:
        began.append(time.monotonic_ns())
        make(len(began) - 1)
    print(*began)


main(float(sys.argv[1]))
