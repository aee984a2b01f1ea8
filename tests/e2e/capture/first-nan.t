#!/usr/bin/env bash
# --first-nan finds the op that makes a NaN or an infinity from finite inputs, with its line and its inputs; the program is not
# affected, or is left stopped for a debugger.
. "$(dirname "$0")/../lib.sh"
. "$(dirname "$0")/../attached.sh"
need_tracing

# saved FILE: the captured numbers of each tensor
saved() {
	python3 "$here/storages.py" "$(find "$T/saved" -name "$1.pth")"
}

last_id() {
	sed 's/^{"id":\([0-9]*\),.*/\1/' "$T/events" | sort -n | tail -n 1
}

# ran OPTION... -- PROGRAM ARGUMENT...: like attached, but with ditrace run
ran() {
	local options=()
	while [ "$1" != -- ]; do options+=("$1") && shift; done
	shift
	"$DITRACE" run "${options[@]}" "$PY" "$@" >"$T/out" 2>"$T/err"
	[ $? = "$ends" ]
}

# find_it ran|attached MODE OP LINE-MARK: a run in which it is found
find_it() {
	local how=$1 mode=$2 op=$3 line ends=3
	line=$(grep -n "# $4\$" capture/nan.py | cut -d: -f1)
	rm -rf "$T/saved"
	mkdir "$T/saved"
	cd "$T/saved" || return
	ok "$mode: a run with --first-nan ends with 3" "$how" -o "$T/data" --first-nan -- "$W/capture/nan.py" "$mode"
	cd "$W" || return
	is "$mode: the program's results are the same, bit by bit" "$(cat "$T/out")" "$(untraced capture/nan.py "$mode")"
	like "$mode: the op" "$T/err" "^ditrace: the first NaN or infinity: $op gave [0-9]+ \\+inf, and all that it was given is finite"
	like "$mode: its line" "$T/err" "^    .*nan.py:$line "
	like "$mode: the native stack, from the op" "$T/err" '^    at::_ops::div__?Tensor::call\(.*\(libtorch_cpu'
	like "$mode: to the start of the program" "$T/err" '^    __libc_start_main  \(libc'
	unlike "$mode: without the interpreter" "$T/err" '^    .*  \((lib)?python3[^ ]*\)$'
	like "$mode: said at the end, too" "$T/err" "the first NaN or infinity came from $op, id [0-9]+, at nan.py:$line "
	like "$mode: as the last line" <(tail -n 1 "$T/err") "the first NaN or infinity came from"
	is "$mode: which engine, and why, once" "$(grep -c 'engine is ptrace, since --first-nan' "$T/err")" 1
	unlike "$mode: without a table of times" "$T/err" '^Self %'
	events
	is "$mode: tracing ended there" "$(last_id)" "$(sed -n 's/.* came from .*, id \([0-9]*\), .*/\1/p' "$T/err")"
}

planted() {
	find_it ran forward aten::div.Tensor FORWARD
	is "the inputs of it" "$(saved input)" "1 1 1; 0 0 0"
	is "and its output" "$(saved output)" "inf inf inf"
	find_it attached inplace 'aten::div_.Tensor' INPLACE
	is "inputs, one that it wrote over as it was before" "$(saved input)" "7 7 7; 0 0 0"
	like "and the statistics of that" "$T/err" '^\| +self +\| +False +\| +7 +\| +7 +\|'
	find_it attached backward aten::div.Tensor BACKWARD
	like "the stack of the forward op" "$T/err" 'Python stack of its forward op'
	like "and of the backward" "$T/err" '^    .*nan.py:[0-9]+ backward: y.backward'
}

clean() {
	ok "a run without any" attached -o "$T/data" --first-nan -- capture/nan.py clean
	is "its results are the same, bit by bit" "$(cat "$T/out")" "$(untraced capture/nan.py clean)"
	like "it is said" "$T/err" '^ditrace: no op made a NaN or an infinity of finite inputs'
	like "and what was passed on" "$T/err" 'calls gave such numbers and had been given some; the first: aten::'
	error "another word than hold" 'only --first-nan=hold' "$DITRACE" run --first-nan=stop -o "$T/none" "$PY" capture/nan.py clean
	ok "a run where few calls are chosen" attached -o "$T/data" --first-nan --ops zero_ -- capture/nan.py forward
	like "steps and calls that are not chosen are not judged" "$T/err" 'no op made a NaN'
}

