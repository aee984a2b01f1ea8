#!/usr/bin/env bash
# Every marked op shows its own source line; backward nodes point to the line of their forward op.
. "$(dirname "$0")/../lib.sh"
. "$here/attached.sh"
need_tracing

lines() {
	[ "$ENGINE" = bpf ] || [ "$ENGINE" = "$other" ] || in_long || { skip "with another torch, or make test-long" 6; return; }
	ok "the workload runs traced" recorded -- events/lines.py
	ok "the events can be read" events
	ok "every mark is right" "$PY" "$here/compare_lines.py" "$T/events" "$W/events/lines.py"
	"$DITRACE" script "$T/data" >"$T/text"
	like "the line in whose backward Python code runs is told" "$T/text" \
		'^aten::add.Tensor    backward id:[0-9]+ forward_id:[0-9]+ .* (Own\.)?backward: grad = torch.add.*    in backward of .* own: return Own.apply\(x\)'
	"$DITRACE" report --format json "$T/data" >"$T/report"
	ok "the report names a backward op's forward line" python3 -c \
		'import sys; text = open(sys.argv[1]).read(); sys.exit("ThresholdBackward0" not in text or "lines.py" not in text)' "$T/report"
	like "the text of code that is in no file is told" "$T/report" '"return torch.full\(\(2,\), LINE \+ 4\)"'
}

# The text of a cell can be read as long as the program runs.
has_text() {
	"$DITRACE" script "$T/data" 2>/dev/null | grep -q "return x.clamp"
}

# Cells as IPython runs them, here one that $PY can import. Two have the same text.
cells() {
	local site
	of_first_torch || { skip "with another torch, or make test-long" 3; return; }
	site=$(python3 -c 'import importlib.util as i, os; print(os.path.dirname(os.path.dirname(i.find_spec("IPython").origin)))' 2>/dev/null)
	"$PY" -c "import sys; sys.path.append('$site'); import IPython" 2>"$T/err" || { skip "no IPython for $PY: $(tail -n 1 "$T/err")" 3; return; }
	echo "import sys; sys.path.append('$site'); from IPython import start_ipython; start_ipython(['--simple-prompt'])" >"$T/ipython.py"
	printf '%s\n' 'import torch' 'x = torch.full((2,), 3)' 'x = torch.full((2,), 3)' 'def f():' '    return x.clamp(4)' '' 'y = f()' >"$T/cells"
	rm -f "$T/data"
	IPYTHONDIR=$T/ipython trace -- "$PY" "$T/ipython.py" < <(cat "$T/cells" && before_long has_text)
	"$DITRACE" report --sort op --limit 99 --percent-limit 0 "$T/data" >"$T/report"
	like "a cell is named by its number, with its text" "$T/report" ' 1 .* aten::full .* In\[2\]:1 <module>: x = torch.full'
	like "another of the same text by its own" "$T/report" ' 1 .* aten::full .* In\[3\]:1 <module>: x = torch.full'
	like "a function by the cell that defines it" "$T/report" ' 1 .* aten::clamp .* In\[4\]:2 f: return x.clamp'
}

# When the process has ended and cannot be read any more, its code is known from what the probes have copied, and its tensors
# from what is always read of its libraries beforehand. The program goes on once ditrace, which then knows the ops, has recorded
# its first one.
ended() {
	local go
	rm -f "$T/go" "$T/data"
	mkfifo "$T/go"
	exec {go}<>"$T/go"
	start_as tracer "$DITRACE" run --engine "$ENGINE" -o "$T/data" "$PY" told.py <&"$go" >"$T/out" 2>"$T/err"
	ok "$ENGINE: its first op is told" before_long is_told
	kill -STOP "$tracer"
	ok "$ENGINE: ditrace stands still" before_long grep -q '^[0-9]* (ditrace) T' "/proc/$tracer/stat"
	echo >&"$go"
	ok "$ENGINE: the program ends meanwhile" before_long is_ended
	kill -CONT "$tracer"
	finish "$tracer"
	exec {go}>&-
	events
	like "$ENGINE: its last lines are known" "$T/events" '"op":"aten::full",.*"stack":\[\{"file":"<made>","line":304,.*"file":"<made>","line":305,'
	like "$ENGINE: and its tensors" "$T/events" '"op":"aten::full",.*"results":\[[^]]*"shape":\[2\],.*"dtype":"int64".*"requires_grad":false'
	like "$ENGINE: and those of a module that ends with Python" "$T/events" '"op":"aten::threshold",.*"stack":\[\{"file":"[^"]*functional.py","line":[0-9]+,"function":"_threshold"'
	like "$ENGINE: and the schema of a boxed call" "$T/events" '"op":"aten::cat","start_ns":[0-9]*,"end_ns":[0-9]*,"thrown":false,"forward_id":null,"args":\[\{"name":"tensors",.*_ops.py'
}

is_told() {
	"$DITRACE" script "$T/data" 2>/dev/null | grep -q ditrace_test::none
}

is_ended() {
	grep -q ') Z' "/proc/$(sed -n 's/^pid //p' "$T/out")/stat"
}

# Of recomputation alone, and its nodes are not.
recomputed() {
	local ENGINE=shim
	of_first_torch || { skip "with another torch, or make test-long" 2; return; }
	ok "--phase recompute runs" recorded --phase recompute -- events/lines.py
	events
	is "--phase recompute records nothing else" "$(grep -o '"phase":"[a-z]*"' "$T/events" | sort -u)" '"phase":"recompute"'
}

# bpf with each torch, the other engines with one each
both() {
	each_engine lines
	cells
	recomputed
	[ $other = shim ] && ! in_long || ENGINE=shim ended
	[ $other = ptrace ] && ! in_long || ENGINE=bpf ended
	in_long || skip "what ends: by the other engine with the other torch, or make test-long" 7
	other=shim
}

other=ptrace
each_torch forking both
done_testing
