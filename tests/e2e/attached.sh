# Short programs under an engine that stops threads. In the short run ditrace attaches to forked children, which have PyTorch
# loaded already, before their first line; under make test-long ditrace runs each. To be sourced by bash after lib.sh.

. "$here/forked.sh"

# Said once all probes are in place; ptrace's are before any op is recorded.
are_in_place() {
	grep -qE '^ditrace: (the engine is ptrace|attached to .* engine (shim|bpf)|saved .*\.relu/)' "$T/err" ||
		case " $* " in *' --engine ptrace '*) has_relu ;; *) false ;; esac
}

# attached OPTION... -- PROGRAM ARGUMENT...: ditrace run OPTION... $PY PROGRAM ARGUMENT..., with the program's output in $T/out,
# that of ditrace and its standard error in $T/err; succeeds if both exit with 0, ditrace with $ends if that is set. Captures
# by an engine that is named must choose relu, too.
attached() {
	local options=() tracer
	while [ "$1" != -- ]; do options+=("$1") && shift; done
	shift
	may_fork || { "$DITRACE" run "${options[@]}" "$PY" "$@" >"$T/out" 2>"$T/err"; [ $? = "${ends:-0}" ]; return; }
	rm -f "$T/word" "$T/data"
	: >"$T/out" >"$T/err"
	forked "$T/out" "$T/out.err" go "$W/at_word.py" "$T/word" "$@" || return
	start_as tracer "$DITRACE" attach "${options[@]}" "$REPLY" >>"$T/out" 2>"$T/err"
	before_long are_in_place "${options[@]}" || kill -9 "$forked" "$tracer" 2>/dev/null
	touch "$T/word"
	finish "$tracer"
	cat "$T/out.err" >>"$T/err"
	answered ended && [ "$status,$REPLY" = "${ends:-0},0" ]
}

# recorded OPTION... -- PROGRAM ARGUMENT...: the same by $ENGINE, into $T/data
recorded() {
	attached --engine "$ENGINE" -o "$T/data" "$@"
}
