#!/usr/bin/env bash
# --when, for run, attach and the commands that read a file, on calls whose numbers are known.
. "$(dirname "$0")/../lib.sh"
need_tracing

# number EXPR: how many events of the whole trace match
number() {
	"$DITRACE" script --format jsonl --when "$1" "$T/all" 2>"$T/number.err" | wc -l
	grep -E 'hint|\^' "$T/number.err"
}

ADD="op == 'aten::add.Tensor'"

of_a_file() {
	trace -- "$PY" run/when.py
	mv "$T/data" "$T/all"
	is "the program ends well" "$(tail -c 300 "$T/err" | grep -c Error)" 0
	is "every add" "$(number "$ADD")" 21
	is "by dtype or dimension" "$(number "$ADD and (self.dtype == float16 or self.dim() == 2)")" 17
	is "by size" "$(number "$ADD and self.shape[0] > 128 and 'when.py' in file")" 2
	is "by a tuple" "$(number "$ADD and self.shape == (3, 4)")" 12
	is "by a scalar" "$(number "$ADD and alpha == 2")" 5
	is "and its contrary" "$(number "$ADD and not (alpha == 2)")" 16
	is "by position" "$(number "$ADD and args[2] == 2 and arg0.dim() == 2")" 5
	is "by function" "$(number "$ADD and function == 'special'")" 5
	is "by contiguity" "$(number "$ADD and self.is_contiguous() and not other.is_contiguous()")" 2
	is "by stride" "$(number "$ADD and other.stride() == (1, 200)")" 2
	is "by what it threw" "$(number "$ADD and thrown")" 4
	is "results of those that threw choose nothing" "$(number "$ADD and numel(out) > 0")" 17
	is "negated neither" "$(number "$ADD and not (numel(out) > 0)")" 0
	is "by result" "$(number "$ADD and 10 < numel(out) < 100")" 12
	is "by bytes" "$(number "$ADD and out.nbytes == 3200")" 2
	is "by whether a gradient is needed" "$(number "op == 'aten::mul.Tensor' and phase == forward and other.requires_grad")" 3
	is "backward" "$(number "phase == backward and op == 'MulBackward0'")" 6
	is "by forward" "$(number "op == 'MulBackward0' and forward_id is not None and 'when.py' in file")" 6
	is "by what a node was given" "$(number "op == 'MulBackward0' and grad_outputs[0].shape == (2, 3)")" 6
	is "by what a node computed" "$(number "op == 'MulBackward0' and grad_inputs[1] is not None")" 3
	is "any tensor in a list" "$(number "depth == 0 and op in ('aten::cat',) and any(t.dtype == float16 for t in inputs)")" 1
	is "by the length of a list" "$(number "op == 'aten::cat' and len(tensors) == 3")" 1
	is "by name of an argument that few have" "$(number "normalized_shape[0] == 4 and op == 'aten::layer_norm'")" 4
	is "none" "$(number "elapsed > 1000s")" 0
	is "all" "$(number "elapsed >= 0")" "$(number "depth >= 0")"
}

