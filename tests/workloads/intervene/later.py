"""Makes graphs while a mode is on it, and when that has gone and another has come, runs them backward and calls torch.relu 20
times. Ends when no mode is on it any more."""

import time

import torch


def until(is_met):
    while bool(torch._C._len_torch_function_stack()) != is_met:
        torch.ones(1)  # a thread is entered, and left, at a call
        time.sleep(0.01)


print("ready", flush=True)
until(True)
w = torch.ones(4, 4).requires_grad_(True)
kept = [torch.mul(w, i).sum() for i in range(3)]
print("kept", flush=True)
until(False)
print("plain", flush=True)
until(True)
for loss in kept:
    loss.backward()
for _ in range(20):
    torch.relu(w.detach())
print("called", flush=True)
until(False)
