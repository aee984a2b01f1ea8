#!/usr/bin/env bash
# Capture files made from outside a process hold its tensors bit by bit, in ditorch's format; failures leave no broken file;
# statistics match the tensors.
. "$(dirname "$0")/../lib.sh"
tool=$BUILD/tests/tools/capture_tool
[ -x "$tool" ] || skip_all "no $tool: make unit"

how_many DITRACE_TEST_KILLS 10 40
export DITRACE_TEST_KILLS

# checked NAME...: run the checks of these names in one process, each in a child
checked() {
	(cd "$T" && mkdir -p "$@")
	"$PY" "$here/capture_files.py" "$tool" "${@/#/$T/}"
}

# check DESCRIPTION WHAT
check() {
	ok "$1" passed "$2"
}

passed() {
	cat "$T/$1.said"
	[ "$(cat "$T/$1.status")" = 0 ]
}

files() {
	local full=
	mkdir -p "$T/full"
	mount -t tmpfs -o size=1m none "$T/full" 2>/dev/null && full=full
	checked dtypes grad shared values refused meta quantized layout ops stats limit unwritable killed $full
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
	if [ -n "$full" ]; then
		umount "$T/full"
		check "a full disk" full
	else
		skip "cannot mount a small file system"
	fi
}
each_torch files
done_testing
