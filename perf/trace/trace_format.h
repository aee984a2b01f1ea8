/* The trace file, ditrace.data, byte by byte. This is its only specification. A folder of traces
 * has a file for each process, NAME.data, whose names say nothing that is not in the files.
 *
 *     file header                  64 bytes, struct trace_file_header
 *     block, block, ...            each at a multiple of 8
 *
 * A block is a struct trace_block_header, the records compressed by zstd as one frame (RFC 8878),
 * and zero bytes to the next multiple of 8. Its checksum covers the whole block: a reader rejects
 * a changed byte before it decompresses anything, and a file truncated anywhere is good up to its
 * last whole block.
 *
 * Decompressed, a block is a sequence of whole records, each a struct trace_record_header and its
 * payload, padded with zero bytes to a multiple of 8. A reader skips unknown types. Integers are
 * little-endian; in payloads they are varints:
 *
 *     u    LEB128, 7 bits per byte, low bits first, at most 10 bytes
 *     s    LEB128 of the zigzag form, (n << 1) ^ (n >> 63)
 *     b    one byte
 *     f    8 bytes, an IEEE double
 *     str  u length, bytes
 *
 * What repeats is defined once, before its first use, and then referred to by number. Numbers
 * count from 0 for each kind, in the order of the definitions.
 *
 *     STRING  str
 *     OP      b kind, b flags, u name, u schema, u nargs, u nresults, then for each of them:
 *             u name, u type (string numbers)
 *     META    b dtype low, b dtype high, b device type, b device index, b layout,
 *             b requires_grad, b unknown, b ndim, s numel,
 *             ndim times s shape (unless TENSOR_NO_SHAPE),
 *             ndim times s stride (unless TENSOR_NO_STRIDE)
 *     FRAME   u file, u function, u text + 1 (strings; 0: none), s line, s column, s end column,
 *             s end line, b is_torch
 *     TEXT    u frame, u text (string): the text of a frame defined without one
 *     STACK   u depth, b truncated, depth times u frame, innermost first, u module + 1,
 *             u parameter + 1 (strings; 0, or missing: none), b left out (missing: 0): there were
 *             frames, which nobody knows. A stack that is left out, or has a parameter, has no
 *             frames; a reader that does not know parameters shows none. Files written before
 *             there was the field have one FRAME instead: function "(gradient accumulation)",
 *             line 0, file "gradient accumulation of " and the parameter.
 *     GROUP   of torch.distributed: u name (string), u n, n times s rank, ascending
 *     THREAD  u number, s pid, s tid, str name. Repeating a number changes the name.
 *     TARGET  s pid, s start (CLOCK_MONOTONIC ns), str comm, argv, torch version,
 *             Python version, engine, torch directory
 *     EVENT   b flags (EVENT_*), u op, u thread, s id - previous id,
 *             s id - parent (if EVENT_HAS_PARENT), s id - forward id (if EVENT_HAS_FORWARD_ID),
 *             s start - previous time, s end - start (if EVENT_ENDED), u child time, u depth,
 *             u stack (if EVENT_HAS_STACK),
 *             u where stack (if EVENT_HAS_WHERE, else the same as stack),
 *             u nargs, u nresults, values, statistics (which may be missing),
 *             b phase, u backward of + 1 (stack; 0: none), u native stack + 1, u group + 1 (of
 *             its process group); all may be missing: 0. The phase is 1
 *             of a recomputation, which also has EVENT_BACKWARD, 2 of what runs in a compilation
 *             of torch.compile; 0: as EVENT_BACKWARD says.
 *             "previous": of the previous EVENT in the same block, 0 for the first; its time is
 *             its end, or its start if it has not ended.
 *     LOST    u time (CLOCK_MONOTONIC ns), u number of events lost, u how many of these the next
 * SUM has (missing: 0): for a reader that does not know SUM they are lost SUM     calls of an op
 * with the same stacks, of one thread, that were summed up while they were recorded: b flags
 * (SUM_*), u op, u thread, u start (CLOCK_MONOTONIC ns), u end - start: the time in which they lie,
 * u calls, u thrown, u ns of all of them, u ns that they spent in other ops, u ns of the shortest,
 * u ns of the longest since the first SUM of these calls, u stack (if SUM_HAS_STACK), u where stack
 * (if SUM_HAS_WHERE) SAMPLING u samples per second, str event ("cpu-clock", "cycles"), b includes
 * kernel time BUILD   u file (string), str build id (bytes): of a file that contains native frames
 *     SAMPLE  b flags (SAMPLE_*), u thread, s time - previous time, u weight,
 *             u op (if SAMPLE_HAS_OP), u Python stack (if SAMPLE_HAS_PYTHON),
 *             u native stack (if SAMPLE_HAS_NATIVE)
 *             "previous": of the previous SAMPLE in the same block, 0 for the first. A native
 *             frame is a FRAME: the file that contains the code, the function, line 0. The
 *             function is demangled; without a symbol it is the address in the file as "0x...",
 *             or as "+0x..." if another file had the file's name before, or the offset into a
 *             file that could not be read as "@0x...". For code in no file, the file is
 *             "[anon PID BOOT]", BOOT being the first eight digits of
 *             /proc/sys/kernel/random/boot_id; "[anon]" if the PID does not identify the
 *             process; or "[JIT]".
 *     ACTIVITY  what a device did: b flags (ACTIVITY_*), b launch, b kind, b device type,
 *             b device index, u stream, u name (string), u thread, s start - previous time,
 *             u end - start, s start - launch (if ACTIVITY_LAUNCHED), u bytes,
 *             u op (if ACTIVITY_HAS_OP), u id (if ACTIVITY_HAS_OP; 0: not known), u stack + 1,
 *             u where stack + 1, u backward of + 1 (0: none)
 *             "previous": of the previous ACTIVITY in the same block, 0 for the first: its start
 *     MEMORY  memory was allocated or freed: b flags (MEMORY_*), b launch, b device type,
 *             b device index, u thread, s time - previous time, s address - previous address,
 *             u bytes (0: not known), u what of the device's memory is allocated now,
 *             u what its allocator has of it (if MEMORY_RESERVED),
 *             u op (if MEMORY_HAS_OP), u id (if MEMORY_HAS_OP; 0: not known), u stack + 1,
 *             u where stack + 1, u backward of + 1 (0: none)
 *             "previous": of the previous MEMORY in the same block, 0 for the first
 *     MEMORY_LOST  u time, u number of MEMORY records lost
 *     ACTIVITIES_LOST  u time, u number of activities lost
 *     SAMPLES_LOST  u time, u number of samples lost
 *     DONE    a collective is done: s pid, u address of its Work, u time (CLOCK_MONOTONIC ns)
 *     USAGE   of a rank's main thread so far: s pid, u time (CLOCK_MONOTONIC ns), u ns on a
 *             processor, u ns ready to run without one, its quota used up or not
 *             (proc_pid_schedstat(5)), u minor and u major page faults, of which a few records
 *             have the same as they are read once a second; u ns + 1 for which its control group
 *             was kept from processors as the quota was used up, all of its processors together
 *             (0, or missing: not known), b whether groups above it may have been, too (missing:
 *             0)
 *     STATS   u time in probes (ns, no less), u share of dispatched ops that were seen
 *             (1/1000; above 1000: not measured), u wall time (ns), u CPU time of the traced
 *             threads (ns; 0, or missing: not known), u number of events so far without arguments
 *             or results, as there was no time for them (missing: 0); and, may be missing, what
 *             --measure-overhead found: u turns (0: nothing), s slowdown and u its error
 *             (1/1000000), u ops called before recording began, b whether the time in probes is
 *             the least that it was, u processes of which blocks of record_function are missing
 *             (both missing: 0)
 *     CHOSEN  str options that left ops out of the recording, "--ops addmm --depth 1"
 *     PROCESS s pid, b flags (PROCESS_*), u rank + 1, u world size + 1, u local rank + 1,
 *             u node + 1, u restarts + 1 (0: not known), str host. Comes before the process's
 *             TARGET; a process without one has no rank that is known.
 *     END     u number of EVENT records, u number of events in LOST. The last record of a file that
 *             was closed properly.
 *
 * A value is b kind (low 5 bits; for a scalar, bits 5-6 are 0 for int, 1 for float, 2 for bool, and
 * bit 7 means unsigned), followed by:
 *
 *     tensor         u meta + 1 (0: the META payload follows), s storage offset, u data_ptr,
 *                    u impl, u storage
 *     list           u count, values
 *     int, dtype, layout, memory format, generator, scalar of int: s
 *     bool, scalar of bool: b
 *     float, scalar of float: f       complex: f, f
 *     string, not decoded: str        device: b type, b index        none: nothing
 *     process group  u address, s rank, s size
 *     work           u address, str backend (empty: not known)
 *
 * Statistics are u number of rows (0, or missing: the event was not measured, or its statistics did
 * not fit), and a row is b flags (STATS_*), u value, u tensor (the place: struct tensor_place; rows
 * come in the order of places), and then, with STATS_NOT_MEASURED, str why, else u elements, u
 * hash; with STATS_NUMERIC also u NaN, u +inf, u -inf, u zeros, f mean, f std, f l2, and min and
 * max: s and s with STATS_INT (nothing for an empty tensor), else f and f. A reader that does not
 * know statistics takes them for padding.
 */