state() {
	awk '/^State/ { print $2 }' "/proc/$1/status"
}

is_seen() {
	"$DITRACE" script "$T/data" 2>/dev/null | grep -q aten::relu
}

held() {
	mkfifo "$T/go"
	rm -f "$T/err" "$T/data" # of the one before
	exec 8<>"$T/go"
	ok "a program runs" begin '^ready' -c 'import sys; from capture import nan; sys.stdin = open(sys.argv.pop()); nan.main()' forward --wait "$T/go"
	(cd "$T" && exec "$DITRACE" attach --first-nan=hold -o "$T/data" "$target" 2>"$T/err") &
	tracer=$!
	ok "it is traced" wait_line "$T/err" 'the engine is ptrace'
	ok "its ops are seen" before_long is_seen
	echo go >&8
	wait "$tracer"
	is "ditrace has ended, with what it found" "$?" 3
	like "how to look at it" "$T/err" "^  look at it: gdb -p $target\$"
	like "and how to let it go" "$T/err" "^  let it run on: kill -CONT $target\$"
	is "the process stands still" "$(state "$target")" T
	is "nobody traces it" "$(awk '/^TracerPid/ { print $2 }' "/proc/$target/status")" 0
	is "it has not gone on" "$(wc -l <"$T/out")" 1
	kill -CONT "$target"
	exec 8>&-
	the_end
	is "it runs on when it is let go, to its end" "$status" 0
	like "with the op's result" "$T/out" 'nan, nan, nan'
}

# from inside of the process, where memory of a device can be read
inside() {
	rm -rf "$T/saved"
	mkdir "$T/saved"
	ends=1
	ok "a device, from outside: another exit status than where nothing is" attached -o "$T/data" --engine ptrace --first-nan -- intervene/device.py --steps 1
	ends=3
	like "nothing more is said than was measured" "$T/err" '^ditrace: no op of those that could be measured made'
	like "and what can" "$T/err" 'hint: memory of a device is measured from inside .*--engine shim'
	cd "$T/saved" || return
	ok "a device, from inside: found" ran --engine shim --first-nan -- "$W/capture/nan.py" device
	like "in the backward" "$T/err" '^ditrace: the first NaN or infinity: aten::div.Tensor gave 1 \+inf, and all that it was given is finite'
	like "at its line" "$T/err" '^    .*nan.py:[0-9]+ device: y.backward'
	is "what it was given" "$(saved input)" "3 3; 0 4"
	like "said at the end, too" <(tail -n 1 "$T/err") "the first NaN or infinity came from aten::div.Tensor, id [0-9]+, at nan.py:"
	rm -rf "$T/saved"
	mkdir "$T/saved"
	cd "$T/saved" || return
	ok "what an operator writes over" ran --engine shim --first-nan -- "$W/capture/nan.py" inplace
	is "as it was before" "$(saved input)" "7 7 7; 0 0 0"
	cd "$W" || return
	ends=0
	ok "none, from inside" ran --engine shim --first-nan -- capture/nan.py clean
	like "said without doubt" "$T/err" '^ditrace: no op made a NaN or an infinity of finite inputs'
	is "the program's results are the same, bit by bit" "$(cat "$T/out")" "$(untraced capture/nan.py clean)"
}

held_child() {
	start env -C "$T" "$DITRACE" run --first-nan=hold -o "$T/data" "$PY" "$W/capture/nan.py" forward >"$T/out" 2>"$T/err"
	ok "run: held" wait_line "$T/err" 'first NaN or infinity came from'
	pid=$(sed -n 's/.*kill -CONT //p' "$T/err")
	is "run: the process stands still" "$(state "$pid")" T
	kill -CONT "$pid"
	finish "$child"
	is "run: its exit status tells that it was found" "$status" 3
}

all() {
	planted
	clean
	held
	inside
}
each_torch forking all
first_torch
held_child
done_testing
