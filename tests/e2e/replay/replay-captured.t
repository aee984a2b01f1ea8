#!/usr/bin/env bash
# ditrace's own captures of a training replay completely: every op runs, and all are right. Conditions select captures, the
# interpreter is that of the training, and gradients are never attributed to another input.
. "$(dirname "$0")/../lib.sh"
. "$(dirname "$0")/../warm.sh"
. "$(dirname "$0")/../attached.sh"
need_tracing
WARM=torch._dynamo # imported by optimizers and modes of operators
program=little_train.py layers=1 others=4 least=400 least_grads=60 jobs=1
! in_long || jobs=2 program=train.py layers=2 others=7 least=1000 least_grads=100

# all_right FILE: every verdict is "right", except for ops with nothing to compare; and enough calls
all_right() {
	verify replay/all_right "$1" "$least" "$least_grads" "not compared:empty,resize_,rand,random_,profiler"
}

# judged OPTION...: replay all of $T/cap with the Python recorded in it
judged() {
	"$DITRACE" replay "$@" --format json --detail --jobs $jobs "$T/cap" >"$T/json" 2>"$T/err"
	is "${*:-a new run} is judged" $? 0
	ok "all is right" all_right "$T/json"
	like "with the interpreter of the training" "$T/err" "CPython [0-9.]+ \\($PY\\)"
}

