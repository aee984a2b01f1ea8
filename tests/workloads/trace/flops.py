"""Convolutions, matrix products and attention, forward and backward. flops.py count: PyTorch's own count by op, as JSON."""

import json
import sys

import torch
import torch.nn.functional as F
from torch import nn


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.image = nn.Sequential(nn.Conv2d(3, 8, 3, padding=1), nn.Conv2d(8, 8, 3, groups=2, stride=2), nn.ConvTranspose2d(8, 4, 3, stride=2))
        self.sound = nn.Conv1d(3, 6, 5)
        self.qkv = nn.Sequential(nn.Linear(16, 32), nn.Linear(32, 96))

    def forward(self, image, sound, words):
        q, k, v = (x.reshape(2, 10, 4, 8).transpose(1, 2) for x in self.qkv(words).chunk(3, -1))
        seen = getattr(F, "scaled_dot_product_attention", lambda q, k, v: (q @ k.transpose(-1, -2)).softmax(-1) @ v)(q, k, v)
        alike = torch.einsum("bij,bkj->bik", words, words)
        added = torch.baddbmm(alike, words, words.transpose(1, 2))
        return self.image(image).mean() + self.sound(sound).mean() + seen.mean() + added.mean()


def step(model):
    image = torch.randn(2, 3, 12, 12, requires_grad=True)
    words = torch.randn(2, 10, 16, requires_grad=True)
    model(image, torch.randn(4, 3, 20), words).backward()


if sys.argv[1:] == ["count"]:
    from torch.utils.flop_counter import FlopCounterMode

    with FlopCounterMode(display=False) as counter:
        step(Model())
    print(json.dumps({str(op).replace("aten.", ""): n for op, n in counter.get_flop_counts()["Global"].items()}))
else:
    step(Model())
