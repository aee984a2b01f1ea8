#!/usr/bin/env bash
# Threads and modes of the program's own next to those of attach --cast, --compare and others: modes entered before, during and
# after, on threads old and new, keep their order and results; threads that cannot be changed are reported.
. "$(dirname "$0")/../lib.sh"
. "$(dirname "$0")/../forked.sh"
need_tracing

# changing OPTION...: a ditrace that changes functions of the target, in $tracer; some thread has met it
changing() {
	start "$DITRACE" attach "$target" "$@" 2>"$T/err"
	tracer=$child
	before_long status '^threads: [1-9][0-9]* entered'
}

# status REGEX: whether ctl prints it
status() {
	"$DITRACE" ctl "$target" status >"$T/status" 2>&1
	grep -qE "$1" "$T/status"
}

# further: each thread has left and re-entered its modes
further() {
	local name n
	for name in main other new; do
		n=$(grep -c "^$name" "$T/out")
		before_long more_than "$name" $((n + 25)) && continue
		echo "$name stands still"
		tail -n 3 "$T/out.err"
		"$DITRACE" stack "$target"
		return 1
	done
}

more_than() {
	[ "$(grep -c "^$1" "$T/out")" -gt "$2" ]
}

leave() {
	kill -INT "$tracer"
	wait "$tracer"
}

# the_same NAME: as far as both got
the_same() {
	cmp <(grep "^$1 " "$T/out" | head -n "$(grep -c "^$1 " "$T/plain")") <(grep "^$1 " "$T/plain" | head -n "$(grep -c "^$1 " "$T/out")")
}

modes() {
	local option name
	begin '^new 25 ' intervene/entering.py
	for option in '--cast float32->float64 --ops relu' '--cast float32->float64 --ops relu --level aten' '--compare all' \
		'--fallback-all --level aten'; do
		# shellcheck disable=SC2086
		changing $option
		ok "$option: all threads go on" further
		ok "without it, too" leave
		case $option in --cast*) ok "three kinds of threads were changed" [ "$(count_of cast | tr -d ,)" -ge 12 ] ;; esac
	done
	ok "no ditrace: all threads go on" further
	kill -TERM "$target"
	the_end
	is "the program ends well" "$status" 0
	alone intervene/entering.py --steps $((($(tail -n 50 "$T/out" | cut -d' ' -f2 | sort -n | tail -n 1) / 20 + 1) * 20)) >"$T/plain"
	for name in main other new; do
		ok "the results of $name, what its modes saw and in which order are as they were" the_same $name
	done
	is "and nothing is left" "$(grep '^modes' "$T/out")" "modes of main 0"
}

budgets() {
	begin '^other 5 ' intervene/switched.py
	changing --compare all --budget 100%
	like "a budget is told" "$T/status" '^functions: compare +all, budget 100%$'
	ok "calls are compared" wait_line "$T/out" "^main $(($(grep -c '^main' "$T/out") + 20)) "
	ok "it is changed while the job runs" "$DITRACE" ctl "$target" compare budget 0.001%
	ok "which is told" status '^functions: compare +all, budget 0.001%$'
	error "no share" 'is no share of the time' "$DITRACE" ctl "$target" compare budget 10
	ok "nor taken" status '^functions: compare +all, budget 0.001%$'
	ok "both threads go on" wait_line "$T/out" "^main $(($(grep -c '^main' "$T/out") + 20)) "
	ok "and are left" leave
	like "calls were left out for it" "$T/err" ' torch.nn.functional.linear +is beyond the budget'
	like "others compared" "$T/err" '^ditrace: compare: (all|none of) [1-9]'
	changing --level aten --overflow --ops relu
	ok "operators are chosen while the job runs" "$DITRACE" ctl "$target" fallback add aten::relu
	ok "by their names" status '^functions: fallback +aten::relu$'
	ok "both threads go on with them" wait_line "$T/out" "^main $(($(grep -c '^main' "$T/out") + 20)) "
	ok "and are left again" leave
	like "which are told of" "$T/err" ' aten::relu +is on the CPU'
	kill -TERM "$target"
	the_end
}