#ifndef PERF_TRACE_TRACE_FORMAT_H
#define PERF_TRACE_TRACE_FORMAT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "symbolizer/target/process.h"

#define TRACE_MAGIC "DITRACE\x1a"
#define TRACE_BLOCK_MAGIC 0x4b4c4244u /* "DBLK" */

enum {
	TRACE_VERSION = 1,
	TRACE_BLOCK_FULL = 128 << 10, /* a block is written when its records reach this size */
	TRACE_RECORD_MAX = 1 << 20,   /* size of a record with its header */
	TRACE_BLOCK_MAX = TRACE_BLOCK_FULL + TRACE_RECORD_MAX, /* decompressed */
	TRACE_VALUE_DEPTH_MAX = 16,			       /* lists within lists */
	TRACE_META_PAYLOAD_MAX = 8 + 10 + 2 * 64 * 10,
};

/* A reader must understand every bit set in `features` to read the file; none is defined so far. */
struct trace_file_header {
	char magic[8];
	uint32_t version;
	uint32_t size; /* of this header */
	uint64_t features;
	uint64_t monotonic_ns, realtime_ns; /* the same moment on both clocks */
	uint8_t clock[16]; /* which CLOCK_MONOTONIC: see clock_identify; zeros: not known */
	uint32_t zero;
	uint32_t crc; /* trace_crc of the preceding bytes */
};

