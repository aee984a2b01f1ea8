#!/usr/bin/env bash
# attach to a running process and leave it: after a time, after a number of ops, by Ctrl-C, with it.
. "$(dirname "$0")/lib.sh"
need_tracing

lines_of() {
	"$DITRACE" script --format jsonl "$1" | wc -l
}

attach() {
	ok "a program runs" start_busy
	ok "attach for a second" "$DITRACE" attach "$child" --for 1s -o "$T/a"
	ok "ops were recorded" [ "$(lines_of "$T/a")" -ge 100 ]
	ok "attach for a number of ops" "$DITRACE" attach "$child" --count 1000 -o "$T/b"
	ok "so many were recorded" [ "$(lines_of "$T/b")" -ge 1000 ]
	ok "no probe is left in the code" python3 "$here/code_unchanged.py" "$child"

	for signal in INT TERM; do
		start_as tracer env --default-signal="$signal" "$DITRACE" attach "$child" -o "$T/c" >"$T/c.out" 2>&1
		sleep 3
		kill "-$signal" "$tracer"
		wait "$tracer"
		ok "SIG$signal ends it and the table is shown" found "$T/c.out" 'aten::(linear|addmm|relu|sum)'
		ok "the file is whole" "$DITRACE" script --format jsonl "$T/c"
	done

	start_as tracer "$DITRACE" attach "$child" --for 3s -o "$T/d" >"$T/d.out" 2>&1
	ok "two at once" "$DITRACE" attach "$child" --for 1s -o "$T/e"
	wait "$tracer"
	is "both end well" $? 0
	ok "both recorded" [ "$(lines_of "$T/d")" -ge 100 -a "$(lines_of "$T/e")" -ge 100 ]

	start_as tracer "$DITRACE" attach --engine bpf "$child" -o "$T/g" >"$T/g.out" 2>&1
	sleep 3
	kill -9 "$(ps --ppid "$tracer" -o pid=,comm= | awk '$2 == "ditrace-probes" { print $1 }')"
	wait "$tracer"
	is "without its process for probes it fails" $? 1
	like "and names that" "$T/g.out" '^ditrace: .*ditrace-probes.* was killed'
	like "and what became of the program" "$T/g.out" '^  hint: the traced processes run on'
	ok "which runs on" kill -0 "$child"

	start_as tracer "$DITRACE" attach "$child" -o "$T/f" >"$T/f.out" 2>&1
	sleep 3
	stop_busy
	is "the program ends well" "$status $(tail -n 1 "$T/busy")" "0 ended well True"
	wait "$tracer"
	is "ditrace ends with it" $? 0
	ok "and shows the table" found "$T/f.out" 'aten::(linear|addmm|relu|sum)'
}
each_torch attach
done_testing
