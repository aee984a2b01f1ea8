"""Ranks train, with loaders' workers; the last one starts late: python3 restarted.py STORE [die]. STORE is a file that is not there
yet. die: in the first start, rank 1 is killed in the step DIES. Ends with the loss."""

import os
import signal
import sys
import time

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader

STEPS, DIES = 20, 5

rank, size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
restarts = int(os.environ.get("TORCHELASTIC_RESTART_COUNT", 0))
torch.set_num_threads(1)
if rank == size - 1:
    time.sleep(1)
# Of the store of torchrun a second start gets the addresses of the first one.
dist.init_process_group("gloo", init_method=f"file://{sys.argv[1]}.{restarts}", rank=rank, world_size=size)
torch.manual_seed(0)
model = DistributedDataParallel(torch.nn.Linear(16, 4))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
data = [torch.full((16,), i / 100) for i in range(STEPS)]
for step, x in enumerate(DataLoader(data, batch_size=1, num_workers=1), 1):
    loss = model(torch.cosh(x)).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if len(sys.argv) > 2 and not restarts and rank == 1 and step == DIES:
        os.kill(os.getpid(), signal.SIGKILL)
if rank == 0:
    print("loss", loss.item().hex(), flush=True)
dist.barrier()
dist.destroy_process_group()
