"""Reads what PyTorch logged of a run: the JSON of ExecutionTraceObserver (2.x) or
ExecutionGraphObserver (1.13), sources: torch/csrc/profiler/standalone/execution_{trace,graph}_observer.cpp.

What these logs lack, and how it is dealt with here:
- a node is written when its op ends, so an op that throws is never written; it is not taken from the
  observer's stack of parents either, so every parent logged after it is wrong. Parents are therefore
  found from the order of starts (rf_id, which has a gap for each op that threw) and of ends (the order
  of nodes in the file).
- floats are written with six decimals, complex numbers and unsigned 64-bit scalars by their type alone
- requires_grad, layout and data_ptr are not written; 1.13 writes no strides
- tensors without a storage (sparse) have neither numel nor device; sparse ones end in errors or, in
  2.13, in a crash
- lists are cut after 4,097 items
- the operators in UNOBSERVED are never logged
"""

import functools
import json
import re

# aten/src/ATen/core/dispatch/ObservedOperators.cpp, and operators that only the interpreter of TorchScript has and the
# dispatcher does not know (torch/csrc/jit/runtime/register_prim_ops.cpp). If a version does log one, it is compared all
# the same.
UNOBSERVED = {
    "aten::size",
    "aten::is_leaf",
    "aten::output_nr",
    "aten::_version",
    "aten::is_complex",
    "profiler::_record_function_enter",
    "profiler::_record_function_enter_new",
    "profiler::_record_function_exit",
    "aten::dim",
    "aten::element_size",
    "aten::is_contiguous",
    "aten::len",
    "aten::numel",
    "aten::storage_offset",
    "aten::sym_numel",
    "aten::sym_size",
    "aten::sym_storage_offset",
    "aten::sym_stride",
}

DTYPES = {
    "unsigned char": "uint8",
    "signed char": "int8",
    "short int": "int16",
    "int": "int32",
    "long int": "int64",
    "c10::Half": "float16",
    "float": "float32",
    "double": "float64",
    "c10::complex<c10::Half>": "complex32",
    "c10::complex<float>": "complex64",
    "c10::complex<double>": "complex128",
    "bool": "bool",
    "c10::BFloat16": "bfloat16",
    "short unsigned int": "uint16",
    "unsigned int": "uint32",
    "long unsigned int": "uint64",
}

# c10/core/ScalarType.h, Layout.h, MemoryFormat.h: the codes of the enumerations
SCALAR_TYPES = (
    "uint8 int8 int16 int32 int64 float16 float32 float64 complex32 complex64 complex128 bool qint8 quint8 qint32 "
    "bfloat16 quint4x2 quint2x4 bits1x8 bits2x4 bits4x2 bits8 bits16 float8_e5m2 float8_e4m3fn float8_e5m2fnuz "
    "float8_e4m3fnuz uint16 uint32 uint64 uint1 uint2 uint3 uint4 uint5 uint6 uint7 int1 int2 int3 int4 int5 int6 "
    "int7 float8_e8m0fnu float4_e2m1fn_x2"
).split()
LAYOUTS = "strided sparse_coo sparse_csr _mkldnn sparse_csc sparse_bsr sparse_bsc jagged".split()
MEMORY_FORMATS = "contiguous_format preserve_format channels_last channels_last_3d".split()

EVALUATE = "autograd::engine::evaluate_function: "
BACKWARD_SCOPE, USER_SCOPE = 1, 7  # at::RecordScope, ATen/record_function.h


class Number(float):
    """A float that remembers the text it was written as."""

    def __new__(cls, text):
        self = super().__new__(cls, text)
        self.text = text
        return self


class Node:
    def __init__(self, name, schema, rf, tid, scope, seq, forward_tid, end):
        self.name, self.rf, self.tid, self.scope, self.seq = name, rf, tid, scope, seq
        self.forward_tid, self.end, self.parent = forward_tid, end, None
        self.schema = Schema(schema) if schema else None
        self.args = self.results = ()
        if schema:
            self.kind, self.op = "op", schema[: schema.index("(")]
        elif scope == BACKWARD_SCOPE:
            self.kind, self.op = "backward", name
        elif scope == USER_SCOPE or name.startswith(EVALUATE) or name in ("detach", "detach_"):
            self.kind, self.op = "other", name
        else:  # the forward of an autograd.Function, named after its class; torch's own scopes look the same
            self.kind, self.op = "function", name


def dtype(name):
    """The dtype of a C++ type's name; the Python name of c10::X is X in small letters."""
    if name in DTYPES:
        return DTYPES[name]
    sub = re.match(r"c10::dummy_(u?int)1_7_t<(\d)>", name)
    return sub.group(1) + sub.group(2) if sub else name.replace("c10::", "").lower()


def split(text):
    """Split at the commas outside all brackets and quotes."""
    parts, depth, start, quote = [], 0, 0, None
    for i, c in enumerate(text):
        if quote:
            quote = None if c == quote else quote
        elif c in "\"'":
            quote = c
        elif c in "([{<":
            depth += 1
        elif c in ")]}" or c == ">" and text[i - 1] != "-":
            depth -= 1
        elif c == "," and depth == 0:
            parts.append(text[start:i].strip())
            start = i + 1
    last = text[start:].strip()
    return parts + [last] if last else parts


