"""A layer, with the parameters that it makes and one that is set."""

import torch

layer = torch.nn.Linear(3, 3)
torch.nn.init.constant_(layer.weight, 2.0)