# independent of PyTorch
choices() {
	mkdir "$T/other"
	cp -r "$T"/cap/op_tools_results/op_capture_results/torch.{addmm,nn.functional.gelu} "$T/other"
	sed -i 's/"python_changed": "/&9/' "$T"/other/*/*/*/*/input.pth.json
	PATH=$(dirname "$PY"):$PATH "$DITRACE" replay --when 'op == "aten::gelu" and line > 9 and "train.py" in file' "$T/other" >"$T/python" 2>&1
	is "captures of an interpreter that has changed" $? 0
	like "are run with one on the PATH, and that is said" "$T/python" "^ditrace: the captures are of $PY, which .*has changed since"
	like "a condition on the op and the line" "$T/python" "^$layers op calls; "
	"$DITRACE" diff --when 'self.dim() == 4 and dim == -1' --ops softmax "$T/cap" "$T/cap" >"$T/when" 2>&1
	like "a condition of two runs" "$T/when" "^$layers op calls in both"
	error "a name that no op has" 'none of the [0-9]+ chosen ops has' "${replay[@]}" --when 'sellf.dim() == 2' --ops gelu,softmax "$T/cap"
	like "is underlined" "$T/error" '^    \^~~~~$'
	error "what a capture does not keep" 'does not keep "depth"' "$DITRACE" replay --when 'depth == 0' "$T/cap"
	error "what it cannot know" 'cannot ask for results' "${replay[@]}" --ops addmm --when 'out.dim() == 2' "$T/cap"
	error "a condition that holds for none" 'holds for none' "${replay[@]}" --ops addmm --when 'self.dim() == 7' "$T/cap"
	error "a dtype that is none" '"float17" is no floating-point dtype' "$DITRACE" replay --dtype float17 "$T/cap"
	error "results that were captured, in another dtype" 'exclude each other' "$DITRACE" replay --of captured --dtype bfloat16 "$T/cap"
}

replays() {
	local replay=("$DITRACE" replay --python "$WARMED")
	ok "a training is captured" attached -o "$T/data" --capture="$T/cap" --steps 2 --not-ops relu -- "$program" --steps 2 --quiet
	of_first_torch && judged || skip "a new run was judged with another torch: make test-long"
	{ in_long || ! of_first_torch; } && judged --of captured || skip "results in captures are judged with another torch: make test-long"
	ok "a few lines of Python run them as well" "$WARMED" "$here/replay/run_as_ditorch.py" "$T/cap" "$least" "$T/grads"

	"${replay[@]}" --ops addmm --when 'mat1.shape[1] > 64' "$T/cap" >"$T/when" 2>&1
	is "a condition on arguments" $? 0
	like "leaves the others out" "$T/when" "^$layers op calls; .*right"
	like "and says how many" "$T/when" "^--when left out $others ops$"

	"${replay[@]}" --device lazy --ops as_strided,view,clone,gelu --format json "$T/cap" >"$T/lazy" 2>"$T/err"
	is "a device without strides: what needs them cannot be run" $? 2
	is "and costs the others nothing" "$(grep -vc '"verdict":"right"' "$T/lazy")" \
		"$(grep -c '"op":"torch.as_strided".*"verdict":"not run".*does not come along' "$T/lazy")"

	of_first_torch && choices || skip "what does not depend on PyTorch: make test-long"

	attached -o "$T/data" --capture="$T/other_arguments" --when 'not "at_word.py" in file' --ops to.dtype,to.dtype_layout,to.device,slice_scatter,view.dtype,embedding_bag.padding_idx,addmm,contiguous,_make_dual,relu_,elu_,sparse_coo_tensor,split_with_sizes_copy -- \
		replay/other_arguments.py
	"${replay[@]}" "$T/other_arguments" >"$T/text" 2>&1
	like "what Python passes by keyword, and what it must not leave out" "$T/text" '^21 op calls, 2 not compared; 22 tensors right, 4 not judged$'
	like "what has no numbers is told" "$T/text" '^  not compared: 1: its tensors are of the meta device'
	like "and what only the program has" "$T/text" '^  not compared: 1: it belongs to a level of forward-mode'
	"${replay[@]}" --of captured --ops split_with_sizes_copy "$T/other_arguments" >"$T/text" 2>&1
	like "what a function has written to its out, in a capture" "$T/text" '^1 op calls; 2 tensors right$'
	(cd "$T" && "${replay[@]}" --sync-time-measure --ops sparse_coo_tensor other_arguments) >"$T/text" 2>&1
	is "a sparse result has times" $? 0
	"${replay[@]}" --ops view --dtype float64 "$T/other_arguments" >"$T/text" 2>&1
	like "a view of bits has none in another dtype" "$T/text" '^1 op calls, 1 not compared; 0 tensors right$'
	like "and why not is told" "$T/text" '^  not compared: 1: it shows the bits of its input'

	attached -o "$T/data" --capture="$T/autocast" --ops linear,bmm,cross_entropy_loss -- replay/autocast.py
	for of in rerun captured; do
		"${replay[@]}" --of $of "$T/autocast" >"$T/text" 2>&1
		like "calls under autocast, captured before its casts: $of" "$T/text" '^14 op calls, 2 not compared; 34 tensors right$'
		like "and one that raised: $of" "$T/text" '^  not compared: 2: the call raised an exception'
		"${replay[@]}" --of $of --format json --detail "$T/autocast" >"$T/json" 2>"$T/err"
		ok "their rows say so: $of" jq -se '[.. | objects | select(.role? == "output") | .note] | sort == [null, null, null, null, null, null, "inputs were rounded to bfloat16, as autocast does", "inputs were rounded to bfloat16, as autocast does", "inputs were rounded to bfloat16, as autocast does", "inputs were rounded to bfloat16, as autocast does", "inputs were rounded to bfloat16, as autocast does", "inputs were rounded to float32, as autocast does"]' "$T/json"
	done

	ditraced --engine shim --capture="$T/inside" --ops linear,bmm,cross_entropy -- replay/autocast.py
	ok "captured from inside, it says that autocast was on" jq -se 'length == 7 and all(.[]; .autocast == {"cpu": "bfloat16"})' $(find "$T/inside" -name input.pth.json)
	"${replay[@]}" --of captured --format json --detail "$T/inside" >"$T/json" 2>"$T/err"
	is "all are right" $? 0
	like "but what raised" "$T/err" '^  not compared: 1: the call raised RuntimeError$'
	ok "rows say so, too" jq -se '[.. | objects | select(.role? == "output") | .note] | sort == ["inputs were rounded to bfloat16 by autocast", "inputs were rounded to bfloat16 by autocast", "inputs were rounded to bfloat16 by autocast", "inputs were rounded to bfloat16 by autocast", "inputs were rounded to bfloat16 by autocast", "inputs were rounded to float32 by autocast"]' "$T/json"

	"$(warmed)" replay/device_captures.py "$T/device" >"$T/made"
	local without=
	[ ! -d "$T"/device/*/*/aten::_scaled_dot_product_flash_attention_backward ] || without="27 29"
	"${replay[@]}" --of captured --format csv "$T/device" >"$T/csv" 2>"$T/err"
	is "operators of one library alone, and under autocast of a device: those are wrong that are" \
		"$(sed -nE 's/^[^,]*,([0-9]+),.*,wrong,.*/\1/p' "$T/csv" | sort -nu | xargs)" "$(xargs -n 1 <"$T/made" | sort -n | xargs)"
	is "and no right one is left out, but what has no reference" "$(sed -nE 's/^aten::[^,]*,([0-9]+),.*,not run,.*/\1/p' "$T/csv" | xargs)" "$without"
	[ -z "$without" ] || like "a dropout in the backward of attention is told" "$T/csv" '_flash_attention_backward,25,.*,not compared,.*it had a dropout inside'
	[ -z "$without" ] || like "so are sequences of several lengths" "$T/csv" '_flash_attention_backward,27,.*,not run,.*sequences of several lengths'

	"${replay[@]}" --of captured --format json --detail "$T/grads" >"$T/grads.json" 2>"$T/err"
	is "gradients that are not right" $? 1
	is "are found where the node is known, and not judged where another may be meant" "$(verify replay/grad_verdicts "$T/grads.json")" \
		"1 0 right, 1 right
2 0 not judged, 1 not judged
3 0 right, 1 right
4 0 wrong, 1 wrong
5 0 right, 1 right
6 0 not judged, 1 right
7 0 wrong, 1 right"
}
each_torch forking warm replays
done_testing
