#!/usr/bin/env bash
# report: groups, parts of a trace, gaps, call graphs; all formats add up to the same.
. "$(dirname "$0")/../lib.sh"
need_tracing

R() {
	"$DITRACE" report "$@" "$T/data"
}

# sums OPTIONS...: the calls and self times summed over the rows of the CSV; sum: the calls only
sums() {
	R --format csv "$@" | python3 -c 'import csv, sys
rows = list(csv.DictReader(sys.stdin))
print(*(sum(int(r[c]) for r in rows) for c in ("calls", "self_ns")))'
}

sum() {
	sums "$@" | cut -d' ' -f1
}

# The table without times.
normalised() {
	sed -E -e 's/[0-9.]+ (ns|us|ms|s)/TIME/g; s/[0-9.]+ ?%/PERCENT/g; s/ +/ /g; s/pid [0-9]+, torch [^,]*, CPython [0-9.]+/WHO/
		s/; probes (made it [^;]* slower|took most of the time)//; s|^ditrace: '"$PY"' |ditrace: PYTHON |' -e 's/^ //' | LC_ALL=C sort
}

# A few ops with known numbers.
golden() {
	cat >"$T/wanted" <<-'EOG'
		ditrace: PYTHON W/trace/golden.py (WHO), engine bpf, TIME
		ditrace: recorded with --ops mul.Tensor,relu: what other ops took is not known
		ditrace: traced 1 thread, 7 ops, 0 lost
		
		Calls Op ^ Shapes Where
		2 aten::mul.Tensor [4,4] [4,4] golden.py:10 f: a = torch.mul(a, a)
		3 aten::mul.Tensor [4] [4] golden.py:10 f: a = torch.mul(a, a)
		1 aten::relu [4,4] golden.py:11 f: return torch.relu(a)
		1 aten::relu [4] golden.py:11 f: return torch.relu(a)
		in no op, or in one left out: PERCENT, TIME of TIME
	EOG
	"$DITRACE" run --engine bpf -o "$T/golden.data" --ops mul.Tensor,relu -- "$PY" "$W/trace/golden.py" >/dev/null 2>&1
	few=$T/golden.data # without steps
	"$DITRACE" report --columns calls,op,shape,where --group op,shape,line --sort op --percent-limit 0 "$T/golden.data" | normalised |
		sed "s|$W|W|" | diff - <(LC_ALL=C sort "$T/wanted")
}

# The last call as in script, and the tree of callees.
golden_script() {
	cat >"$T/wanted" <<-'EOG'
		aten::relu forward_id:7 TIME W/trace/golden.py:11 f: return torch.relu(a)
		+-+-+-+-+-+-+-+-+-+
		| name | device | dtype | numel | shape | stride | requires_grad | layout | data_ptr |
		+-+-+-+-+-+-+-+-+-+
		| self | cpu | float32 | 16 | (4, 4) | (4, 1) | False | torch.strided | ADDRESS |
		| outputs | cpu | float32 | 16 | (4, 4) | (4, 1) | False | torch.strided | ADDRESS |
		+-+-+-+-+-+-+-+-+-+
	EOG
	"$DITRACE" script "$T/golden.data" | awk -v RS= '{ last = $0 } END { print last }' |
		sed -E "s|$W|W|; "'s/ +/ /g; s/-+/-/g; s/ [0-9.]+ (ns|us|ms|s) / TIME /; s/ [0-9]+ \|$/ ADDRESS |/' | diff - "$T/wanted"
}

golden_tree() {
	cat >"$T/wanted" <<-'EOG'
		PERCENT 1 aten::relu
		PERCENT 1 aten::relu
		PERCENT 2 aten::mul.Tensor
		PERCENT 3 aten::mul.Tensor
		PERCENT <module> (golden.py:14)
		PERCENT <module> (golden.py:15)
		PERCENT f (golden.py:10)
		PERCENT f (golden.py:10)
		PERCENT f (golden.py:11)
		PERCENT f (golden.py:11)
		Total% Calls Frame or op, and what it called
	EOG
	"$DITRACE" report --call-graph callees --percent-limit 0 "$T/golden.data" | sed -E 's/^ *[0-9.]+%/PERCENT/; s/├|│|└//g; s/ +/ /g' | LC_ALL=C sort |
		diff - "$T/wanted"
}

