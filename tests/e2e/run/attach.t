#!/usr/bin/env bash
# attach to a running process, and detach: after a time, after a number of ops, by Ctrl-C, at its end.
. "$(dirname "$0")/../lib.sh"
need_tracing

lines_of() {
	"$DITRACE" script --format jsonl "$1" | wc -l
}

recorded() {
	[ "$("$DITRACE" script --format jsonl "$1" 2>/dev/null | head -n 100 | wc -l)" = 100 ]
}

# a_second: attach for one, again while the program, on a busy machine, does little in it
a_second() {
	local end=$((SECONDS + PATIENCE))
	until "$DITRACE" attach -p "$child" --for 1s -o "$T/a" || return 1 && recorded "$T/a"; do
		[ $SECONDS -lt $end ] || return 1
	done
}

# begin COMMAND...: start an attach as $tracer, and wait until it has recorded into $T/c
begin() {
	rm -f "$T/c"
	start_as tracer "$@" -o "$T/c" >"$T/c.out" 2>&1
	ok "ops are recorded" before_long recorded "$T/c"
}

ended_by() {
	kill "-$1" "$tracer"
	wait "$tracer"
	is "SIG$1 ends it well" $? 0
	ok "and the table is shown" found "$T/c.out" 'aten::(linear|addmm|relu|sum)'
	ok "the file is whole" "$DITRACE" script --format jsonl "$T/c"
}

attach() {
	ok "a program runs" start_paced
	ok "attach for a second, which has ops" a_second
	ok "attach for a number of ops" "$DITRACE" attach "$child" --count 1000 -o "$T/b"
	ok "so many were recorded" [ "$(lines_of "$T/b")" -ge 1000 ]
	"$DITRACE" attach --engine bpf "$child" --count 20 -o "$T/e" >"$T/e.out" 2>&1
	like "attach for a few ops" "$T/e.out" '^ditrace: traced 1 thread, 20 ops'
	unlike "of which none was missed" "$T/e.out" 'ops were seen'
	ok "no probe is left in the code" python3 "$here/code_unchanged.py" "$child"

	begin env --default-signal=INT "$DITRACE" attach --engine bpf "$child"
	ok "another at once" "$DITRACE" attach --engine bpf "$child" --count 1000 -o "$T/d"
	ok "which recorded" [ "$(lines_of "$T/d")" -ge 1000 ]
	ended_by INT
	begin env --default-signal=TERM "$DITRACE" attach "$child"
	like "that a library is loaded is told" "$T/c.out" "^ditrace: engine shim: loads a library into process $child; --engine bpf does not$"
	error "beside which there is no other" 'is recorded by another ditrace' "$DITRACE" attach "$child" --count 1000 -o "$T/d"
	ended_by TERM

	begin "$DITRACE" attach --engine bpf "$child"
	kill -9 "$(ps --ppid "$tracer" -o pid=,comm= | awk '$2 == "ditrace-probes" { print $1 }')"
	wait "$tracer"
	is "without its process for probes it fails" $? 1
	like "and names that" "$T/c.out" '^ditrace: .*ditrace-probes.* was killed'
	like "and what became of the program" "$T/c.out" '^  hint: the traced processes run on'
	ok "which runs on" kill -0 "$child"

	begin "$DITRACE" attach "$child"
	stop_busy
	is "the program ends well" "$status $(tail -n 1 "$T/busy")" "0 ended well True"
	wait "$tracer"
	is "ditrace ends with it" $? 0
	ok "and shows the table" found "$T/c.out" 'aten::(linear|addmm|relu|sum)'
}
each_torch attach
done_testing
