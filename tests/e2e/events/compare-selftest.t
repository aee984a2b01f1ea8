#!/usr/bin/env python3
"""compare_truth.py finds every difference that is planted in a small pair of logs."""

import contextlib
import copy
import io
import json
import os
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
import compare_truth
import pytorch_log

FULL = (
    "aten::full(SymInt[] size, Scalar fill_value, *, ScalarType? dtype=None, Layout? layout=None, "
    "Device? device=None, bool? pin_memory=None) -> Tensor"
)
ADD = "aten::add.Tensor(Tensor self, Tensor other, *, Scalar alpha=1) -> Tensor"
CAT = "aten::cat(Tensor[] tensors, int dim=0) -> Tensor"
DIV = "aten::div.Tensor_mode(Tensor self, Tensor other, *, str? rounding_mode) -> Tensor"
DROP = "aten::dropout(Tensor input, float p, bool train) -> Tensor"
T3, T23 = [5, 6, 0, 3, 4, "cpu"], [7, 8, 2, 6, 4, "cpu"]


def node(rf, parent, name, schema, values, kinds, shapes, strides, out, scope=0, seq=-1):
    attrs = dict(rf_id=rf, seq_id=seq, scope=scope, tid=1, fw_tid=int(scope == 1), op_schema=schema)
    return {
        "id": 1000 + rf,
        "name": name,
        "ctrl_deps": parent,
        "inputs": dict(values=values, types=kinds, shapes=shapes, strides=strides),
        "outputs": out,
        "attrs": [{"name": k, "value": v} for k, v in attrs.items()],
    }


def out(value, shape, stride):
    return dict(values=[value], types=["Tensor(float)"], shapes=[shape], strides=[stride])


NO_OUT = dict(values=[], types=[], shapes=[], strides=[])
OUT3, OUT23 = out(T3, [3], [1]), out(T23, [2, 3], [3, 1])


def full(rf, fill):
    values, kinds = [[3], fill, 6, "<None>", "cpu", False], "GenericList[Int] Double Int None Device Bool".split()
    return node(rf, 1, "aten::full", FULL, values, kinds, [[[]], [], [], [], [], []], [[[]], [], [], [], [], []], OUT3)


TRUTH = {
    "nodes": [
        full(1, 12345.0),
        node(3, 2, "aten::add", ADD, [T23, T23, 2], ["Tensor(float)", "Tensor(float)", "Int"], [[2, 3], [2, 3], []],
             [[3, 1], [3, 1], []], OUT23),
        node(2, 1, "aten::cat", CAT, [[T3, T23], -1], ["GenericList[Tensor(float),Tensor(float)]", "Int"],
             [[[3], [2, 3]], []], [[[1], [3, 1]], []], OUT23, seq=4),
        # rf_id 4 threw
        node(5, 1, "aten::div", DIV, [T3, T3, "floor"], ["Tensor(float)", "Tensor(float)", "String"], [[3], [3], []],
             [[1], [1], []], OUT3),
        node(6, 1, "aten::dropout", DROP, [T3, 0.25, True], ["Tensor(float)", "Double", "Bool"], [[3], [], []],
             [[1], [], []], OUT3),
        node(8, 7, "CatBackward0", "", [T3], ["Tensor(float)"], [[3]], [[1]], NO_OUT, scope=1, seq=4),
        node(9, 7, "aten::add", ADD, [T3, T3, 1], ["Tensor(float)", "Tensor(float)", "Int"], [[3], [3], []],
             [[1], [1], []], OUT3),
        node(7, 1, "autograd::engine::evaluate_function: CatBackward0", "", [], [], [], [], NO_OUT),
        full(10, 54321.0),
    ]
}  # fmt: skip


def tensor(name, shape, stride, offset, ptr):
    numel = shape[0] if len(shape) == 1 else shape[0] * shape[1]
    return dict(name=name, kind="tensor", shape=shape, stride=stride, storage_offset=offset, numel=numel, dtype="float32",
                device="cpu", layout="strided", requires_grad=False, data_ptr=ptr)  # fmt: skip


