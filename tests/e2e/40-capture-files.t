#!/usr/bin/env bash
# Capture files made from outside of a process hold its tensors bit by bit, in ditorch's form; what goes
# wrong leaves no broken file; statistics are the tensors'.
. "$(dirname "$0")/lib.sh"
tool=$BUILD/tests/tools/capture_tool
[ -x "$tool" ] || skip_all "no $tool: make unit"

# check DESCRIPTION WHAT [FOLDER]
check() {
	mkdir -p "$T/$2"
	ok "$1" "$PY" "$here/capture_files.py" "$tool" "$2" "${3:-$T/$2}"
}

files() {
	check "every dtype and view loads bit by bit" dtypes
	check "requires_grad, parameters, conjugate and negative bits" grad
	check "tensors that share a storage still do" shared
	check "values of every kind, and which torch.load opens them" values
	check "what cannot be written is told, and leaves nothing" refused
	check "tensors of the meta device" meta
	check "quantized tensors keep dtype, shape and bytes" quantized
	check "folders, names, arguments and JSON are ditorch's" layout
	check "what was captured runs again by its name" ops
	check "statistics of every dtype and view" stats
	check "a limit of bytes is kept" limit
	check "a folder that cannot be written" unwritable
	check "a writer killed at any moment leaves whole files" killed
	mkdir -p "$T/full"
	if mount -t tmpfs -o size=1m none "$T/full" 2>/dev/null; then
		check "a full disk" full
		umount "$T/full"
	else
		skip "cannot mount a small file system"
	fi
}
each_torch files
done_testing
