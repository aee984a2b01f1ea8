#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "symbolizer/ops/grads_function.h"
#include "symbolizer/ops/ops_internal.h"

/* Symbols that are looked for by their whole name, in libtorch_cpu and in libtorch_python. Mangled
 * by the Itanium C++ ABI, section 5.1. */
static const struct wanted {
	const char *name;
	uint8_t role, file;
} wanted[] = {
    {"_ZN5torch8autograd6Engine17evaluate_functionERSt10shared_ptrINS0_9GraphTaskEEPNS0_4NodeERNS0_"
     "11InputBufferE"
     "RKS2_INS0_10ReadyQueueEE",
     ROLE_ENGINE, OPS_CPU},
    {"_ZN5torch8autograd6PyNode5applyEOSt6vectorIN2at6TensorESaIS4_EE", ROLE_PY_NODE, OPS_PYTHON},
    /* 1.13: exported; later in an unnamed namespace, with a keyword-argument parameter. */
    {"_Z17THPFunction_applyP7_objectS0_", ROLE_FUNCTION, OPS_PYTHON},
    {"_ZN12_GLOBAL__N_117THPFunction_applyEP7_objectS1_S1_", ROLE_FUNCTION, OPS_PYTHON},
    {"_ZN12_GLOBAL__N_117THPFunction_applyEP7_objectS1_", ROLE_FUNCTION, OPS_PYTHON},
};

static bool has_prefix(const char *s, const char *prefix)
{
	return !strncmp(s, prefix, strlen(prefix));
}

static bool has_suffix(const char *s, const char *suffix)
{
	size_t n = strlen(s), m = strlen(suffix);
	return n >= m && !strcmp(s + n - m, suffix);
}

/* at::_ops::NAME::call(...) */
static bool is_op_call(const char *s)
{
	if (!has_prefix(s, "_ZN2at4_ops"))
		return false;
	char *end;
	unsigned long len = strtoul(s + 11, &end, 10);
	return len > 0 && len < strlen(end) && has_prefix(end + len, "4callE");
}

/* SOMETHING::apply(std::vector<at::Tensor>&&): the backward of a node class. Substitutions differ
 * with the class's nesting: S_, S0_ ... */
static bool is_node_apply(const char *s)
{
	if (!has_prefix(s, "_ZN") || !strstr(s, "autograd"))
		return false;
	const char *at = strstr(s, "5applyEOSt6vectorIN2at6TensorESaIS");
	return at && has_suffix(at, "_EE") && !has_prefix(s, "_ZN5torch8autograd6PyNode");
}

static int add_found(struct build *b, uint8_t role, const struct elf_symbol *s)
{
	if (b->nfound == b->room) {
		size_t room = b->room ? 2 * b->room : 4096;
		struct found *f = reallocarray(b->found, room, sizeof(*f));
		if (!f)
			return -ENOMEM;
		b->found = f;
		b->room = room;
	}
	b->found[b->nfound++] = (struct found){s->name, s->vaddr, s->size, role, b->file};
	return 0;
}

static int on_symbol(const struct elf_symbol *s, void *arg)
{
	struct build *b = arg;
	int role = -1;
	if (!s->is_function || !s->size || strchr(s->name, '.'))
		return 0;
	if (!s->from_symtab && b->file == OPS_CPU && is_op_call(s->name)) {
		role = ROLE_CALL;
		b->std_optional |= strstr(s->name, "St8optional") != NULL;
	} else if (!s->from_symtab && is_node_apply(s->name)) {
		role = ROLE_NODE;
	}
	for (size_t i = 0; role < 0 && i < sizeof(wanted) / sizeof(wanted[0]); i++)
		if (wanted[i].file == b->file && !strcmp(s->name, wanted[i].name))
			role = wanted[i].role;
	for (size_t i = 0; role >= 0 && s->from_symtab && i < b->nfound; i++)
		if (b->found[i].file == b->file && b->found[i].vaddr == s->vaddr)
			role = -1;
	return role < 0 ? 0 : add_found(b, (uint8_t)role, s);
}

bool ops_has_no_place(uint8_t role)
{
	return role == ROLE_BOXED || role == ROLE_NAMED || role == ROLE_NAMED_NODE;
}

/* The boxed call is found later, in the live process; it has its place from the beginning. */
static int add_placeless(struct build *b)
{
	static const uint8_t roles[] = {ROLE_BOXED, ROLE_NAMED, ROLE_NAMED_NODE};
	struct elf_symbol s = {.name = ""};
	int r = 0;
	b->file = OPS_CPU;
	for (size_t i = 0; !r && i < sizeof(roles); i++)
		r = add_found(b, roles[i], &s);
	return r;
}

/* Has no symbol in some builds. */
static int add_grads(struct build *b)
{
	struct elf_symbol s = {.name = "torch::autograd::validate_outputs"};
	b->file = OPS_CPU;
	if (!grads_function_find(b->elf[OPS_CPU], b->callees[OPS_CPU], &s.vaddr, &s.size))
		return 0;
	return add_found(b, ROLE_GRADS, &s);
}

int ops_find(struct build *b)
{
	int r = 0;
	for (b->file = 0; !r && b->file < OPS_FILES; b->file++)
		if (b->elf[b->file] && b->file != OPS_C10)
			r = elf_each_symbol(b->elf[b->file], b->file == OPS_PYTHON, on_symbol, b);
	r = r ? r : add_grads(b);
	return r ? r : add_placeless(b);
}
