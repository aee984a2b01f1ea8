#include <errno.h>
#include <string.h>

#include "symbolizer/code/internal.h"
#include "symbolizer/code/return_sites.h"

static bool begins(const char *name, const char *prefix)
{
	return !strncmp(name, prefix, strlen(prefix));
}

/* Itanium C++ ABI 5.1.4.3: D1 and D2 are the complete and base object destructors. The compiler
 * appends .part.0 and the like to its clones. */
static bool is_destructor(const char *name)
{
	const char *dot = strchr(name, '.');
	const char *end = dot ? dot : name + strlen(name);

	return end - name > 4 && (!strncmp(end - 4, "D1Ev", 4) || !strncmp(end - 4, "D2Ev", 4));
}

/* Asked of every symbol of a library. */
bool return_sites_cleanup_symbol(const char *name)
{
	if (!begins(name, "_Z"))
		return !strcmp(name, "free") || !strcmp(name, "pthread_mutex_unlock") ||
		       !strcmp(name, "__stack_chk_fail");
	if (!begins(name, "_ZN3c10"))
		/* operator delete, operator delete[] */
		return begins(name, "_ZdlPv") || begins(name, "_ZdaPv") ||
		       (begins(name, "_ZNSt") && is_destructor(name));
	return begins(name, "_ZN3c106SymInt8release_Ev") ||
	       (begins(name, "_ZN3c1013intrusive_ptrI") && strstr(name, "15reset_not_null_E")) ||
	       is_destructor(name);
}

void return_sites_set_frame(const struct return_sites_ctx *c, const struct exit_point *p,
			    struct func_facts *out)
{
	for (uint32_t i = 0; i < out->nexits; i++) {
		struct reg_state s = return_sites_state(c, p[i]);
		struct reg_value sp = s.r[ARCH_SP];
		out->frame_known = sp.kind == REG_FRAME && sp.off <= 0 &&
				   (!i || out->frame == 0U - (uint32_t)sp.off);
		if (!out->frame_known)
			return;
		out->frame = 0U - (uint32_t)sp.off;
	}
}

/* The state at the end of block `end`, given the state `start` at p; false when no path leads there
 * from p. */
static bool state_at_end(const struct return_sites_ctx *c, struct exit_point p,
			 const struct reg_state *start, uint32_t end, struct reg_state *s)
{
	uint32_t from = c->g.block[end].first;

	*s = c->after.in[end];
	if (end == p.block) {
		*s = *start;
		from = p.insn;
	}
	if (!s->seen)
		return false;
	for (uint32_t i = from; i < return_sites_last(&c->g, end); i++)
		reg_step(s, &c->g.insn[i]);
	return true;
}

static bool same_value(struct reg_value a, struct reg_value b)
{
	return !memcmp(&a, &b, sizeof(a));
}

/* The value of the result register at all returns reachable from p, in terms of the registers at p.
 */
static int result_after(struct return_sites_ctx *c, struct exit_point p, const struct reg_state *at,
			struct reg_value *result)
{
	struct reg_state start = reg_state_entry(), s;
	bool any = false;

	*result = (struct reg_value){.kind = REG_UNKNOWN};
	start.frame = &c->frame;
	for (unsigned r = 0; r < ARCH_REGS; r++)
		if (at->r[r].kind == REG_FRAME || r == ARCH_SP)
			start.r[r] = at->r[r];
	int rc = register_dataflow_run(&c->after, &c->g, p.block, p.insn, &start);
	if (rc == -ENOMEM)
		return rc;
	for (uint32_t i = 0; i < c->nend && !rc; i++) {
		if (!state_at_end(c, p, &start, c->end[i].block, &s))
			continue;
		struct reg_value v = s.r[ARCH_RESULT];
		if (!c->end[i].is_ret || (any && !same_value(v, *result)))
			v = (struct reg_value){.kind = REG_UNKNOWN};
		*result = v;
		any = true;
		if (v.kind == REG_UNKNOWN)
			break;
	}
	return 0;
}

/* Whether the slot keeps the value that it has at p. */
static bool slot_stays(struct return_sites_ctx *c, struct exit_point p, struct reg_value v)
{
	if (!slot_dataflow_private(&c->frame, v.off, v.width))
		return false;
	return_sites_mark_after(c, p.block);
	for (size_t i = 0; i < c->frame.nstore; i++) {
		const struct slot_dataflow_store *s = &c->frame.store[i];
		bool later = s->block == p.block ? s->insn >= p.insn : c->mark[s->block];
		if (later && slot_dataflow_overlaps(s, v.off, v.width))
			return false;
	}
	return true;
}

static bool is_first_arg(const struct return_sites_ctx *c, const struct reg_state *at,
			 struct reg_value v)
{
	if (v.kind == REG_START && v.width == 8)
		v = at->r[v.reg];
	v = slot_dataflow_resolve(&c->frame, v);
	return v.kind == REG_START && v.reg == ARCH_ARG0 && v.width == 8;
}

int return_sites_set_result(struct return_sites_ctx *c, const struct exit_point *p,
			    struct func_facts *out)
{
	bool hidden = true;

