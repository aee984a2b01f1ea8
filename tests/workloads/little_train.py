#!/usr/bin/env python3
"""train.py with one layer, of which two parameters are trained: its ops are the same, but there are fewer calls."""

import sys

import torch
import train

train.LAYERS, train.HEADS = 1, 2
optimizer = torch.optim.AdamW
torch.optim.AdamW = lambda parameters, **options: optimizer(list(parameters)[-4:-2], **options)
sys.exit(train.main())