struct trace_block_header {
	uint32_t magic;
	uint32_t crc;	   /* trace_crc of the rest of the header, the payload and its padding */
	uint32_t size;	   /* of the payload, without padding */
	uint32_t raw_size; /* decompressed */
	uint64_t index;	   /* 0, 1, 2, ...: reveals a missing block */
};

struct trace_record_header {
	uint32_t size; /* header, payload and padding: a multiple of 8 */
	uint16_t type; /* enum trace_type */
	uint16_t zero;
};

_Static_assert(sizeof(struct trace_file_header) == 64, "file header");
_Static_assert(sizeof(struct trace_block_header) == 24, "block header");
_Static_assert(sizeof(struct trace_record_header) == 8, "record header");

enum trace_type {
	TRACE_STRING = 1,
	TRACE_OP,
	TRACE_META,
	TRACE_FRAME,
	TRACE_STACK,
	TRACE_THREAD,
	TRACE_TARGET,
	TRACE_EVENT,
	TRACE_LOST,
	TRACE_STATS,
	TRACE_END,
	TRACE_TEXT,
	TRACE_SAMPLING,
	TRACE_BUILD,
	TRACE_SAMPLE,
	TRACE_SAMPLES_LOST,
	TRACE_CHOSEN,
	TRACE_SUM,
	TRACE_PROCESS,
	TRACE_ACTIVITY,
	TRACE_ACTIVITIES_LOST,
	TRACE_DONE,
	TRACE_MEMORY,
	TRACE_MEMORY_LOST,
	TRACE_GROUP,
	TRACE_USAGE,
	TRACE_CLOCK = 0x10000, /* in no file: what is read of several has it */
};

enum {
	MEMORY_BACKWARD = 1 << 0,
	MEMORY_RECOMPUTE = 1 << 1, /* beside MEMORY_BACKWARD */
	MEMORY_HAS_OP = 1 << 2,
	MEMORY_FREED = 1 << 3,
	MEMORY_COMPILE = 1 << 4,
	MEMORY_RESERVED = 1 << 5,
};

enum {
	ACTIVITY_BACKWARD = 1 << 0,
	ACTIVITY_RECOMPUTE = 1 << 1, /* beside ACTIVITY_BACKWARD */
	ACTIVITY_HAS_OP = 1 << 2,
	ACTIVITY_LAUNCHED = 1 << 3, /* the time is known */
	ACTIVITY_IN_GRAPH = 1 << 4,
	ACTIVITY_COMPILE = 1 << 5,
};

