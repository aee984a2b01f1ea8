#!/usr/bin/env bash
# The engine shim, a library inside what is started: it needs no privilege, and sees what the engine bpf
# sees as root.
. "$(dirname "$0")/lib.sh"
need_tracing
command -v setpriv >/dev/null || skip_all "no setpriv to become another user with"
export HOME=/tmp TMPDIR=/tmp

# both NAME LEAST PROGRAM...: traced by both engines
both() {
	local name=$1 least=$2
	shift 2
	ok "$name under bpf" "$DITRACE" run --engine bpf -o "$T/bpf" "$@"
	ok "$name with the library inside" "$DITRACE" run --engine shim -o "$T/shim" "$@"
	"$DITRACE" script --format jsonl "$T/bpf" >"$T/bpf.jsonl"
	"$DITRACE" script --format jsonl "$T/shim" >"$T/shim.jsonl"
	ok "$name: the same events" python3 "$here/compare_engines.py" --observed --least "$least" "$T/bpf.jsonl" "$T/shim.jsonl"
}

# As a user without capabilities; where that one may not read the Python, with the right to read files.
plain() {
	cp "$DITRACE" "$T/ditrace"
	chmod 755 "$base" "$T" "$T/ditrace"
	mkdir -m 777 "$T/open"
	caps=(--inh-caps=-all)
	as_user "$PY" -c 'import torch' 2>/dev/null || caps=({--inh-caps,--ambient-caps}=-all,+dac_read_search)
	if ! as_user "$PY" -c 'import torch' 2>"$T/err"; then
		skip "a plain user cannot run it: $(tail -n 1 "$T/err")" 2
		return
	fi
	ok "a plain user can" as_user "$T/ditrace" run --engine shim -o "$T/open/data" "$PY" train.py --steps 2
	events "$T/open/data"
	ok "and sees the ops" grep -q '"op": *"AddmmBackward0"' "$T/events"
}

as_user() {
	setpriv --reuid=65534 --regid=65534 --clear-groups "${caps[@]}" /usr/bin/env "$@"
}

losses() {
	grep -v '^pid ' "$1"
}

# killed OPTIONS...: killed in the middle, ditrace leaves a training that notices nothing.
killed() {
	local tracer pid
	start "$DITRACE" run --engine shim "$@" -o "$T/killed" "$PY" train.py --steps 150 >"$T/long" 2>"$T/long.err"
	tracer=$child
	wait_line "$T/long" '^3 '
	kill -9 "$tracer"
	finish "$tracer"
	pid=$(sed -n 's/^pid //p' "$T/long")
	children+=("$pid")
	ok "the training outlives a killed ditrace${*:+, $*}" wait_line "$T/long" '^149 '
	ok "with the losses of an untraced one" cmp <(losses "$T/long") <(losses "$T/untraced")
}

shim() {
	both "the ops" 10000 "$PY" ops.py
	sed '0,/"dtype":"float32"/s//"dtype":"float64"/' "$T/shim.jsonl" >"$T/other.jsonl"
	ok "a single other dtype would be noticed" not python3 "$here/compare_engines.py" --observed "$T/bpf.jsonl" "$T/other.jsonl"
	both "a training" 5000 "$PY" train.py --steps 5
	both "ops that throw" 100 "$PY" throws.py 500
	both "boxed calls" 20 "$PY" torchops.py
	both "threads" 1000 "$PY" threads.py 50
	both "autograd functions" 1000 "$PY" customfn.py
	both "a late import" 100 "$PY" late_import.py
	plain
	"$PY" train.py --steps 150 >"$T/untraced" 2>/dev/null
	killed
	killed --stats
}
each_torch shim
ok "a program without PyTorch notices nothing" [ "$("$DITRACE" run --engine shim -o "$base/none" sh -c 'cat /proc/self/comm' 2>/dev/null)" = cat ]
done_testing
