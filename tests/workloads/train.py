#!/usr/bin/env python3
"""A small transformer language model, trained on the CPU to repeat the sequence that it sees.

    train.py [--steps N | --seconds S] [--width N] [--log FILE] [--quiet]

Every step prints its loss as a hexadecimal float, so that two runs can be compared bit by bit. SIGTERM
ends it after the step that runs.
"""

import argparse
import os
import signal
import sys
import time

import torch
import torch.nn as nn
import torch.nn.functional as F

import eager  # noqa: F401
import observer

HEADS, LAYERS = 4, 2


def set_width(width):
    global WIDTH, VOCAB, LENGTH, BATCH
    WIDTH, VOCAB, LENGTH, BATCH = width, 4 * width, width // 2, width // 16


set_width(32)


class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.qkv = nn.Linear(WIDTH, 3 * WIDTH)
        self.proj = nn.Linear(WIDTH, WIDTH)

    def forward(self, x):
        batch, length, width = x.shape
        q, k, v = self.qkv(x).chunk(3, -1)
        q, k, v = (t.view(batch, length, HEADS, width // HEADS).transpose(1, 2) for t in (q, k, v))
        scores = (q @ k.transpose(-2, -1)) / (width // HEADS) ** 0.5
        future = torch.ones(length, length, dtype=torch.bool).triu(1)
        weights = scores.masked_fill(future, float("-inf")).softmax(-1)
        return self.proj((weights @ v).transpose(1, 2).reshape(batch, length, width))


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.attention = Attention()
        self.expand, self.reduce = nn.Linear(WIDTH, 4 * WIDTH), nn.Linear(4 * WIDTH, WIDTH)

    def forward(self, x):
        x = x + self.attention(self.norm1(x))
        return x + self.reduce(F.gelu(self.expand(self.norm2(x))))


class LanguageModel(nn.Module):
    def __init__(self):
        super().__init__()
        self.token = nn.Embedding(VOCAB, WIDTH)
        self.position = nn.Embedding(LENGTH, WIDTH)
        self.blocks = nn.ModuleList(Block() for _ in range(LAYERS))
        self.norm = nn.LayerNorm(WIDTH)
        self.head = nn.Linear(WIDTH, VOCAB)

    def forward(self, tokens):
        x = self.token(tokens) + self.position.weight
        for block in self.blocks:
            x = block(x)
        return self.head(self.norm(x))


def train_step(model, optimizer):
    tokens = torch.randint(0, VOCAB, (BATCH, LENGTH))
    target = tokens.roll(-1, 1)
    loss = F.cross_entropy(model(tokens).view(-1, VOCAB), target.view(-1))
    optimizer.zero_grad()
    loss.backward()
    nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    return loss.item()


def main():
    args = arguments()
    set_width(args.width)
    torch.manual_seed(args.seed)
    torch.set_num_threads(1)
    model = LanguageModel()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    if not args.quiet:
        print("pid", os.getpid(), flush=True)
    told = []
    signal.signal(signal.SIGTERM, lambda *_: told.append(True))
    end = time.monotonic() + args.seconds if args.seconds else None
    with observer.region(args.log):
        step = 0
        while not told and (time.monotonic() < end if end else step < args.steps):
            loss = train_step(model, optimizer)
            if not args.quiet:
                print(step, loss.hex(), flush=True)
            elif step % 100 == 0:
                print(f"step {step:5d}  loss {loss:.3f}", flush=True)
            step += 1


def arguments():
    p = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    p.add_argument("--steps", type=int, default=100)
    p.add_argument("--seconds", type=float, default=0, help="train for this long instead")
    p.add_argument("--width", type=int, default=WIDTH, help="of the model; what else has a size grows with it")
    p.add_argument("--seed", type=int, default=0)
    p.add_argument("--log", help="let PyTorch log every operator to this file")
    p.add_argument("--quiet", action="store_true", help="print a loss every 100 steps only")
    return p.parse_args()


if __name__ == "__main__":
    sys.exit(main())
