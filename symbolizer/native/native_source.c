/* What the files of a process say of one address: how to unwind from it, and its source lines. */
#define _GNU_SOURCE
#include <dwarf.h>
#include <elfutils/libdw.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "symbolizer/code/arch_x86_64.h"
#include "symbolizer/native/internal.h"

enum { DWARF_BP = 6, DWARF_RA = 16, WORD = 8 };

/* The stack pointer of the caller. False: it is said in another way. */
static bool rule_cfa(Dwarf_Frame *row, struct unwind_rule *out)
{
	Dwarf_Op *ops;
	size_t n;
	if (dwarf_frame_cfa(row, &ops, &n) || !n)
		return false;
	const Dwarf_Sword off =
	    (Dwarf_Sword)(ops[0].atom == DW_OP_bregx ? ops[0].number2 : ops[0].number);
	const bool is_bp =
	    ops[0].atom == DW_OP_breg6 || (ops[0].atom == DW_OP_bregx && ops[0].number == DWARF_BP);
	const bool is_sp = ops[0].atom == DW_OP_breg7 ||
			   (ops[0].atom == DW_OP_bregx && ops[0].number == ARCH_DWARF_SP);
	if (off != (int32_t)off)
		return false;
	out->cfa = (int32_t)off;
	if (n == 1 && is_sp)
		out->kind = UNWIND_SP;
	else if (n == 1 && is_bp)
		out->kind = UNWIND_BP;
	else if (n == 2 && is_bp && ops[1].atom == DW_OP_deref)
		out->kind = UNWIND_SAVED;
	return out->kind != UNWIND_STUCK;
}

/* Where a register of the caller is kept: *off bytes from the frame address, or from rbp if *by_bp.
 * 1; 0: it is unchanged; -1: it is lost, or said in another way. */
static int rule_saved(Dwarf_Frame *row, int reg, Dwarf_Sword *off, bool *by_bp)
{
	Dwarf_Op mem[3], *ops;
	size_t n;
	if (dwarf_frame_register(row, reg, mem, &ops, &n))
		return -1;
	if (!n)
		return ops ? -1 : 0;
	*by_bp = ops[0].atom == DW_OP_breg6;
	*off = *by_bp ? (Dwarf_Sword)ops[0].number : 0;
	if (n == 1)
		return *by_bp || ops[0].atom == DW_OP_call_frame_cfa ? 1 : -1;
	if (n != 2 || ops[0].atom != DW_OP_call_frame_cfa || ops[1].atom != DW_OP_plus_uconst)
		return -1;
	*off = (Dwarf_Sword)ops[1].number;
	return 1;
}

static struct unwind_rule rule_of(Dwarf_Frame *row)
{
	const struct unwind_rule stuck = {.kind = UNWIND_STUCK};
	struct unwind_rule out = stuck;
	Dwarf_Sword off = 0;
	bool by_bp = false, is_signal = false;
	dwarf_frame_info(row, NULL, NULL, &is_signal);
	int ra = rule_saved(row, DWARF_RA, &off, &by_bp);
	if (ra < 0 && !is_signal)
		return (struct unwind_rule){.kind = UNWIND_END};
	if (ra != 1 || is_signal || by_bp || off != -WORD || !rule_cfa(row, &out))
		return stuck;
	int bp = rule_saved(row, DWARF_BP, &off, &by_bp);
	if (bp < 0 || off != (int16_t)off)
		return stuck;
	out.bp_saved = !bp ? UNWIND_BP_SAME : by_bp ? UNWIND_BP_AT_BP : UNWIND_BP_AT_CFA;
	out.bp = bp ? (int16_t)off : 0;
	return out;
}

bool native_stacks_rule(struct native_stacks *s, uint64_t pc, struct unwind_rule *out)
{
	Dwfl_Module *mod = native_stacks_module(s, pc - 1);
	if (!mod)
		return false;
	Dwarf_Frame *row = native_stacks_row(mod, pc - 1);
	*out = row ? rule_of(row) : (struct unwind_rule){.kind = UNWIND_STUCK};
	free(row);
	return true;
}

const char *native_stacks_file(const struct native_stacks *s, uint64_t pc)
{
	Dwfl_Module *mod = native_stacks_module(s, pc);
	return mod ? dwfl_module_info(mod, NULL, NULL, NULL, NULL, NULL, NULL, NULL) : NULL;
}

static const char *function_name(struct native_stacks *s, Dwarf_Die *die)
{
	Dwarf_Attribute at;
	const char *linked = dwarf_formstring(dwarf_attr_integrate(die, DW_AT_linkage_name, &at));
	const char *plain = linked ? NULL : dwarf_diename(die);
	return linked ? native_stacks_demangle(s, linked)
		      : native_stacks_keep(s, plain ? plain : "?");
}

/* Where the inlined function `die` is called. */
static void call_place(struct native_stacks *s, Dwarf_Die *cu, Dwarf_Die *die,
		       struct native_source *out)
{
	Dwarf_Attribute at;
	Dwarf_Files *files;
	Dwarf_Word file = 0, line = 0;
	dwarf_formudata(dwarf_attr(die, DW_AT_call_file, &at), &file);
	dwarf_formudata(dwarf_attr(die, DW_AT_call_line, &at), &line);
	const char *name =
	    dwarf_getsrcfiles(cu, &files, NULL) ? NULL : dwarf_filesrc(files, file, NULL, NULL);
	out->file = name ? native_stacks_keep(s, name) : NULL;
	out->line = (int)line;
}

/* Physical nesting: from the innermost scope outwards. */
static unsigned add_scopes(struct native_stacks *s, Dwarf_Die *cu, Dwarf_Die *scopes, int n,
			   struct native_source *out, unsigned most)
{
	unsigned found = 0;
	for (int i = 0; i < n && found < most; i++) {
		const int tag = dwarf_tag(&scopes[i]);
		if (tag != DW_TAG_inlined_subroutine && tag != DW_TAG_subprogram)
			continue;
		out[found++].function = function_name(s, &scopes[i]);
		if (tag == DW_TAG_subprogram)
			break;
		if (found < most)
			call_place(s, cu, &scopes[i], &out[found]);
	}
	return found;
}

unsigned native_stacks_source(struct native_stacks *s, uint64_t pc, struct native_source *out,
			      unsigned most)
{
	Dwfl_Module *mod = native_stacks_module(s, pc);
	Dwarf_Addr bias = 0;
	Dwarf_Die *cu = mod && most ? dwfl_module_addrdie(mod, pc, &bias) : NULL;
	Dwfl_Line *at = cu ? dwfl_module_getsrc(mod, pc) : NULL;
	Dwarf_Die *inner = NULL, *scopes = NULL;
	int line = 0;
	const char *file = at ? dwfl_lineinfo(at, NULL, &line, NULL, NULL, NULL) : NULL;
	if (!file || dwarf_getscopes(cu, pc - bias, &inner) <= 0)
		return 0;
	memset(out, 0, most * sizeof(*out));
	out[0].file = native_stacks_keep(s, file);
	out[0].line = line;
	int n = dwarf_getscopes_die(inner, &scopes);
	unsigned found = n > 0 ? add_scopes(s, cu, scopes, n, out, most) : 0;
	free(scopes);
	free(inner);
	return found;
}