gaps_are_what_is_left() {
	R --gaps --format json | python3 -c 'import json, sys
gaps = sum(r["total_ns"] for r in json.load(sys.stdin)["rows"])
summary = json.load(open(sys.argv[1]))["summary"]
assert summary["threads"] > 1 or gaps == summary["in_no_op_ns"], (gaps, summary)' "$T/json"
}

annotated() {
	R --group line,phase --format csv >"$T/rows" && R --gaps --format csv >"$T/gaps" &&
		R --group op,line,phase,shape --format csv >"$T/shapes" &&
		"$DITRACE" annotate -i "$T/data" --format json | verify trace/annotated "$T/rows" "$T/gaps" "$T/shapes"
}

steps_add_up() {
	local part=0 i
	for i in 1 2 3 4-; do
		part=$((part + $(sum --step "$i")))
	done
	same "$part" "${all% *}"
}

sides_add_up() {
	local all
	all=$(R --side-by-side --format json | tee "$T/sides" |
		python3 -c 'import json, sys; print(sum(r["backward_calls"] for r in json.load(sys.stdin)["rows"]))')
	verify trace/sides "$T/events" <"$T/sides" &&
		R --side-by-side --columns backward_calls,op -n 1 | awk '/^ *[0-9,]+  /{ gsub(",", "", $1); n += $1 } END { print n }' |
		diff - <(echo "$all")
}

tree_is_of_ops() {
	R --call-graph callees --frames ops --format csv | python3 -c 'import csv, sys
assert all(int(r["calls"]) for r in csv.DictReader(sys.stdin))'
}

# graph_adds_up WAY [OPTIONS...]
graph_adds_up() {
	R --call-graph "$@" --format json | verify trace/call_graph "${all#* }"
}

# For a part of a trace, script prints what report counts, and marks.
printed() {
	local mark='"op":"profiler::_record_function'
	"$DITRACE" script --format jsonl --step 2 "$T/data" >"$T/part"
	is "script prints the calls of a step" "$(grep -vc "$mark" "$T/part")" "$(sum --step 2)"
	is "each as without the step" "$(LC_ALL=C comm -23 <(LC_ALL=C sort "$T/part") <(LC_ALL=C sort "$T/events"))" ""
	is "as text, too" "$("$DITRACE" script --step 2 "$T/data" | awk -v RS= 'END { print NR }')" "$(wc -l <"$T/part")"
	is "those of a time" "$("$DITRACE" script --format jsonl --time 2500ms- "$T/data" | grep -vc "$mark")" "$(sum --time 2500ms-)"
	is "those of a step, a time and a condition" \
		"$("$DITRACE" script --format jsonl --step 2- --time 1s-1h --when "op == 'aten::linear'" "$T/data" 2>/dev/null | wc -l)" \
		"$(sum --step 2- --time 1s-1h --when "op == 'aten::linear'")"
	is "--follow finds the step as it comes" "$("$DITRACE" script --format jsonl --follow --step 2 "$T/data" | cksum)" "$(cksum <"$T/part")"
	error "no such step to print" "has [0-9]+ steps" "$DITRACE" script --step 90 "$T/data"
	error "nor to follow" "has [0-9]+ steps" "$DITRACE" script --follow --step 90 "$T/data"
}
reports() {
	local keys all
	trace -- "$PY" train.py --steps 3
	ok "script" events
	R --format json >"$T/json"
	all=$(sums)
	for keys in op line file function thread shape dtype device phase op,shape,dtype,device function,thread,phase; do
		is "all calls and all time by $keys" "$(sums --group $keys)" "$all"
	done
	! of_first_torch || ok "sorted by each key, grouped by each and any two" python3 "$here/compare_sorts.py" "$T/data"
	ok "totals are the same everywhere" verify trace/totals "$T/data"
	ok "steps add up to all" steps_add_up
	is "a time before the end and one behind" "$(($(sum --time -2500ms) + $(sum --time 2500ms-)))" "${all% *}"
	is "a condition" "$(sum --when "op == 'aten::linear'")" "$(grep -c '"op":"aten::linear"' "$T/events")"
	ok "gaps add up to the time in no op" gaps_are_what_is_left
	ok "annotate has the same by line" annotated
	ok "the backward beside the forward" sides_add_up
	ok "callees add up to the self time" graph_adds_up callees
	ok "callers add up to the self time" graph_adds_up callers
	ok "a tree of ops alone, too" graph_adds_up callees --frames ops
	ok "has ops alone" tree_is_of_ops
	ok "the percent limit leaves out" [ "$(R --percent-limit 99 | wc -l)" -lt "$(R --percent-limit 0 | wc -l)" ]
	ok "the table, times taken out" golden
	ok "a call of script" golden_script
	ok "a tree" golden_tree
	error "no such step" "has [0-9]+ steps" "$DITRACE" report --step 90 "$T/data"
	printed
}
each_torch reports

