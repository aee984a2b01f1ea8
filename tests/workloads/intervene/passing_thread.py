"""A thread begins when there is the file start, and ends with the program when there is the file end: passing_thread.py
FOLDER"""

import os
import sys
import threading
import time

import torch


def until(file):
    while not os.path.exists(os.path.join(sys.argv[1], file)):
        torch.relu(torch.ones(3))
        time.sleep(0.01)


print("ready", flush=True)
until("start")
other = threading.Thread(target=until, args=("end",))
other.start()
until("end")
other.join()