	for (uint32_t i = 0; i < out->nexits; i++) {
		struct reg_state at = return_sites_state(c, p[i]);
		struct reg_value v;
		if (result_after(c, p[i], &at, &v))
			return -ENOMEM;
		bool in_reg = v.kind == REG_START;
		uint8_t reg = in_reg ? v.reg : ARCH_NOREG;
		bool known = in_reg || (v.kind == REG_SLOT && slot_stays(c, p[i], v));
		hidden &= is_first_arg(c, &at, v);
		if (i && (reg != out->ret_reg || v.width != out->ret_width ||
			  (!in_reg && v.off != out->ret_sp_off)))
			known = false;
		out->ret_known = known && (!i || out->ret_known);
		out->ret_reg = reg;
		out->ret_width = v.width;
		out->ret_sp_off = in_reg ? 0 : v.off;
	}
	out->ret_is_hidden_ptr = hidden;
	if (!out->ret_known) {
		out->ret_reg = ARCH_NOREG;
		out->ret_width = 0;
		out->ret_sp_off = 0;
	}
	return 0;
}

/* The straight-line path from the entry. */
struct way {
	struct reg_state s;
	struct fp_slot xmm[ARCH_FP_ARGS];
};

/* Record a write of `width` bytes at frame offset `off`. False when it is outside the function's
 * own frame. */
static bool note_write(struct way *w, int32_t off, unsigned width)
{
	const struct slot_dataflow_store here = {.off = off, .width = (uint16_t)width};

	for (unsigned n = 0; n < ARCH_FP_ARGS; n++)
		if (w->xmm[n].known && slot_dataflow_overlaps(&here, w->xmm[n].sp_off, 8))
			w->xmm[n].known = false;
	return width && (int64_t)off + width <= 0;
}

static bool note_store(struct way *w, const struct arch_insn *i)
{
	struct reg_value at = {.kind = REG_UNKNOWN};
	int32_t off;

	if (i->base < ARCH_REGS)
		at = w->s.r[i->base];
	if (at.kind != REG_FRAME || i->index || __builtin_add_overflow(at.off, i->disp, &off) ||
	    !note_write(w, off, i->width))
		return false;
	if (i->fp_src < ARCH_FP_ARGS && (w->s.fp >> i->fp_src & 1) && i->width >= 8)
		w->xmm[i->fp_src] = (struct fp_slot){true, off};
	return true;
}

/* Step over one instruction; false when the entry cannot be deferred beyond it. */
static bool walk_on(struct way *w, const struct arch_insn *i)
{
	bool own = true;

	if (i->flow != ARCH_FLOW_NEXT)
		return false;
	if (i->effect == ARCH_EFF_STORE)
		own = note_store(w, i);
	reg_step(&w->s, i);
	if (w->s.r[ARCH_SP].kind != REG_FRAME)
		return false;
	if (i->effect == ARCH_EFF_PUSH)
		own = note_write(w, w->s.r[ARCH_SP].off, 8);
	return own;
}

/* Number of spill slots that only the function itself can write. */
static unsigned count_kept(const struct way *w)
{
	unsigned n = 0;

	for (unsigned k = 0; k < ARCH_FP_ARGS; k++)
		n += w->xmm[k].known && w->xmm[k].sp_off >= w->s.r[ARCH_SP].off - ARCH_RED_ZONE;
	return n;
}

static uint8_t register_of_arg(const struct way *w, unsigned n)
{
	uint8_t own = arch_int_arg[n], found = ARCH_NOREG;

	for (unsigned r = 0; r < ARCH_REGS; r++) {
		const struct reg_value *v = &w->s.r[r];
		if (v->kind != REG_START || v->reg != own || v->width != 8)
			continue;
		if (found == ARCH_NOREG || r == own)
			found = (uint8_t)r;
	}
	return found;
}

static void deferred_entry_fill(const struct way *w, uint32_t off, struct deferred_entry *out)
{
	*out = (struct deferred_entry){.off = off, .sp = 0U - (uint32_t)w->s.r[ARCH_SP].off};
	for (unsigned n = 0; n < ARCH_INT_ARGS; n++)
		out->arg[n] = register_of_arg(w, n);
	for (unsigned n = 0; n < ARCH_FP_ARGS; n++)
		if (w->xmm[n].known && w->xmm[n].sp_off >= w->s.r[ARCH_SP].off - ARCH_RED_ZONE)
			out->xmm[n] = w->xmm[n];
}

static bool has_exit_before(const struct exit_point *p, unsigned n, uint32_t insn)
{
	for (unsigned i = 0; i < n; i++)
		if (p[i].block == 0 && p[i].insn <= insn)
			return true;
	return false;
}

void return_sites_set_late(const struct return_sites_ctx *c, const struct exit_point *p,
			   struct func_facts *out)
{
	const struct cfg_block *b = &c->g.block[0];
	struct way w = {.s = reg_state_entry()};
	unsigned have = 0;

	for (uint32_t i = b->first; !b->npred && i < b->first + b->n; i++) {
		const struct arch_insn *insn = &c->g.insn[i];
		unsigned n = count_kept(&w);
		if (has_exit_before(p, out->nexits, i))
			return;
		if (insn->emulated && n > have) {
			deferred_entry_fill(&w, insn->off, &out->late);
			have = n;
		}
		if (!walk_on(&w, insn))
			return;
	}
}