def t3(name):
    return tensor(name, [3], [1], 0, 4096)


def t23(name):
    return tensor(name, [2, 3], [3, 1], 2, 8200)


def value(name, kind, v):
    return dict(name=name, kind=kind, value=v)


def event(number, parent, depth, op, args, results, phase="forward", thrown=False, forward_id=0):
    return dict(id=number, parent=parent or None, depth=depth, pid=1, tid=1, phase=phase, op=op, start_ns=number * 10,
                end_ns=number * 10 + 5, thrown=thrown, forward_id=forward_id, args=args, results=results, stack=[])  # fmt: skip


def full_event(number, fill):
    size = dict(name="size", kind="list", items=[value("", "int", 3)])
    rest = [value("dtype", "dtype", "float32"), dict(name="layout", kind="none"), value("device", "device", "cpu")]
    args = [size, value("fill_value", "scalar", fill)] + rest + [value("pin_memory", "bool", False)]
    return event(number, 0, 0, "aten::full", args, [t3("")])


def add_event(number, parent, depth, t, alpha):
    return event(number, parent, depth, "aten::add.Tensor", [t("self"), t("other"), value("alpha", "scalar", alpha)], [t("")])


TENSORS = dict(name="tensors", kind="list", items=[t3(""), t23("")])
EVENTS = [
    full_event(1, 12345.0),
    event(2, 0, 0, "aten::cat", [TENSORS, value("dim", "int", -1)], [t23("")]),
    add_event(3, 2, 1, t23, 2),
    event(4, 0, 0, "aten::mm", [t3("self"), t3("mat2")], [], thrown=True),
    event(5, 0, 0, "aten::size.int", [t3("self"), value("dim", "int", 0)], [value("", "int", 3)]),
    event(6, 0, 0, "aten::div.Tensor_mode", [t3("self"), t3("other"), value("rounding_mode", "string", "floor")], [t3("")]),
    event(7, 0, 0, "aten::dropout", [t3("input"), value("p", "float", 0.25), value("train", "bool", True)], [t3("")]),
    event(8, 0, 0, "CatBackward0", [dict(name="grad_outputs", kind="list", items=[t3("")])], [], phase="backward", forward_id=2),
    add_event(9, 0, 0, t3, 1),
    full_event(10, 54321.0),
]
EVENTS[8]["phase"] = "backward"  # the engine's own addition of gradients


def run(events, truth=TRUTH):
    with tempfile.TemporaryDirectory() as d:
        paths = os.path.join(d, "e"), os.path.join(d, "t")
        with open(paths[0], "w") as f:
            f.writelines(json.dumps(e) + "\n" for e in events)
        with open(paths[1], "w") as f:
            # floats as the observer writes them
            f.write(json.dumps(truth).replace("12345.0", "12345.000000").replace("0.25", "0.250000").replace("54321.0", "54321.000000"))
        text = io.StringIO()
        with contextlib.redirect_stdout(text):
            status = compare_truth.compare(compare_truth.read_events(paths[0]), pytorch_log.read(paths[1]))
        return status, text.getvalue()


def put(path, new):
    """Plants one value: path is the place in EVENTS."""

    def plant(events):
        at = events
        for key in path[:-1]:
            at = at[key]
        at[path[-1]] = new

    return plant


def swap(events):
    events[5], events[6] = dict(events[6], id=6), dict(events[5], id=7)


def add_extra(events):
    events.insert(2, event(2.5, 0, 0, "aten::neg", [t3("self")], [t3("")]))