enum {
	SUM_BACKWARD = 1 << 0,
	SUM_RECOMPUTE = 1 << 1, /* beside SUM_BACKWARD */
	SUM_HAS_STACK = 1 << 2,
	SUM_HAS_WHERE = 1 << 3,
	SUM_NESTED = 1 << 4, /* struct op_sum */
	SUM_AGAIN = 1 << 5,
	SUM_COMPILE = 1 << 6,
};

enum {
	PROCESS_WORKER = 1 << 0, /* a helper of the rank, such as a worker of a DataLoader */
	PROCESS_WHOLE = 1 << 1,	 /* recorded from its start */
};

enum {
	SAMPLE_BACKWARD = 1 << 0,
	SAMPLE_IN_KERNEL = 1 << 1,
	SAMPLE_MISMATCHED = 1 << 2,
	SAMPLE_HAS_OP = 1 << 3,
	SAMPLE_HAS_PYTHON = 1 << 4,
	SAMPLE_HAS_NATIVE = 1 << 5,
	SAMPLE_RECOMPUTE = 1 << 6, /* beside SAMPLE_BACKWARD */
	SAMPLE_COMPILE = 1 << 7,
};

enum {
	EVENT_BACKWARD = 1 << 0,
	EVENT_THROWN = 1 << 1,
	EVENT_ENDED = 1 << 2,
	EVENT_HAS_PARENT = 1 << 3,
	EVENT_HAS_FORWARD_ID = 1 << 4,
	EVENT_HAS_STACK = 1 << 5,
	EVENT_HAS_WHERE = 1 << 6, /* the where stack differs from the stack */
	EVENT_NO_WHERE = 1 << 7,  /* there is a stack but no where stack */
};

enum {
	STATS_RESULT = 1 << 0, /* of a result, otherwise of an argument */
	STATS_NOT_MEASURED = 1 << 1,
	STATS_NUMERIC = 1 << 2,
	STATS_INT = 1 << 3,
	STATS_UNSIGNED = 1 << 4,
};

/* A traced process. Strings are NUL-terminated and never NULL ("" if unknown). Times are in
 * CLOCK_MONOTONIC ns. */
struct trace_target {
	int32_t pid;
	int64_t start_ns;
	const char *comm, *argv, *torch_version, *python_version, *engine, *torch_dir;
	uint32_t rank1; /* of trace_query: as in struct op_event; else 0 */
};

/* What a traced process is of a training on many. */
struct trace_process {
	int32_t pid;
	bool worker; /* a helper of the rank, such as a worker of a DataLoader */
	bool whole;  /* recorded from its start */
	struct process_rank rank;
};

enum { TRACE_SEEN_UNKNOWN = 1001 };

/* See USAGE. */
struct trace_usage {
	int32_t pid;
	uint64_t ns, run_ns, wait_ns, minor_faults, major_faults;
	uint64_t throttled_ns;
	bool is_throttled_known, throttled_is_least;
};

struct trace_stats {
	uint64_t probe_ns;   /* spent in probes, all threads together, an estimate; 0: too few hits
				to say */
	bool probe_is_least; /* it is the least: how much more is not known */
	uint32_t seen_permille; /* dispatched ops that were seen as events; TRACE_SEEN_UNKNOWN: not
				   measured */
	uint64_t wall_ns;	/* from placing the first probe to removing the last */
	uint64_t cpu_ns; /* of the traced threads since their first hits, with the time in which
			    probes stopped them; 0: not known */
	uint64_t lean;	 /* events without arguments or results, for which there was no time */
	/* --measure-overhead: by how much ops take more CPU time where they are recorded, and how
	 * far that may be off, in millionths; found in so many turns. 0 turns: not measured. */
	int64_t slowdown;
	uint64_t slowdown_error, turns;
	uint64_t turns_ops; /* ops called before recording began, in these turns and between them */
	uint64_t no_blocks; /* processes of which blocks of record_function are missing */
};

/* CRC-32 (polynomial 0x04c11db7 reflected, as in IEEE 802.3), continued from `crc` (0 at first). */
uint32_t trace_crc(uint32_t crc, const void *bytes, size_t len);

#endif
