"""Talking with ditrace."""
import json
import mmap
import os

import torch


class Talk:
    def __init__(self, requests, replies, arena):
        self.requests, self.replies, self.arena = os.fdopen(requests, "r"), os.fdopen(replies, "w"), arena
        self.size, self.map = 0, None

    def make_room(self, size):
        """Called before the arena gets so many bytes, which may raise MemoryError."""

    def say(self, **what):
        self.replies.write(json.dumps(what) + "\n")
        self.replies.flush()

    def hear(self):
        line = self.requests.readline()
        return json.loads(line) if line.strip() else None

    def tensors(self, what, **tensors):
        """Put the tensors into the arena, say where, and wait until they were looked at: the answer to that."""
        offset, places = 0, []
        for name, t in tensors.items():
            if t is None:
                continue
            size = t.numel() * t.element_size()
            what[name] = {"offset": offset, "dtype": str(t.dtype)[6:], "shape": list(t.shape)}
            places.append((offset, t, size))
            offset = (offset + size + 63) // 64 * 64
        if offset > self.size:
            self.make_room(offset)
            self.size = offset
            os.ftruncate(self.arena, offset)
            self.map = mmap.mmap(self.arena, offset)
        for at, t, size in places:
            if size:
                flat = t.contiguous().reshape(-1)
                flat = flat.as_strided(flat.shape, (1,))  # a single element may have any stride
                torch.frombuffer(self.map, dtype=torch.uint8, count=size, offset=at).copy_(flat.view(torch.uint8))
        self.say(**what)
        answer = self.hear()
        if not answer or not answer.get("go"):
            raise SystemExit(0)
        return answer
