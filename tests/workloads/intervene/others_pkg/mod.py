"""What others_pkg has under two names."""
import collections

import torch


def nest(pair, *, more=None):
    a, (b, c) = pair
    r = torch.add(a * b, c["x"])
    if more is not None:
        r = r + more[0]
    return collections.OrderedDict(r=r, parts=[a, (b + 1,)])
