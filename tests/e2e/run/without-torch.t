#!/usr/bin/env bash
# Programs without PyTorch, or that import it late.
. "$(dirname "$0")/../lib.sh"
need_tracing

"$DITRACE" run -o "$T/data" -- /bin/sh -c 'echo hello; exit 3' >"$T/out" 2>"$T/err"
is "run leaves a program without PyTorch its exit status" $? 3
is "and its output" "$(cat "$T/out")" hello
like "and says that there was no PyTorch" "$T/err" '^ditrace: .*[Tt]orch'

first_torch
echo 'int main(void) { return 4; }' >"$T/static.c"
# ends_as_alone WHAT COMPILER...: a program without glibc
ends_as_alone() {
	if ! "${@:2}" -o "$T/alone" "$T/static.c" 2>"$T/err"; then
		skip "no $1 can be built: $(head -n 1 "$T/err")" 2
		return
	fi
	"$DITRACE" run -o "$T/data" -- "$T/alone" >"$T/out" 2>"$T/err"
	is "a $1 keeps its exit status" $? 4
	like "and ditrace says that there was no PyTorch" "$T/err" '^ditrace: .*[Tt]orch'
}
ends_as_alone "statically linked program" gcc -static
ends_as_alone "program with another C library" musl-gcc

# waiting PID: start an attach --wait as $tracer, and return once it waits
waiting() {
	start_as tracer env --default-signal=INT "$DITRACE" attach "$1" --wait -o "$T/data" 2>"$T/err"
	wait_line "$T/err" 'waiting for process'
}

seen() {
	[ "$("$DITRACE" script --format jsonl "$T/data" 2>/dev/null | grep -c '"op": *"aten::full"')" -ge 15 ]
}

waits() {
	local go late tracer
	mkfifo "$T/go"
	exec {go}<>"$T/go"
	start_as late "$PY" late_import.py told <&"$go" >"$T/late"
	wait_line "$T/late" '^pid '
	ok "attach --wait waits until torch is there" waiting "$late"
	echo >&"$go"
	ok "its ops are seen then" before_long seen
	echo >&"$go"
	finish "$tracer"
	is "and ends with the program" "$status" 0
	exec {go}>&-
	finish "$late"
	is "the program ended well" "$status $(tail -n 1 "$T/late")" "0 done"
	start sleep 36000
	ok "of another it waits" waiting "$child"
	kill -INT "$tracer"
	finish "$tracer"
	ok "until Ctrl-C" [ "$status" -lt 128 ]
	kill "$child"
}

# ditrace does not run while the program imports torch and calls its first ops.
misses() {
	missed_by bpf '^ditrace: process [0-9]+ had imported PyTorch before its probes were in'
	missed_by shim '^ditrace: process [0-9]+ is not traced: ditrace, stopped or without a processor'
}

# missed_by ENGINE REGEX: what is told
missed_by() {
	local go tracer
	rm -f "$T/go"
	mkfifo "$T/go"
	exec {go}<>"$T/go"
	start_as tracer "$DITRACE" run --engine "$1" -o "$T/data" -- "$PY" late_import.py told <&"$go" >"$T/late" 2>"$T/err"
	wait_line "$T/late" '^pid '
	kill -STOP "$tracer"
	echo >&"$go"
	wait_line "$T/late" '^ran'
	kill -CONT "$tracer"
	ok "ops that ran while ditrace did not are told of, engine $1" wait_line "$T/err" "$2"
	echo >&"$go"
	finish "$tracer"
	exec {go}>&-
}
each_torch waits
each_torch misses
done_testing