outside() {
	begin '^ready' intervene/outside.py
	changing --fallback add
	ok "a thread that Python does not know is told of" before_long status '^threads: 1 entered, 1 without Python$'
	leave
	like "in the summary, too" "$T/err" '^ditrace: 1 thread ran ops without Python, where nothing was changed$'
	unlike "without those that were changed" "$T/err" '^ditrace: .* entered'
	like "its scripted functions with what to do about them" "$T/err" '^  hint: .*PYTORCH_JIT=0'
	kill -TERM "$target"
	the_end
	ditraced --fallback-all -- intervene/left_alone.py scripted
	like "a scripted function is left alone" "$T/err" ' call: 1 scripted function$'
	unlike "what it calls is not seen" "$T/err" ' torch.tanh '
	PYTORCH_JIT=0 "$DITRACE" run --fallback-all "$PY" intervene/left_alone.py scripted >/dev/null 2>"$T/err"
	like "with that it is" "$T/err" ' torch.tanh +is on the CPU'
	unlike "and there is no such function" "$T/err" 'scripted function'
}

# from_now NAME BEFORE AFTER: the threads of that name that start from now on have so many modes
from_now() {
	n=$(($(wc -l <"$T/out") + 2))
	before_long some_like "$1" && ! tail -n +$n "$T/out" | grep "^$1 " | grep -v "^$1 $2 $3$"
}

some_like() {
	[ "$(tail -n +$n "$T/out" | grep -c "^$1 ")" -gt 5 ]
}

# Threads that Python's module threading does not know.
others() {
	local level n program
	ok "C that starts threads" gcc -shared -fPIC -o "$T/c_threads.so" intervene/c_threads.c -lpthread
	for level in torch aten; do
		program=(intervene/c_threads.py "$T/c_threads.so")
		if [ $level = aten ] && may_fork; then
			begin '^pid ' "${program[@]}"
			start_as tracer "$DITRACE" attach "$target" --cast 'float32->float64' --ops add --level $level 2>"$T/err"
		else
			start_as tracer "$DITRACE" run --cast 'float32->float64' --ops add --level $level "$PY" "${program[@]}" >"$T/out" 2>"$T/err"
		fi
		ok "$level: one of C is entered at its first operator" wait_line "$T/out" '^c 0 1$'
		target=$(sed -n 's/^pid //p' "$T/out")
		children+=("$target")
		ok "and so is each, and may be waited for with the GIL" from_now c 0 1
		ok "one of _thread from its start" from_now bare 1 1
		ok "they are told of" before_long status '^threads: [1-9][0-9]* entered$'
		kill -9 "$tracer"
		finish "$tracer"
		ok "a killed ditrace leaves what starts threads as it was" wait_line "$T/out" '^starts True$'
		ok "no thread is entered any more" from_now bare 0 0
		ok "of C neither" from_now c 0 0
		kill -TERM "$target"
		ok "nor is the main one" wait_line "$T/out" '^modes of main 0$'
	done
	! may_fork || answered ended
}

# A thread that starts while functions are changed, and ends while operators are.
levels() {
	begin '^ready' intervene/passing_thread.py "$T"
	changing --compare all
	touch "$T/start"
	ok "a thread comes" before_long status '^threads: 2 entered$'
	leave
	changing --level aten --compare all
	ok "it is changed at the other level" before_long status '^threads: 2 entered$'
	like "nothing is said of a recording that never was" "$T/status" 'inside, does not record and changes functions$'
	touch "$T/end"
	the_end
	is "and ends well" "$status" 0
	finish "$tracer"
	rm "$T/start" "$T/end"
}

# An order given during the import of PyTorch is carried out after it.
importing() {
	start_as tracer "$DITRACE" run --fallback relu6 "$PY" intervene/slow_import.py "$T/go" >"$T/out" 2>"$T/err"
	ok "PyTorch is being imported" wait_line "$T/out" '^pid '
	target=$(sed -n 's/^pid //p' "$T/out")
	ok "ctl adds a function" "$DITRACE" ctl "$target" fallback add add
	ok "which status tells" status '^functions: fallback +relu6,add$'
	touch "$T/go"
	finish "$tracer"
	like "and it is met" "$T/err" '^ +1  torch.add +is on the CPU$'
}

# Operators that no mode has met are first called by several threads at once.
first_ops() {
	ok "threads may be the first to call an operator, all at once" ditraced --cast 'float32->float64' --ops add --level aten -- intervene/first_ops.py
	like "each has called all" "$T/out" '^called 147$'
}

threads() {
	first_ops
	levels
	others
	modes
	budgets
	outside
}
each_torch importing
each_torch forking threads
done_testing
