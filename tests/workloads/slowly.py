#!/usr/bin/env python3
"""The training of train.py with a pause before each step, which leaves the processor to who looks at it. With GO in the
environment, from the 21st step on it waits until there is such a file."""

import os
import sys
import time

import train

step, steps = train.train_step, 0


def slow_step(*args):
    global steps
    time.sleep(0.05)
    while steps >= 20 and "GO" in os.environ and not os.path.exists(os.environ["GO"]):
        time.sleep(0.05)
    steps += 1
    return step(*args)


train.train_step = slow_step
sys.exit(train.main())
