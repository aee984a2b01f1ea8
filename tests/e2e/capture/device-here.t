#!/usr/bin/env bash
# Where there is a device, whose memory cannot be read from outside, --capture and --first-nan work from inside; what the
# options do not allow there is said. The device is a name below /dev in a mount namespace.
. "$(dirname "$0")/../lib.sh"
need_tracing

# with_device COMMAND...
with_device() {
	mkdir -p "$T/dev" "$T/work"
	unshare -m --propagation private sh -c "mount -t overlay none -o lowerdir=/dev,upperdir=$T/dev,workdir=$T/work /dev &&
		: >/dev/davinci_manager && exec \"\$@\"" sh "$@"
}

# captured OPTION...: what is told of it, and the functions and operators saved
captured() {
	rm -rf "$T/cap"
	with_device "$DITRACE" run --capture="$T/cap" "$@" "$PY" capture/products.py >"$T/out" 2>"$T/err"
	(cd "$T/cap/op_tools_results/op_capture_results" && echo *)
}

products() {
	with_device true 2>"$T/err" || { skip "no overlay of /dev: $(head -n 1 "$T/err")"; return; }
	is "functions, from inside, and traced, too" "$(captured -o "$T/data" --ops mm,tanh)" "torch.mm torch.tanh"
	like "which is said" "$T/err" '^ditrace: --capture works from inside of the process, as there is /dev/davinci_manager'
	is "the trace has both" "$("$DITRACE" script --format jsonl "$T/data" | grep -cE '"(aten::)?(mm|tanh)"')" 6
	is "operators, from inside" "$(captured --ops aten::mm)" "aten::mm"
	is "operators that are traced, too, from outside" "$(captured -o "$T/data" --ops aten::mm)" "torch.mm"
	like "which is said" "$T/err" '^ditrace: --capture cannot save memory of a device together with these options'
	of_first_torch || { skip "what the command line decides: with another torch"; return; }
	with_device "$DITRACE" run --first-nan -o "$T/data" "$PY" capture/products.py >"$T/out" 2>"$T/err"
	like "as it is of --first-nan" "$T/err" '^ditrace: --first-nan cannot measure memory of a device together with these options'
	ASCEND_RT_VISIBLE_DEVICES='' captured --ops mm >/dev/null
	like "unless the devices are not to be used" "$T/err" '^ditrace: captured 3 calls'
}

each_torch products
done_testing
