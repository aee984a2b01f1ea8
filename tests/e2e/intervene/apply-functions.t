#!/usr/bin/env bash
# --apply, --fallback and --compare on functions that no mode intercepts: those of other modules, and methods, wrapped in their
# modules and classes while ditrace is there.
. "$(dirname "$0")/../lib.sh"
. "$(dirname "$0")/../forked.sh"
WARM=torch.fx.experimental.symbolic_shapes # imported by gradients of what was given
need_tracing

# changed OPTION... -- PROGRAM ARGUMENT...: in an empty folder of $T; the program's output in $T/out, ditrace's in $T/err
changed() {
	rm -rf "$T/in" && mkdir "$T/in"
	(cd "$T/in" && ditraced "$@")
}

# the numbers of a run, without the lines on whether names are bound as before: while ditrace is there they are not
numbers() {
	grep -v '^bound' "$1"
}

wrapped() {
	local all="others_pkg.mod.nest,others_pkg.Scaler.twice,others_pkg.Scaler.thrice,others_pkg.Square.apply"
	alone intervene/others.py >"$T/plain"
	(cd "$T" && "$DITRACE" run --fallback "$all" --apply others_pkg.Scaler.forward:measure_op_time --apply '__main__.own:dump_op_args:x.numel() == 3' "$PY" "$W/intervene/others.py" >out 2>err)
	is "nests, keywords and gradients are as before" "$(numbers "$T/out")" "$(numbers "$T/plain")"
	is "by any name that it has" "$(sed -nE 's/^ +([0-9]+) +others_pkg.mod.nest *$/\1/p' "$T/err")" 4
	is "static and class methods, and inherited ones" "$(count_of fallback)" 10
	like "of the program itself" "$T/err" '^__main__.own    forward_id: [0-9]+$'
	like "by the names of its arguments" "$T/err" '^ditrace: print: 2 calls of 1 function printed, 0 left alone'
	is "a method" "$(count_of time)" 2
	changed --apply 'layer_norm:dump_op_args:eps < 0.001' --apply 'layer_norm:measure_op_time:eps > 0.001' -- "$W/intervene/device.py" --steps 1
	is "by those that are not given, too" "$(count_of print) $(count_of time)" "1 0"
	changed --compare others_pkg.wrong,others_pkg.square,others_pkg.mod.nest -- "$W/intervene/others.py"
	is "compared: the one that is wrong on the device" "$(grep ' WRONG ' "$T/err" | cut -d' ' -f1)" others_pkg.wrong
	is "and what calls are compared" "$(count_of compare)" 8
	changed --compare all --apply others_pkg.mod.nest:dump_op_args -- "$W/intervene/others.py"
	like "the functions that it calls are met in it" "$T/err" '^ditrace: compare: [1-9]'
	is "and it, too" "$(count_of print)" 4
	changed --fallback others_pkg.boxed -- "$W/intervene/others.py"
	like "what cannot be looked into is left alone" "$T/err" '2  others_pkg.boxed +gives a Box, which cannot be looked into'
	is "and as it was" "$(numbers "$T/out")" "$(numbers "$T/plain")"
	OP_DTYPE_CAST_DICT="float32->float64" changed --apply others_pkg.square:op_capture --apply others_pkg.mod.nest:op_capture \
		--apply others_pkg.Scaler.twice:overflow_check --apply others_pkg.Scaler.thrice:cast_dtype --apply 'others_pkg.wrong:autocompare:x.numel() == 3' -- "$W/intervene/others.py"
	is "all other features, too" "$(count_of capture) $(count_of overflow) $(count_of cast) $(count_of compare)" "2 2 2 2"
	like "their tables have the names" "$T/err" '^\| +others_pkg.Scaler.twice output\[0\] +\| +False +\|'
	like "what cannot be saved is not counted as saved" "$T/err" '4  others_pkg.mod.nest +cannot be saved'
	like "which is said, with why" "$T/err" '^ditrace: not saved: others_pkg.mod.nest cannot be saved: argument 0'
	changed --fallback others_pkg.none,no_such_pkg.f,others_pkg.Box -- "$W/intervene/others.py"
	like "a name that is none" "$T/err" '^ditrace: others_pkg.none was not changed: others_pkg has no none$'
	like "a module that was not imported" "$T/err" '^ditrace: no_such_pkg.f was not changed: no_such_pkg was not imported$'
	like "a class" "$T/err" '^ditrace: others_pkg.Box was not changed: it is a class'
}

is_out() {
	! "$DITRACE" ctl "$target" status 2>&1 | grep -q '^functions'
}

is_bound_again() {
	[ "$(grep '^bound' "$T/loop" | tail -n 1)" = "bound as before" ]
}

attached() {
	alone intervene/others.py --device cpu >"$T/plain"
	start "$PY" intervene/others.py --device cpu --loop >"$T/loop" 2>"$T/loop.err"
	target=$child
	wait_line "$T/loop" '^3 '
	start "$DITRACE" attach "$target" --cast 'float32->float64' --ops others_pkg.nest --apply others_pkg.Scaler.twice:dump_op_args 2>"$T/err"
	ok "attach wraps what was bound before" wait_line "$T/err" '^others_pkg.Scaler.twice    forward_id'
	ok "by ctl more" "$DITRACE" ctl "$target" print add __main__.own
	ok "which is met" wait_line "$T/err" '^__main__.own    forward_id'
	kill -INT "$child"
	wait "$child"
	like "casts of it are told" "$T/err" '^\| others_pkg.nest \| +input\[0\]\[0\] +\| torch.float32 -> torch.float64'
	start "$DITRACE" attach "$target" --apply others_pkg.mod.nest:dump_op_args 2>"$T/err"
	ok "and again" wait_line "$T/err" '^others_pkg.mod.nest    forward_id'
	kill -9 "$child"
	wait "$child" 2>/dev/null
	ok "a killed ditrace is gone" before_long is_out
	ok "and what it had wrapped" before_long is_bound_again
	kill -TERM "$target"
	finish "$target"
	is "all names are bound to what they were" "$(tail -n 1 "$T/loop")" "bound as before"
	ok "the first steps are those of a plain run" cmp <(head -n 2 "$T/loop") <(head -n 2 "$T/plain")
	ok "it went on" [ "$(numbers "$T/loop" | wc -l)" -gt 4 ]
}

functions() {
	wrapped
	attached
}
each_torch forking functions
done_testing
