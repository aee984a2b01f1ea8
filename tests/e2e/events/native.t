#!/usr/bin/env bash
# Ops without a Python frame show their C++ caller.
. "$(dirname "$0")/../lib.sh"
. "$here/attached.sh"
need_tracing
ENGINE=shim

# A thread of C, with debug information and without.
threads() {
	local line place
	line=$(grep -n 'CALL' "$W/events/native.c" | cut -d : -f 1)
	gcc -g -O1 -shared -fPIC -o "$T/native.so" "$W/events/native.c" -lpthread
	place=$(grep -n 'PLACE' "$W/events/native.c" | cut -d : -f 1)
	gcc -O1 -shared -fPIC -o "$T/bare.so" "$W/events/native.c" -lpthread
	recorded --native-stack -- events/native.py "$T/native.so"
	"$DITRACE" report --sort op --percent-limit 0 "$T/data" >"$T/report"
	like "an op of a C thread shows the line that called it" "$T/report" \
		" 100 .* aten::relu .* native.c:$line run: given.relu\(&result, &given.tensor\)"
	"$DITRACE" script "$T/data" >"$T/script"
	like "one below a line of Python is told at that" "$T/script" "^aten::relu .*/native.py:[0-9]+ <module>: .*in_place"
	like "and shows the lines of C between them" "$T/script" "^ +called by .*native.c:$place in_place: run\(NULL\)"
	"$DITRACE" report --call-graph callees --percent-limit 0 "$T/data" >"$T/report"
	like "the tree has both" "$T/report" "in_place \(native.c:$place\)"
	recorded -- events/native.py "$T/bare.so"
	"$DITRACE" script "$T/data" >"$T/script"
	unlike "without --native-stack it shows none" "$T/script" "called by"
	"$DITRACE" report --sort op --percent-limit 0 "$T/data" >"$T/report"
	like "without debug information the function and its library" "$T/report" ' 100 .* aten::relu .* bare.so.* run\+0x'
}

# A program of LibTorch takes long to compile.
program() {
	local lib
	in_long || { skip "with make test-long" 4; return; }
	lib=$("$PY" -c 'import os, torch; print(os.path.dirname(torch.__file__))' 2>/dev/null)
	[ -e "$lib/include/ATen/ops/relu.h" ] || { skip "$PY has no headers of PyTorch" 4; return; }
	g++ -g -O1 -std=c++20 -w -I"$lib/include" -I"$lib/include/torch/csrc/api/include" -o "$T/libtorch" "$W/events/libtorch.cpp" \
		-L"$lib/lib" -Wl,-rpath,"$lib/lib" -ltorch_cpu -lc10
	trace -- "$T/libtorch"
	"$DITRACE" report --sort op --limit 99 --percent-limit 0 "$T/data" >"$T/report"
	like "an op of a program without Python" "$T/report" 'aten::linear .* libtorch.cpp:[0-9]+ layer: auto y = at::linear'
	like "one of its threads" "$T/report" 'aten::relu .* libtorch.cpp:[0-9]+ .*: auto y = at::relu'
	like "one of the backward of its own function" "$T/report" 'aten::mul.Scalar .* libtorch.cpp:[0-9]+ Twice::backward: auto twice'
	like "a node at the line of its forward op" "$T/report" 'MmBackward0 .* libtorch.cpp:[0-9]+ layer: auto y = at::linear'
}

each_torch forking threads
each_torch program
done_testing
