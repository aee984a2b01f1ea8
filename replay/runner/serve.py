"""Answers requests, one after the other."""
import sys

import torch

from ditrace_runner import memory
from ditrace_runner.capture import Capture
from ditrace_runner.collective import collective
from ditrace_runner.describe import describe_call
from ditrace_runner.device import settled, why_missing
from ditrace_runner.errors import Damaged, Refused, Skipped, first_line
from ditrace_runner.functions import DUALS, MARKS, Functions, import_all, namespace_of
from ditrace_runner.judge import Judge
from ditrace_runner.pair import pair
from ditrace_runner.talk import Talk
from ditrace_runner.times import measure


def choose(capture, request):
    """Fill in what is judged and where the op runs."""
    if request["device"] is None:
        request["device"] = capture.location
        why = why_missing(capture.location)
        if request["of"] is None:
            request["of"] = "captured" if why else "rerun"
        if why and (request["of"] == "rerun" or request["times"]):
            raise Refused(f"there is no {capture.location} here to run it on ({why}); name another with --device")
    else:
        why = why_missing(request["device"])
        if why:
            raise Refused(f"there is no {request['device']} here ({why})")
        request["of"] = request["of"] or "rerun"


def is_on_cpu(request):
    return request["device"].split(":")[0] == "cpu" or request["of"] == "captured" and not request["times"]


def serve(request, functions, talk, limit):
    import_all(request["import"])
    if request["cmd"] == "pair":
        return dict(name=pair(request, talk))
    if request["cmd"] == "collective":
        collective(request, talk)
        return {}
    if request["cmd"] == "describe":
        describe_call(request, functions, talk)
        return {}
    capture = Capture(request, functions)
    talk.say(event="op", name=capture.name)
    if namespace_of(capture.name) in MARKS:
        raise Skipped("it marks a place in the program, and computes nothing")
    if capture.base in DUALS:
        raise Skipped("it belongs to a level of forward-mode differentiation, which only the program has")
    if capture.is_without_numbers():
        raise Skipped("its tensors are of the meta device, which has no numbers")
    choose(capture, request)
    limit.set(is_on_cpu(request))  # drivers of devices may map more than they take
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


class Runner(Talk):
    """What is shared with ditrace counts as memory, too."""

    def make_room(self, size):
        left = memory.room()
        if left is not None and size > left:
            raise MemoryError(f"tried to allocate {size} bytes")


def main():
    requests, replies, arena, threads, runners = (int(a) for a in sys.argv[1:6])
    talk = Runner(requests, replies, arena)
    torch.set_num_threads(max(1, threads))
    limit = memory.Limit(runners)
    functions = Functions()
    talk.say(event="hello", torch=torch.__version__, python=sys.version.split()[0], executable=sys.executable)
    while True:
        request = talk.hear()
        if request is None:
            return
        try:
            talk.say(event="done", **serve(request, functions, talk, limit))
        except Skipped as e:
            talk.say(event="skipped", reason=str(e))
        except Refused as e:
            talk.say(event="refused", reason=str(e))
        except Damaged as e:
            talk.say(event="damaged", reason=str(e))
        except Exception as e:  # an op may raise anything; the next one is another matter
            if memory.is_short(e):
                talk.say(event="refused", reason=memory.shortage(memory.asked(e), memory.room(), runners))
                continue
            talk.say(event="error", reason=first_line(e), broken=not settled(request.get("device") or "cpu"))
