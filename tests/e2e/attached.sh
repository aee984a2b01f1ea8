# Short programs under an engine whose threads stand still: in the short run ditrace is attached to children that have
# PyTorch already, before their first line; under make test-long each is run by ditrace. To be sourced by bash after lib.sh.

. "$here/forked.sh"

# attached OPTION... -- PROGRAM ARGUMENT...: ditrace run OPTION... $PY PROGRAM ARGUMENT..., the program's output to $T/out, that
# of ditrace and its standard error to $T/err; whether both have ended well. With an --engine, the options are those of a
# capture and choose relu, too.
attached() {
	local options=() tracer
	while [ "$1" != -- ]; do options+=("$1") && shift; done
	shift
	may_fork || { "$DITRACE" run "${options[@]}" "$PY" "$@" >"$T/out" 2>"$T/err"; return; }
	rm -f "$T/word"
	: >"$T/out" >"$T/err"
	forked "$T/out" "$T/out.err" go "$W/at_word.py" "$T/word" "$@" || return
	start_as tracer "$DITRACE" attach "${options[@]}" "$REPLY" >>"$T/out" 2>"$T/err"
	# Both are said when all probes are in the program.
	before_long grep -qE '^ditrace: (the engine is ptrace|saved .*\.relu/)' "$T/err" || kill -9 "$REPLY" "$tracer"
	touch "$T/word"
	finish "$tracer"
	cat "$T/out.err" >>"$T/err"
	answered ended && [ "$status,$REPLY" = 0,0 ]
}