@functools.lru_cache(None)
class Schema:
    """args and results: lists of (type, name)."""

    def __init__(self, text):
        end = matching(text, text.index("("))
        self.args = [variable(v) for v in split(text[text.index("(") + 1 : end]) if v != "*"]
        returns = text[end + 1 :].partition("->")[2].strip()
        inside = returns[1:-1] if returns.startswith("(") else returns
        self.results = [variable(v, result=True) for v in split(inside)]


def matching(text, start):
    depth = 0
    for i in range(start, len(text)):
        depth += text[i] in "(["
        depth -= text[i] in ")]"
        if depth == 0:
            return i
    raise ValueError("unbalanced schema: " + text)


def variable(text, result=False):
    depth, space, equal = 0, -1, len(text)
    for i, c in enumerate(text):
        depth += c in "(["
        depth -= c in ")]"
        if c == "=" and depth == 0:
            equal = i
            break
        if c == " " and depth == 0:
            space = i
    if space < 0:
        return text, ""
    return text[:space], text[space + 1 : equal]


@functools.lru_cache(None)
def base_type(schema_type):
    """ScalarType? -> ScalarType, Tensor(a!)[] -> Tensor"""
    return re.match(r"\w*", schema_type).group(0)


def wanted(value, kind, shape, stride, schema_type):
    """What the log has of one value: {"kind": ..., ...} with only the keys that it knows."""
    if kind.startswith("Tensor("):
        return wanted_tensor(value, kind, shape, stride)
    if kind.startswith(("GenericList", "Tuple")):
        kinds = split(kind[kind.index("[") + 1 : -1])
        strides = stride if stride is not None else [None] * len(value)
        items = [wanted(v, k, s, t, schema_type) for v, k, s, t in zip(value, kinds, shape, strides)]
        return {"kind": "list", "items": items, "cut": len(items) > 4096}
    if kind == "None":
        return {"kind": "none"}
    base = base_type(schema_type)
    codes = {"ScalarType": SCALAR_TYPES, "Layout": LAYOUTS, "MemoryFormat": MEMORY_FORMATS}.get(base)
    if kind == "Int" and codes:
        kind = {"ScalarType": "dtype", "Layout": "layout", "MemoryFormat": "memory_format"}[base]
        return {"kind": kind, "value": codes[value]}
    if base == "Scalar":
        return {"kind": "complex"} if kind == "ComplexDouble" else {"kind": "scalar", "type": kind, "value": value}
    if kind == "String" and isinstance(value, str) and value.startswith("dimname::"):
        value = value[len("dimname::") :]
        if value == "*":  # the wildcard, None in Python
            return {"kind": "none"}
    known = {"Int": "int", "Double": "float", "Bool": "bool", "String": "string", "Device": "device"}
    if kind in known:
        return {"kind": known[kind], "value": value}
    return {"kind": "generator"} if kind == "Generator" else {"kind": "unknown", "type": kind}


def wanted_tensor(value, kind, shape, stride):
    name = kind[len("Tensor(") : -1]
    _, storage, offset, numel, itemsize, device = value
    if name.startswith("nullptr"):
        return {"kind": "none"}
    want = {"kind": "tensor", "dtype": dtype(name)}
    if storage:
        want.update(shape=shape, numel=numel, storage_offset=offset, device=device)
        want.update(storage=storage, itemsize=itemsize)
        if stride is not None:
            want["stride"] = stride
    return want


def values(node, part, schema):
    """part: the log's inputs or outputs as (values, types, shapes, strides or None)."""
    vals, types, shapes, strides = part
    strides = strides if strides is not None else [None] * len(vals)
    declared = [t for t, _ in schema] + ["?"] * len(vals)
    return [wanted(*v) for v in zip(vals, types, shapes, strides, declared)]


def read_node(raw, end):
    if "attrs" in raw:
        a = {x["name"]: x["value"] for x in raw["attrs"]}
        parts = [[raw[k].get(f) for f in ("values", "types", "shapes", "strides")] for k in ("inputs", "outputs")]
    else:
        a = raw
        parts = [[raw[k + "s"], raw[k + "_types"], raw[k + "_shapes"], None] for k in ("input", "output")]
    node = Node(raw["name"], a["op_schema"], a["rf_id"], a["tid"], a["scope"], a["seq_id"], a["fw_tid"], end)
    node.args = values(node, parts[0], node.schema.args if node.schema else ())
    node.results = values(node, parts[1], node.schema.results if node.schema else ())
    return node


def utf8_of(match):
    return bytes.fromhex(match.group(0).replace("\\uffffff", "")).decode("utf-8", "replace")


def read(path):
    """All nodes in order of start, each with its parent or None."""
    with open(path) as f:
        text = f.read()
    # 2.13.0 writes each byte above 127 as the code unit of a negative char: \\uffffffc3.
    text = re.sub(r"(?:\\uffffff[0-9a-f]{2})+", utf8_of, text)
    log = json.loads(text, parse_float=Number)
    nodes = [read_node(raw, end) for end, raw in enumerate(log["nodes"])]
    nodes = sorted((n for n in nodes if n.rf), key=lambda n: n.rf)
    open_nodes = {}
    for n in nodes:
        stack = open_nodes.setdefault(n.tid, [])
        while stack and stack[-1].end < n.end:
            stack.pop()
        n.parent = stack[-1] if stack else None
        stack.append(n)
    return nodes
