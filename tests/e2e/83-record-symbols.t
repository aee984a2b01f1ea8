#!/usr/bin/env bash
# ditrace record: code that had no name when it was recorded has it when the file is read.
. "$(dirname "$0")/lib.sh"
[ -x "$DITRACE" ] || { echo "Bail out! $DITRACE is not built" && exit 1; }

# symbols [VARIABLE=VALUE]...: of the samples, into $T/symbols
symbols() {
	env "$@" "$DITRACE" report --group symbol --format csv "$T/data" >"$T/symbols"
}

late() {
	mkdir "$T/lib"
	cat >"$T/spin.c" <<-'END'
		static __attribute__((noinline)) void spin_here(long n) { while (n--) __asm__ volatile(""); }
		void late_spin(long n) { spin_here(n); __asm__ volatile(""); }
	END
	cc -shared -fPIC -O1 -fno-optimize-sibling-calls -Wl,--build-id -o "$T/lib/libspin.so" "$T/spin.c"
	local id
	id=$(readelf -n "$T/lib/libspin.so" | awk '/Build ID/ { print $3 }')
	mkdir -p "$T/home/.debug/.build-id/${id:0:2}/${id:2}"
	cp "$T/lib/libspin.so" "$T/home/.debug/.build-id/${id:0:2}/${id:2}/elf"
	strip "$T/lib/libspin.so"
	cat >"$T/late.py" <<-'END'
		import ctypes, mmap, os, sys, time, torch
		spin = ctypes.CDLL(sys.argv[1]).late_spin
		spin.argtypes = [ctypes.c_long]
		page = mmap.mmap(-1, 4096, prot=7)
		page.write(bytes.fromhex("4889f848ffc875fbc3"))
		at = ctypes.addressof(ctypes.c_char.from_buffer(page))
		jit = ctypes.CFUNCTYPE(None, ctypes.c_long)(at)
		for f in spin, jit:
		    end = time.thread_time() + 1
		    while time.thread_time() < end:
		        f(20_000_000)
		if len(sys.argv) > 2:
		    with open(f"/tmp/perf-{os.getpid()}.map", "w") as f:
		        f.write(f"{at:x} 9 made_late\n")
		    print(f"/tmp/perf-{os.getpid()}.map")
	END
	ok "a program with code that has no names is recorded" \
		"$DITRACE" record -F 499 -o "$T/data" -- "$PY" "$T/late.py" "$T/lib/libspin.so"
	symbols HOME=/nowhere
	like "code without a symbol has its address in the file" "$T/symbols" 'libspin\.so\+0x[0-9a-f]+'
	like "that in no file is told as such" "$T/symbols" '\(unknown\).*\[anon\]'
	unlike "its addresses are not rows" "$T/symbols" '\[anon [0-9]'
	symbols HOME="$T/home"
	like "a file with its build id gives the name" "$T/symbols" '^"?spin_here'
	HOME=$T/home "$DITRACE" script --format jsonl "$T/data" >"$T/jsonl"
	like "to script, too" "$T/jsonl" '"spin_here"'
	HOME=$T/home "$DITRACE" export --to csv "$T/data" >"$T/csv"
	like "and to export" "$T/csv" 'spin_here'
	printf 'int x;' | cc -shared -Wl,--build-id -o "$T/home/.debug/.build-id/${id:0:2}/${id:2}/elf" -x c -
	symbols HOME="$T/home"
	unlike "a file with another build id gives none" "$T/symbols" 'spin_here'
	"$DITRACE" record -F 499 -o "$T/data" -- "$PY" "$T/late.py" "$T/lib/libspin.so" named >"$T/map" 2>"$T/err"
	symbols HOME=/nowhere
	like "names that a JIT gives afterwards are taken" "$T/symbols" 'made_late.*\[JIT\]'
	touch -d '+1 hour' "$(tail -n 1 "$T/map")"
	symbols HOME=/nowhere
	unlike "not from a file that was written after the recording" "$T/symbols" 'made_late'
	rm -f "$(tail -n 1 "$T/map")"
}

each_torch late
done_testing
