"""Functions called with other numbers of OpenMP threads."""
from concurrent.futures import ThreadPoolExecutor

import torch

CALLERS = {}  # by their number, a thread of ours, whose own it is


def set_number(number):
    torch.get_num_threads()  # first: a thread begins with that of the process
    torch.set_num_threads(number)


def on_threads(number, function, *args):
    """function(*args). A number that is set stays: PyTorch 1 starts a pool each time, whose threads spin for longer than most ops
    take."""
    if number not in CALLERS:
        own, caller = torch.get_num_threads(), ThreadPoolExecutor(1)
        caller.submit(set_number, number).result()
        torch.set_num_threads(own)  # that pool's, too
        CALLERS[number] = caller
    return CALLERS[number].submit(function, *args).result()
