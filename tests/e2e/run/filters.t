#!/usr/bin/env bash
# --ops, --not-ops, --depth and --phase, on run and on attach.
. "$(dirname "$0")/../lib.sh"
need_tracing

# ops: the recorded names, each once
ops() {
	events
	sed -nE 's/.*"op":"([^"]*)".*/\1/p' "$T/events" | sort -u | xargs
}

count_where() {
	python3 -c 'import json, sys; print(sum(bool(eval(sys.argv[2], {}, json.loads(l))) for l in open(sys.argv[1])))' "$T/events" "$1"
}

# attached COUNT OPTIONS: so many events of the training, which is stopped otherwise; started: all of a short one. Both into
# $T/data.
attached() {
	local n=$1
	shift
	kill -CONT "$child"
	"$DITRACE" attach ${ENGINE:+--engine "$ENGINE"} "$child" --count "$n" "$@" -o "$T/data" >/dev/null 2>&1
	kill -STOP "$child"
}

started() {
	shift
	trace "$@" -- "$PY" train.py --steps 2
}

# filters HOW
filters() {
	"$1" 50 --ops aten::addmm,aten::gelu
	is "$1: full names" "$(ops)" "aten::addmm aten::gelu"
	"$1" 50 --ops 'aten::.*norm' --phase forward
	ops | tr ' ' '\n' >"$T/names"
	ok "$1: a regular expression" [ "$(grep -c norm "$T/names")" -ge 2 ]
	is "$1: and nothing else" "$(grep -vc norm "$T/names")" 0
	"$1" 50 --ops torch.nn.functional.linear,torch.Tensor.masked_fill
	is "$1: ditorch's names" "$(ops)" "aten::linear aten::masked_fill.Scalar"
	"$1" 300 --not-ops 'aten::.*'
	ops | tr ' ' '\n' >"$T/names"
	ok "$1: --not-ops leaves the rest" [ "$(grep -c Backward "$T/names")" -ge 5 ]
	is "$1: and takes out what it names" "$(grep -c '^aten::' "$T/names")" 0
	"$1" 2000 --depth 1
	events
	is "$1: --depth 1 has the outermost level" "$(count_where 'depth > 0 or parent')" 0
	ok "$1: with ops in it" [ "$(count_where 'op == "aten::linear"')" -ge 10 ]
	"$1" 1000 --depth 2
	events
	is "$1: --depth 2 has two" "$(count_where 'depth > 1') $(("$(count_where 'depth == 1')" > 0))" "0 1"
	"$1" 1000 --phase backward
	events
	is "$1: --phase backward" "$(count_where 'phase == "forward"') $(("$(count_where 'phase == "backward"')" > 20))" "0 1"
	"$1" 1000 --phase forward
	events
	is "$1: --phase forward" "$(count_where 'phase == "backward"') $(("$(count_where 'phase == "forward"')" > 200))" "0 1"
}

# all_at_once HOW: over at least two steps, each of which has some 1100 of these events
all_at_once() {
	"$1" 2500 --ops 'aten::.*' --not-ops 'aten::.*norm.*' --depth 2 --phase forward
	events
	is "$1 with all of them has what they leave only" \
		"$(count_where 'not op.startswith("aten::") or "norm" in op or depth > 1 or phase == "backward"')" 0
	is "and has that" "$(("$(count_where 'depth == 1')" > 20)) $(("$(count_where 'op == "aten::linear"')" >= 10))" "1 1"
}

errors() {
	kill -CONT "$child"
	error "a filter that matches nothing names near ones" 'ad+mm' "$DITRACE" attach ${ENGINE:+--engine "$ENGINE"} "$child" --ops aten::admm -o "$T/data"
	ok "and lists aten::addmm" found "$T/error" 'aten::addmm'
	error "a broken regular expression" '\(' "$DITRACE" attach ${ENGINE:+--engine "$ENGINE"} "$child" --ops 'aten::(' -o "$T/data"
	kill -STOP "$child"
}

filters_and_errors() {
	filters attached
	errors
	if of_first_torch; then all_at_once started; else all_at_once attached; fi
	in_long || { skip "each with a program of its own: make test-long"; return; }
	filters started
}

both() {
	local program=slowly.py
	! in_long || program=train.py
	start "$PY" "$program" --steps 1000000 --quiet >"$T/long" 2>"$T/long.err"
	wait_line "$T/long" '^step '
	kill -STOP "$child"
	by_turns filters_and_errors bpf shim
	kill -TERM "$child"
	kill -CONT "$child"
	finish "$child"
	is "the training ends well" "$status" 0
}
each_torch both
done_testing
