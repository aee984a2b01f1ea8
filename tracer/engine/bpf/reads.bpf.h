/* The reads of the plan. Part of probes.bpf.c. */

/* What tracer/engine/plan_exec.h asks for. */

typedef struct exec {
	struct bpf_thread *t;
	const struct proc_conf *conf;
	int is_exit;
} exec_t;

/* bpf_probe_read_user and all that go by it take any address. */
#define exec_read(x, to, n, from) read_user(to, n, from)
#define exec_read_sure exec_read
#define exec_read_unsure exec_read
#define exec_word(x, addr) user_word(addr)
#define exec_word_unsure exec_word
#define exec_byte(x, addr) user_byte(addr)
#define exec_byte_unsure exec_byte
#define exec_item(x, kind, read, aux) begin_item((x)->t, kind, (__u8)(read), aux)
#define exec_copy(x, len, addr) copy_user((x)->t, len, addr)
#define exec_copy_object(x, len, addr) copy_object((x)->t, len, addr)
#define exec_put_word(x, w) put_word((x)->t, w)
#define exec_each(n, fn, arg) bpf_loop(n, fn, arg, 0)
#define exec_tensor(x, impl, read) put_tensor((x)->t, (x)->conf, impl, read, (x)->is_exit)
#define exec_kind(x, tag, obj) ((void)(tag), 0)
#define exec_doubt(x, unsure) ((void)0)
#define EXEC_FUNCTION static __noinline

enum { EXEC_LIST_MAX = 128 }; /* as copy_user takes no more */

static __always_inline __u64 exec_word_at(const exec_t *x, __u8 loc)
{
	struct bpf_thread *t = x->t;
	if (loc & LOC_NOW) {
		__u32 r = loc & 31;
		return r < REGS ? t->regs[r] : 0;
	}
	return t->open[(t->depth - 1) & (OPEN_MAX - 1)].w[loc & (LOC_MAX - 1)];
}

__noinline int put_tensor(struct bpf_thread *t, const struct proc_conf *p, __u64 impl, __u32 read,
			  int is_exit);

#include "tracer/engine/plan_exec.h"

/* One read of the plan. `r` is its index. */
__noinline int do_read(struct bpf_thread *t, const struct proc_conf *p, const struct op_plan *plan,
		       __u32 r, int is_exit)
{
	if (!t || !p || !plan || r >= PLAN_READS)
		return 0;
	const exec_t x = {t, p, is_exit};
	exec_run(&x, &plan->read[r], t->open[(t->depth - 1) & (OPEN_MAX - 1)].sp, r);
	return 0;
}
