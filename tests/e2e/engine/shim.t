#!/usr/bin/env bash
# The engine shim, a library inside a program started by ditrace: it needs no privileges, and sees what the engine bpf sees as
# root.
. "$(dirname "$0")/../lib.sh"
need_tracing
how_many THROWN 100 500
command -v setpriv >/dev/null || skip_all "no setpriv to become another user with"
home_of 65534
export HOME=$home TMPDIR=/tmp

# by_both PROGRAM...: one process that runs them in turn, traced with both engines
by_both() {
	local engine names=("${@%% *}")
	ok "the programs run under bpf" "$DITRACE" run --engine bpf -o "$T/open/bpf" "$PY" in_turn.py "$@"
	ok "and under shim${as[0]:+ as a plain user}" "${as[@]}" "$T/ditrace" run --engine shim -o "$T/open/shim" "$PY" in_turn.py "$@"
	for engine in bpf shim; do
		"$DITRACE" script --format jsonl "$T/open/$engine" >"$T/$engine.jsonl"
		ok "each has run" python3 "$here/split_at_marks.py" "$T/$engine.jsonl" "$T/$engine" "${names[@]%.py}"
	done
}

# same_events NAME LEAST PROGRAM
same_events() {
	ok "$1: the same events" python3 "$here/compare_engines.py" --observed --least "$2" "$T/bpf.$3.jsonl" "$T/shim.$3.jsonl"
}

may_read() {
	as_user "$PY" -c 'import importlib.util as u; open(u.find_spec("torch").submodule_search_locations[0] + "/lib/libtorch_cpu.so").close()'
}

# as: the command to become a user without capabilities; if that user may not read the Python, with the capability to read
# files.
plain() {
	cp "$DITRACE" "$T/ditrace"
	chmod 755 "$base" "$T" "$T/ditrace"
	mkdir -m 777 "$T/open"
	as=(as_user) caps=(--inh-caps=-all)
	may_read 2>/dev/null || caps=({--inh-caps,--ambient-caps}=-all,+dac_read_search)
	may_read 2>"$T/err" || { skip "a plain user cannot run it: $(tail -n 1 "$T/err")" && as=(); }
}

as_user() {
	setpriv --reuid=65534 --regid=65534 --clear-groups "${caps[@]}" /usr/bin/env "$@"
}

# killed OPTIONS...: ditrace is killed in the middle, which does not affect the training
killed() {
	local tracer pid
	start "$DITRACE" run --engine shim "$@" -o "$T/killed" "$PY" train.py --steps 100 >"$T/long" 2>"$T/long.err"
	tracer=$child
	wait_line "$T/long" '^3 '
	kill -9 "$tracer"
	finish "$tracer"
	pid=$(sed -n 's/^pid //p' "$T/long")
	children+=("$pid")
	ok "the training outlives a killed ditrace${*:+, $*}" wait_line "$T/long" '^99 '
	ok "with the losses of an untraced one" same_losses "$T/long"
}

# late_for_new: the first thread of ditrace stands still while the program calls an operator of its own and ends right after.
late_for_new() {
	"$DITRACE" run --engine shim -o "$T/data" "$PY" ends_at_once.py 2>"$T/err"
	events
	like "an operator that ends with the program has its schema" "$T/events" '"op":"ditrace_test::text".*"name":"b"'
}

# ended PID: it has, and its parent does not know yet
ended() {
	grep -q '^State:.Z' "/proc/$1/status"
}

# unread: all of ditrace stands still from a moment on until the program has ended, with code that called no op before
unread() {
	local tracer pid
	start "$DITRACE" run --engine shim -o "$T/unread" "$PY" in_turn.py "train.py --steps 6" compiled.py >"$T/out" 2>"$T/err"
	tracer=$child
	wait_line "$T/out" '^0 '
	kill -STOP "$tracer"
	pid=$(sed -n 's/^pid //p' "$T/out")
	before_long ended "$pid"
	kill -CONT "$tracer"
	finish "$tracer"
	"$DITRACE" script --format jsonl "$T/unread" >"$T/events"
	ok "ops that were read after the end" [ "$(grep -c '/compiled.py"' "$T/events")" -gt 20 ]
	is "have all their lines" "$(grep -c '"function":"?"' "$T/events")" 0
}

# Known of PyTorch 2.11 and 2.13
has_compile_times() { printf '%s\n' 2.11 "$TORCH" | sort -CV; }

shim() {
	plain
	by_both "late_import.py 1" ops.py "train.py --steps 2" "throws.py $THROWN" torchops.py "threads.py 50" customfn.py compiled.py
	same_events "the ops" 10000 ops
	sed '0,/"dtype":"float32"/s//"dtype":"float64"/' "$T/shim.torchops.jsonl" >"$T/other.jsonl"
	ok "a single other dtype would be noticed" not python3 "$here/compare_engines.py" --observed "$T/bpf.torchops.jsonl" "$T/other.jsonl"
	same_events "a training" 2000 train
	same_events "ops that throw" 100 throws
	same_events "boxed calls" 20 torchops
	same_events "threads" 1000 threads
	same_events "autograd functions" 1000 customfn
	same_events "a compiled model" 200 compiled
	if has_compile_times; then
		ok "its compilation is told apart" [ "$(grep -c '"depth":0.*"phase":"compile","op":"dynamo::compile_forward"' "$T/shim.compiled.jsonl")" = 1 ]
	else
		skip "this PyTorch does not tell when it compiles"
	fi
	same_events "a late import" 100 late_import
	late_for_new
	unread
	killed
	if of_first_torch; then killed --stats; else skip "one with --stats was killed with another torch: make test-long" 2; fi
}
each_torch shim
ok "a program without PyTorch notices nothing" [ "$("$DITRACE" run --engine shim -o "$base/none" sh -c 'cat /proc/self/comm' 2>/dev/null)" = cat ]
done_testing
