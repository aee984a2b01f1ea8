#!/usr/bin/env bash
# --ops, --not-ops, --depth and --phase, on run and on attach.
. "$(dirname "$0")/lib.sh"
need_tracing

# ops: the recorded names, each once
ops() {
	events
	"$PY" -c 'import json, sys; print(*sorted({json.loads(l)["op"] for l in open(sys.argv[1])}))' "$T/events"
}

count_where() {
	"$PY" -c 'import json, sys; print(sum(bool(eval(sys.argv[2], {}, json.loads(l))) for l in open(sys.argv[1])))' "$T/events" "$1"
}

filters() {
	trace --ops aten::addmm,aten::gelu -- "$PY" train.py --steps 2
	is "full names" "$(ops)" "aten::addmm aten::gelu"
	trace --ops 'aten::.*norm' --phase forward -- "$PY" train.py --steps 2
	ok "a regular expression" [ "$(ops | tr ' ' '\n' | grep -c norm)" -ge 2 ]
	is "and nothing else" "$(ops | tr ' ' '\n' | grep -vc norm)" 0
	trace --ops torch.nn.functional.linear,torch.Tensor.masked_fill -- "$PY" train.py --steps 2
	is "ditorch's names" "$(ops)" "aten::linear aten::masked_fill.Scalar"
	trace --not-ops 'aten::.*' -- "$PY" train.py --steps 2
	ok "--not-ops leaves the rest" [ "$(ops | tr ' ' '\n' | grep -c Backward)" -ge 5 ]
	is "and takes out what it names" "$(ops | tr ' ' '\n' | grep -c '^aten::')" 0
	trace --depth 1 -- "$PY" train.py --steps 2
	events
	is "--depth 1 has the outermost level" "$(count_where 'depth > 0 or parent')" 0
	ok "with ops in it" [ "$(count_where 'op == "aten::linear"')" -ge 10 ]
	trace --depth 2 -- "$PY" train.py --steps 2
	events
	is "--depth 2 has two" "$(count_where 'depth > 1') $(("$(count_where 'depth == 1')" > 0))" "0 1"
	trace --phase backward -- "$PY" train.py --steps 2
	events
	is "--phase backward" "$(count_where 'phase == "forward"') $(("$(count_where 'phase == "backward"')" > 20))" "0 1"
	trace --phase forward -- "$PY" train.py --steps 2
	events
	is "--phase forward" "$(count_where 'phase == "backward"') $(("$(count_where 'phase == "forward"')" > 200))" "0 1"
	start_busy
	"$DITRACE" attach ${ENGINE:+--engine "$ENGINE"} "$child" --for 1s --ops aten::relu -o "$T/data" >/dev/null 2>&1
	is "filters on attach" "$(ops)" aten::relu
	error "a filter that matches nothing names near ones" 'ad+mm' "$DITRACE" attach ${ENGINE:+--engine "$ENGINE"} "$child" --ops aten::admm -o "$T/data"
	ok "and lists aten::addmm" found "$T/error" 'aten::addmm'
	error "a broken regular expression" '\(' "$DITRACE" attach ${ENGINE:+--engine "$ENGINE"} "$child" --ops 'aten::(' -o "$T/data"
	stop_busy
}
each_torch filters
ENGINE=shim each_torch filters
done_testing