# Calls whose values cannot be read are not chosen, and are reported.
unknown() {
	events "$T/all"
	local dark kept
	dark=$(python3 -c 'import json, sys
print(sum(a["name"] == "eps" and a["kind"] == "not_decoded" and e["op"] == "aten::native_layer_norm"
          for e in map(json.loads, open(sys.argv[1])) for a in e["args"]))' "$T/events")
	kept=$(number "op == 'aten::native_layer_norm' and eps == 0.001")
	is "a value that is known chooses" "$kept" $((4 - dark))
	ok "one that is not is counted" counted "$dark"
}

counted() {
	[ "$1" = 0 ] && { not_found "$T/number.err" 'not known'; return; }
	found "$T/number.err" "and $1 because a value that it asks for is not known"
}

# Recorded, left out, and unknown.
sum_of() {
	echo $(($(wc -l <"$T/events") $(grep -o '^ditrace: --when left out .*' "$1" | grep -oE '[0-9]+' | sed 's/^/+/' | tr -d '\n')))
}

# chosen EXPR N THROWN OPTION...: run --when EXPR records and prints N of the 21 adds, of which THROWN throw
chosen() {
	trace --print --when "$1" "${@:4}" -- "$PY" run/when.py
	events
	is "run --when '$1' records these only" "$(wc -l <"$T/events")" "$2"
	is "--print prints these only" "$(grep -c forward_id "$T/out") $(grep -c 'aten::add.Tensor.*thrown' "$T/out")" "$2 $3"
}

of_a_run() {
	local large='self.dim() == 2 and self.shape[0] > 128' unknown='nothing.dim() == 2 or alpha == 2'
	# That an op threw is known when the next one comes: the two aten::cat are for that. "nothing" may be an argument of an
	# operator that is not registered yet.
	chosen "thrown and alpha == 1 or $large or $unknown" 11 4 --ops mytests::nothing,add,aten::cat
	like "and says how many it left out" "$T/err" '^ditrace: --when left out 12 ops$'
	is "what is recorded, left out and not known is all there is" "$(sum_of "$T/err")" 23
	if in_long; then
		chosen 'self.dim() == 1 or alpha == 2' 12 4 --ops add,aten::cat
		chosen 'thrown and alpha == 1' 4 4
		chosen "$unknown" 5 0 --ops mytests::nothing,add
		trace --ops add --when 'self.dtype == float16' -- "$PY" run/when.py
		events
		is "so it is by dtype" "$(sum_of "$T/err")" 21
	else
		skip "each of these by itself, of all ops, and by dtype: make test-long" 7
	fi
	start "$PY" slowly.py --steps 1000000 >"$T/busy" 2>"$T/busy.err"
	ok "a training runs" wait_line "$T/busy" '^1 '
	"$DITRACE" attach ${ENGINE:+--engine "$ENGINE"} "$child" --count 10 --ops aten::gelu --when 'self.dim() > 0' -o "$T/data" >/dev/null 2>&1
	events
	ok "attach --when" [ "$(wc -l <"$T/events")" -gt 0 ]
	"$DITRACE" attach ${ENGINE:+--engine "$ENGINE"} "$child" --count 100 --when 'depth > 0' -o "$T/data" >/dev/null 2>&1
	events
	ok "parents keep their ids" verify run/inner_ops "$T/events"
	error "a name that no chosen op has" 'none of the [0-9,]+ chosen ops has .*"sellf"' \
		"$DITRACE" attach ${ENGINE:+--engine "$ENGINE"} "$child" --ops add --when 'sellf.dim() == 2' -o "$T/data"
	like "it is marked" "$T/error" '^    \^~~~~$'
	like "and the near one named" "$T/error" 'hint: near it: .*self'
	error "a name that the chosen ops have not" 'none of the [0-9]+ chosen ops has .*"other"' \
		"$DITRACE" attach ${ENGINE:+--engine "$ENGINE"} "$child" --ops aten::gelu --when 'other.dim() == 2' -o "$T/data"
	stop_busy
	error "what is no condition does not start the program" '=.* means nothing here' \
		"$DITRACE" run -o "$T/data" --when 'alpha = 2' -- touch "$T/started"
	ok "indeed" not test -e "$T/started"
}

other_commands() {
	"$DITRACE" report --format json --when "$ADD and alpha == 2" "$T/all" >"$T/json"
	is "report --when" "$(python3 -c 'import json, sys; r = json.load(open(sys.argv[1]))
print(sum(x["calls"] for x in r["rows"]), r["summary"]["ops"], r["summary"]["left_out"] > 100, r["summary"]["not_known"])' "$T/json")" "5 5 True 0"
	"$DITRACE" report --when "$ADD and alpha == 2" "$T/all" >"$T/report"
	like "its table says what was left out" "$T/report" '^ditrace: --when left out [0-9,]+ ops$'
	"$DITRACE" export --when "op == 'aten::mul.Tensor' and other.requires_grad" "$T/all" >"$T/csv" 2>"$T/err"
	is "export --when: rows with their backward" "$(grep -c '^aten::mul.Tensor.*MulBackward0' "$T/csv") $(wc -l <"$T/csv")" "3 4"
	like "it says what it left out" "$T/err" '^ditrace: --when left out [0-9,]+ ops$'
	error "a name that no op of the file has" 'none of the [0-9,]+ chosen ops' "$DITRACE" script --when 'sellf' "$T/all"
	error "what is no condition" 'means nothing here' "$DITRACE" report --when 'a && b' "$T/all"
}

whens() {
	of_a_file
	unknown
	other_commands
	of_a_run
}
each_torch by_turns whens bpf shim
done_testing
