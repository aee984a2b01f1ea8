#!/usr/bin/env bash
# run --apply: ditorch's apply_feature, for a program that knows nothing of it. Needs no privileges.
. "$(dirname "$0")/../lib.sh"
. "$(dirname "$0")/../forked.sh"

# applied OPTION... -- PROGRAM ARGUMENT...: in an empty folder of $T; the program's output in $T/out, ditrace's in $T/err
applied() {
	rm -rf "$T/in" && mkdir "$T/in"
	(cd "$T/in" && ditraced "$@")
}

line_of() {
	grep -n "$1" "$W/intervene/device.py" | head -n 1 | cut -d: -f1
}

prints() {
	"$DITRACE" run --apply 'linear:dump_op_args:args[1].numel() == 96' "$PY" "$W/intervene/device.py" --steps 2 >"$T/out" 2>"$T/err"
	is "arguments are printed where the condition holds, each time" "$(grep -c '^torch.nn.functional.linear    forward_id: [0-9]' "$T/err")" 2
	like "with the line" "$T/err" "^/.*/device.py:$(line_of 'F.linear(x') train: h = F.linear\(x, w\[0\]\)"
	like "inputs" "$T/err" '^\| torch.nn.functional.linear inputs\[1\] \| \(16, 6\) \| +\(6, 1\) \| +96 +\| float32 \| lazy:0 \| +True'
	like "and results" "$T/err" '^\| +torch.nn.functional.linear outputs +\| \(8, 16\) '
	like "of the others not" "$T/err" '2  torch.nn.functional.linear +does not meet the condition'
}

# rows_of_csv COLUMN...: of the only CSV with times
rows_of_csv() {
	python3 -c '
import csv, sys
for row in csv.DictReader(open(sys.argv[1])):
    print(*(row[c] for c in sys.argv[2:]))' "$T"/in/op_tools_results/op_time_measure_result/op_elasped_info_pid*.csv "$@"
}

times() {
	applied --apply gelu:measure_op_time -- "$W/intervene/device.py" --steps 3
	like "ditorch's table of a forward" "$T/err" '^\| +name +\| forward_id \| forward_elasped \| unit \|'
	like "and of a backward" "$T/err" '^\| torch.nn.functional.gelu \| +[0-9]+ +\| +[0-9]+\.[0-9]{8} +\| +ms +\|'
	like "in all" "$T/err" "^ +3 +[0-9.]+ .s .*torch.nn.functional.gelu +device.py:$(line_of 'F.gelu(h') train"
	rows_of_csv name unit >"$T/rows"
	is "ditorch's CSV has each call" "$(uniq -c "$T/rows" | xargs)" "3 torch.nn.functional.gelu ms"
	rows_of_csv forward_elasped backward_elasped | tr ' ' '\n' >"$T/rows"
	is "with both times" "$(grep -cE '^[0-9]+\.[0-9]{8}$' "$T/rows")" 6
	like "and what it was given" "$T"/in/op_tools_results/op_time_measure_result/*.csv "'numel': 128, 'shape': '\(8, 16\)'"
	is "and nothing is held after the end" "$(cat "$T/out")" "$(alone "$W/intervene/device.py" --steps 3)"
}

captures() {
	applied --apply 'linear:op_capture:args[1].numel() == 96' --apply 'gelu,torch.Tensor.mul_:op_capture' -- "$W/intervene/device.py" --steps 2
	is "calls on a device are captured where the condition holds" "$(count_of capture)" 6
	is "inputs and outputs of all, gradients of two" "$(find "$T/in" -name '*.pth' -printf '%f\n' | sort | uniq -c | xargs)" "4 grad_inputs.pth 4 grad_outputs.pth 6 input.pth 6 output.pth"
	like "which is told" "$T/err" '^ditrace: saved op_tools_results/op_capture_results/torch.Tensor.mul_/[0-9]+/[0-9]+/'
	"$DITRACE" replay --of captured --python "$PY" "$T/in/op_tools_results" >"$T/replay" 2>&1
	like "replay finds them right, what was changed in place, too" "$T/replay" '^6 op calls; 10 tensors right'
	applied --apply 'torch.nn.init.kaiming_uniform_,torch.nn.init.constant_:op_capture' -- "$W/intervene/initialised.py"
	"$DITRACE" replay --python "$PY" "$T/in/op_tools_results" >"$T/replay" 2>&1
	like "functions of torch.nn.init are run again" "$T/replay" '^2 op calls, 1 not compared; 1 tensors right'
	like "but for those that draw numbers" "$T/replay" '^  not compared: 1: a random op'
}

several() {
	applied --apply 'torch.nn.functional.gelu,layer_norm:overflow_check' --apply gelu:fallback --apply gelu:dump_op_args --apply gelu:measure_op_time -- "$W/intervene/device.py" --steps 1 --fault forward
	is "several features of one function" "$(count_of overflow) $(count_of fallback) $(count_of print) $(count_of time)" "2 1 1 1"
	mv "$T/out" "$T/several"
	applied --fallback gelu -- "$W/intervene/device.py" --steps 1
	is "compute what the CPU does" "$(cat "$T/several")" "$(cat "$T/out")"
	OP_OBSERVE_DISABLE_LIST=torch.nn.functional.gelu OP_TIME_MEASURE_DISABLE_LIST='torch.*linear' OP_OBSERVE_LIST="torch.add,.*linear" applied --apply 'gelu,linear:dump_op_args' --apply 'gelu,linear:measure_op_time' -- "$W/intervene/device.py" --steps 1
	is "but what ditorch's variables leave out" "$(count_of print) $(count_of time)" "2 1"
	OP_TOOLS_PRINT_STACK=1 applied --apply gelu:dump_op_args -- "$W/intervene/device.py" --steps 1
	ok "the whole stack on request" stack_is_printed
}

stack_is_printed() {
	grep -B 2 '^torch.nn.functional.gelu ' "$T/err" >"$T/stack"
	found "$T/stack" 'device.py:[0-9]+ <module> train\(\)$' && found "$T/stack" 'device.py:[0-9]+ train h = F.gelu\(h\)$'
}

apply() {
	prints
	times
	captures
	several
}
each_torch forking apply
T=$base
done_testing