PLANTED = {
    "a shape": (put([1, "results", 0, "shape"], [3, 2]), "wrong value"),
    "a stride": (put([1, "results", 0, "stride"], [1, 3]), "wrong value"),
    "a storage offset": (put([2, "args", 0, "storage_offset"], 0), "wrong value"),
    "a dtype": (put([2, "args", 1, "dtype"], "float64"), "wrong value"),
    "a device": (put([5, "args", 0, "device"], "cpu:0"), "wrong value"),
    "numel": (put([5, "args", 0, "numel"], 4), "wrong value"),
    "data_ptr": (put([2, "args", 1, "data_ptr"], 9999), "wrong value"),
    "a list element": (put([0, "args", 0, "items", 0, "value"], 4), "wrong value"),
    "a list's length": (put([1, "args", 0, "items"], [t3("")]), "wrong value"),
    "a tensor in a list": (put([1, "args", 0, "items", 1, "shape"], [6]), "wrong value"),
    "an int": (put([1, "args", 1, "value"], 1), "wrong value"),
    "an int as a float": (put([2, "args", 2, "value"], 2.0), "wrong value"),
    "an int as a bool": (put([8, "args", 2, "value"], True), "wrong value"),
    "a float": (put([6, "args", 1, "value"], 0.250001), "wrong value"),
    "a bool": (put([6, "args", 2, "value"], False), "wrong value"),
    "a string": (put([5, "args", 2, "value"], "trunc"), "wrong value"),
    "a dtype argument": (put([0, "args", 2, "value"], "float64"), "wrong value"),
    "a None": (put([0, "args", 3], value("layout", "layout", "strided")), "wrong value"),
    "a kind": (put([5, "args", 2, "kind"], "device"), "wrong value"),
    "an argument's name": (put([5, "args", 1, "name"], "others"), "wrong name"),
    "a missing result": (put([5, "results"], []), "wrong value"),
    "a missing argument": (put([5, "args"], [t3("self"), t3("other")]), "wrong value"),
    "a parent": (lambda e: e[2].update(parent=0, depth=0), "wrong parent"),
    "a backward argument": (put([7, "args", 0, "items", 0, "shape"], [4]), "wrong value"),
    "a phase": (put([7, "phase"], "forward"), "wrong phase"),
    "a forward_id": (put([7, "forward_id"], 3), "wrong forward_id"),
    "a missing op": (lambda e: e.pop(6), "missing op"),
    "an extra op": (add_extra, "extra op"),
    "two ops in the wrong order": (swap, "missing op"),
    "an overload": (put([2, "op"], "aten::add.Scalar"), "missing op"),
    "ids that do not grow": (put([6, "id"], 4), "order"),
    "a parent in another thread": (put([2, "tid"], 7), "order"),
    "an unmarked throw": (put([3, "thrown"], False), "extra op"),
    "a throw that was not": (put([6, "thrown"], True), "thrown"),
    "undecoded values": (put([5, "args", 2], dict(name="rounding_mode", kind="not_decoded", reason="?")), "not decoded"),
    "unknown dtypes": (put([2, "args", 0, "dtype"], None), "not decoded"),
    "no region": (lambda e: e.pop(0), "region"),
    "requires_grad against a tag": (put([2, "args", 2, "value"], 1001), "wrong tag"),
}


def main():
    cases = [("nothing", *run(EVENTS), None)]
    node_of_engine = copy.deepcopy(EVENTS)
    node_of_engine[8].update(parent=8, depth=1)
    cases.append(("an op beside its node that counts as the node's", *run(node_of_engine), None))
    for name, (plant, kind) in PLANTED.items():
        events = copy.deepcopy(EVENTS)
        plant(events)
        cases.append((name, *run(events), kind))
    failed = 0
    for i, (name, status, text, kind) in enumerate(cases, 1):
        good = status == 0 if kind is None else status == 1 and f"# {kind}: " in text
        failed += not good
        print("ok" if good else "not ok", i, "-", f"{name} is found" if kind else f"{name} is no difference")
        if not good:
            print(text, end="")
    print(f"1..{len(cases)}")
    return failed > 0


sys.exit(main())