first_torch
cp "$few" "$T/data"
is "--ops given twice is both lists" "$("$DITRACE" report --format csv --ops mul.Tensor --ops relu "$few")" "$("$DITRACE" report --format csv "$few")"
error "a step when no optimizer was seen" "no end of a step" "$DITRACE" report --step 1 "$T/data"
ok "a step by an op" "$DITRACE" report --step 2 --step-op aten::mul.Tensor "$T/data"
chosen=$(sum --ops aten::mul.Tensor)
is "--ops and --not-ops together are all" $((chosen + $(sum --not-ops aten::mul.Tensor))) "$(sum)"
is "--ops is as a condition" "$chosen" "$(sum --when 'op == "aten::mul.Tensor"')"
is "in script, too" "$("$DITRACE" script --format jsonl --ops aten::mul.Tensor "$T/data" 2>/dev/null | wc -l)" "$chosen"
is "and so many events at most" "$("$DITRACE" script --format jsonl -n 3 "$T/data" | wc -l)" 3
error "an op that the trace does not have" "matches none" "$DITRACE" report --ops mull "$T/data"
like "those that are like it" "$T/error" 'mul'
R --color always --ops aten::mul.Tensor >"$T/shown"
like "what was left out is told" "$T/shown" '^ditrace: --ops left out .* ops$'
like "and is not taken for no op" "$T/shown" '^in no op, or in one left out:'
like "old names are understood" <("$DITRACE" report --no-pager "$T/data" 2>&1 >/dev/null) '^ditrace: --no-pager is called --pager never now$'
is "export knows --format" "$("$DITRACE" export --format folded "$T/data")" "$("$DITRACE" export --to folded "$T/data")"
error "a condition given twice" 'given twice' "$DITRACE" report --when 'True' --when 'True' "$T/data"
error "a group that there is not" "cannot be grouped by" "$DITRACE" report --group colour "$T/data"
error "sorted by what is not there" "not grouped by" "$DITRACE" report --sort shape "$T/data"
is "with status 2" "$status" 2
error "sorted by a word that there is not" 'cannot be sorted by "flop"' "$DITRACE" report --sort flop "$T/data"
is "with status 2" "$status" 2
like "and what is like it" "$T/error" '^  hint: near it: flops'
error "a word that is like none" 'cannot be sorted by "colours"' "$DITRACE" report --sort colours "$T/data"
like "and all that there are" "$T/error" '^  hint: one of self, .*flop_rate.* op, line'
error "sorted by a column of other rows" 'no such column' "$DITRACE" report --sort ratio "$T/data"
error "a column that there is not" "no \"size\"" "$DITRACE" report --columns size "$T/data"
error "a percentage that is none" "not a percentage" "$DITRACE" report --percent-limit x "$T/data"
error "native frames of ops" "no native frames" "$DITRACE" report --call-graph callees --frames native "$T/data"
error "frames of no tree" "call graphs" "$DITRACE" report --frames ops "$T/data"
error "two forms at once" "does not go with" "$DITRACE" report --gaps --side-by-side "$T/data"
# In a terminal, by script(1): the pager gets all of it, and report waits for it to end.
if command -v script >/dev/null; then
	PAGER='sed s/^/paged:/' TERM=dumb script -qec "'$DITRACE' report -n 3 '$T/data'" /dev/null >"$T/tty" </dev/null
	like "a pager on a terminal" "$T/tty" '^paged:.*aten::mul'
	PAGER='sed s/^/paged:/' TERM=dumb script -qec "'$DITRACE' report --pager never -n 3 '$T/data'" /dev/null >"$T/tty" </dev/null
	unlike "none with --pager never" "$T/tty" '^paged:'
	PAGER='sed s/^/paged:/' TERM=dumb script -qec "'$DITRACE' script -n 1 '$T/data'" /dev/null >"$T/tty" </dev/null
	like "script has it, too" "$T/tty" '^paged:.*forward_id'
else
	skip "no script(1) here" 3
fi
done_testing
