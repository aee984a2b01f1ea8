# Talking with ditrace.

class Talk:
    def __init__(self, requests, replies, arena):
        self.requests, self.replies, self.arena = os.fdopen(requests, "r"), os.fdopen(replies, "w"), arena
        self.size, self.map = 0, None

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


def start_device(device):
    kind = device.split(":")[0]
    if kind == "lazy":
        import torch._lazy
        import torch._lazy.ts_backend
        torch._lazy.ts_backend.init()
    elif kind == "npu":
        import torch_npu  # noqa: F401
    elif kind == "mlu":
        import torch_mlu  # noqa: F401


STARTED = {}


def has_device(device):
    """Can tensors be made there?"""
    kind = device.split(":")[0]
    if kind not in STARTED:
        try:
            start_device(device)
            torch.zeros(1, device=device).cpu()
            STARTED[kind] = None
        except Exception as e:  # whatever a missing device brings about
            STARTED[kind] = str(e).splitlines()[0] if str(e) else type(e).__name__
    return STARTED[kind] is None


def choose(capture, request):
    """Fill in what is judged and where the op runs."""
    if request["device"] is None:
        request["device"] = capture.location
        there = has_device(capture.location)
        if request["of"] is None:
            request["of"] = "rerun" if there else "captured"
        if not there and request["of"] == "rerun" or not there and request["times"]:
            raise Refused(f"there is no {capture.location} here to run it on ({STARTED[capture.location.split(':')[0]]}); "
                          "name another with --device")
    else:
        if not has_device(request["device"]):
            raise Refused(f"there is no {request['device']} here ({STARTED[request['device'].split(':')[0]]})")
        request["of"] = request["of"] or "rerun"


def serve(request, functions, talk):
    if request["cmd"] == "pair":
        return dict(name=pair(request, talk))
    if request["cmd"] == "describe":
        describe_call(request, functions, talk)
        return {}
    capture = Capture(request, functions)
    talk.say(event="op", name=capture.name)
    if namespace_of(capture.name) in MARKS:
        raise Skipped("it marks a place in the program, and computes nothing")
    choose(capture, request)
    skipped = None
    if request["acc"]:
        try:
            Judge(capture, request, talk).run()
        except Skipped as e:
            if not request["times"]:
                raise
            skipped = str(e)
    if request["times"]:
        capture = Capture(request, functions)
        measure(capture, request, talk)
    if skipped:
        raise Skipped(skipped)
    return {}


def settled(device):
    """After a failure: can the device be used again? One that works on its own tells of a failure later, when it is
    waited for, and some stay broken."""
    for _ in range(2):
        try:
            synchronize(device)
            torch.zeros(1, device=device).cpu()
            return True
        except Exception:  # what the failed op left
            pass
    return False


def first_line(e):
    lines = [x for x in str(e).splitlines() if x.strip()]
    return f"{type(e).__name__}: {lines[0]}" if lines else type(e).__name__


def main():
    talk = Talk(*(int(a) for a in sys.argv[1:4]))
    if len(sys.argv) > 4:
        torch.set_num_threads(max(1, int(sys.argv[4])))
    functions = Functions()
    talk.say(event="hello", torch=torch.__version__, python=sys.version.split()[0], executable=sys.executable)
    while True:
        request = talk.hear()
        if request is None:
            return
        try:
            talk.say(event="done", **serve(request, functions, talk))
        except Skipped as e:
            talk.say(event="skipped", reason=str(e))
        except Refused as e:
            talk.say(event="refused", reason=str(e))
        except Damaged as e:
            talk.say(event="damaged", reason=str(e))
        except Exception as e:  # an op may raise anything; the next one is another matter
            talk.say(event="error", reason=first_line(e), broken=not settled(request.get("device") or "cpu"))


if __name__ == "__main__":
    main()
