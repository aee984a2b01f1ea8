#!/usr/bin/env bash
# A low limit on open files: a soft one is raised for ditrace and not for the program, a hard one is the reason that is told.
. "$(dirname "$0")/../lib.sh"
need_tracing

mine='import resource, torch; torch.add(torch.ones(2), 1); print(resource.getrlimit(resource.RLIMIT_NOFILE)[0])'

# The half of the ways with each torch
soft() {
	local options ways=("--engine bpf -o $T/data" "--overflow" "--engine ptrace -o $T/data" "--engine shim -o $T/data") half=0
	of_first_torch || half=2
	in_long || { ways=("${ways[@]:half:2}") && skip "other ways: with the other torch, or make test-long"; }
	for options in "${ways[@]}"; do
		# shellcheck disable=SC2086 # words
		(ulimit -S -n 12 && exec "$DITRACE" run $options -- "$PY" -c "$mine") >"$T/out" 2>"$T/err"
		is "run ${options% -o*}: the program keeps its limit" "$? $(cat "$T/out")" "0 12"
		ok "and is seen" grep -qE '^ditrace: (traced 1 thread|overflow: [1-9])' "$T/err"
	done
}

# told COMMAND...: at each limit that is too low the reason is that, and nothing else is told
told() {
	local n
	for n in $(seq 4 63); do
		(ulimit -n "$n" && exec "$DITRACE" "$@") >"$T/out" 2>"$T/err" && { echo "$n open files are enough" && return 1; }
		same "$(cat "$T/err")" "$(printf '%s\n' "ditrace: too many open files: $n may be open, and 64 are needed" "  hint: raise the limit on open files: ulimit -n 65536")" || return
	done
}

hard() {
	start sleep 36000
	ok "run" told run -o "$T/data" -- true
	ok "run --fallback" told run --fallback add -- true
	ok "attach" told attach "$child" -o "$T/data"
	ok "record" told record -o "$T/data" -- true
	ok "stack" told stack "$child"
	ok "what was attached to runs on" kill -0 "$child"
	"$DITRACE" run --engine shim -o "$T/data" -- "$PY" -c "$mine" >"$T/out" 2>&1
	(ulimit -n 4 && exec "$DITRACE" report "$T/data") 2>"$T/err"
	like "report: it is not the permissions" "$T/err" '^  hint: raise the limit on open files'
	(ulimit -n 64 && exec "$DITRACE" run -o "$T/data" -- "$PY" -c "$mine") >"$T/out" 2>"$T/err"
	is "64 are enough for a program" "$? $(cat "$T/out")" "0 64"
}

each_torch soft
first_torch
hard
done_testing
