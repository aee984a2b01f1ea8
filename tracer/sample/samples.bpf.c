/* The eBPF side of sampling: with each sample of perf_event_open(2) it sends the Python frames of
 * the thread at that moment, before the sample itself is put into its buffer. */
#define __bpf__ 1
#include <linux/bpf.h>
#include <linux/bpf_perf_event.h>
#include <linux/ptrace.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_core_read.h>

#include "symbolizer/plan/plan.h"

char LICENSE[] SEC("license") = "GPL";

#define BUF_MAX (4 << 10)
#include "tracer/engine/bpf/sum_rows.h"
#include "tracer/engine/bpf/state.bpf.h"
#include "tracer/engine/bpf/pywalk.bpf.h"
#include "tracer/sample/code_print.bpf.h"

/* How to walk a process, by its PID in ditrace's namespace. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 256);
	__type(key, __u32);
	__type(value, struct proc_conf);
} sampled_procs SEC(".maps");

static __always_inline void put_top(struct bpf_thread *t, __u64 frame)
{
	struct item *it = begin_item(t, ITEM_DATA, 0, 0);
	if (!it)
		return;
	put_word(t, t->tstate);
	put_word(t, t->now_instr);
	put_word(t, frame);
	it->len = 24;
}

/* The frame where the walk begins; t->now_instr: the _PyCFrame that points to it, where Python has
 * them. */
static __always_inline __u64 first_frame(struct bpf_thread *t, const struct py_walk *w)
{
	__u64 frame = window_word(t, w->tw_frame);
	t->now_instr = 0;
	if (frame && w->cframe_frame != PY_NO_OFFSET) {
		t->now_instr = frame;
		frame = user_word(frame + w->cframe_frame);
	}
	return frame;
}

static __always_inline void begin_record(struct bpf_thread *t)
{
	struct hit *h = (struct hit *)t->buf;
	h->size = 0;
	h->kind = HIT_PYTHON;
	h->flags = 0;
	h->depth = 0;
	h->op = 0;
	h->proc = 0;
	h->generation = 0;
	h->tid = t->tid;
	h->stop = 0;
	h->ts = bpf_ktime_get_ns();
	h->seq = 0;
	h->sp = 0;
	t->off = sizeof(*h);
	t->stop = 0;
}

/* Append the Python frames and the prints of their code objects, and send the record, then those of
 * code objects. */
static __always_inline void send_frames(struct bpf_thread *t, struct printer *m,
					const struct proc_conf *p, __u32 pid)
{
	__u64 frame = find_tstate(t, p) ? first_frame(t, &p->py) : 0;
	put_top(t, frame);
	__u32 at = t->off + sizeof(struct item);
	put_frames(t, p, frame, 0, 0);
	__u32 n = t->off > at ? (t->off - at) / STACK_FRAME_SIZE : 0;
	put_prints(t, m, p, pid, at, n);
	send(t, 0);
	send_copies(t, m, p, pid);
}

/* Returns 1, which lets the sample be taken. */
SEC("perf_event")
int sample_python(struct bpf_perf_event_data *ctx)
{
	struct bpf_pidns_info ns = {};
	(void)ctx;
	if (bpf_get_ns_current_pid_tgid(ns_dev, ns_ino, &ns, sizeof(ns)))
		return 1;
	const struct proc_conf *p = bpf_map_lookup_elem(&sampled_procs, &ns.tgid);
	struct bpf_thread *t = p ? this_thread() : 0;
	__u32 zero = 0;
	struct printer *m = bpf_map_lookup_elem(&printers, &zero);
	if (!t || !m)
		return 1;
	struct task_struct *task = (struct task_struct *)bpf_get_current_task();
	t->fsbase = BPF_CORE_READ(task, thread.fsbase);
	begin_record(t);
	send_frames(t, m, p, ns.tgid);
	return 1;
}

SEC("raw_tp/sched_process_exit")
int sampled_thread_exit(void *ctx)
{
	(void)ctx;
	__u32 tid = (__u32)bpf_get_current_pid_tgid();
	bpf_map_delete_elem(&threads, &tid);
	return 0;
}
