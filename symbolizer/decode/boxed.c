#include <string.h>

#include "symbolizer/code/arch_x86_64.h"
#include "symbolizer/decode/target.h"
#include "symbolizer/ops/ops.h"

static const char lookup_symbol[] = "_ZN5torch3jit18getAllOperatorsForEN3c106SymbolE";

enum {
	CANDIDATES = 32,
	CODE_MAX = 1024,
	REGISTRY_WORDS = 48, /* words of an OperatorRegistry to search */
	OPERATOR_WORDS = 40,
	AGREE = 3, /* operators that must agree on the function */
	OPERATORS_MAX =
	    1 << 14, /* examined at most; those of TorchScript alone come first and have none */
	READS_MAX = 1 << 17, /* of operators and nodes, for each candidate */
};

struct boxed {
	struct elf_file *cpu;
	const struct mem *mem;
	struct registry *registry;
	uint64_t bias, text, text_end;
	uint64_t data[CANDIDATES]; /* addresses in the process that the lookup's code takes */
	unsigned ndata;
	uint64_t found;
	unsigned votes;
	unsigned reads; /* of this candidate */
};

static void add_data(struct boxed *b, uint64_t vaddr)
{
	for (unsigned i = 0; i < b->ndata; i++)
		if (b->data[i] == vaddr + b->bias)
			return;
	if (b->ndata < CANDIDATES)
		b->data[b->ndata++] = vaddr + b->bias;
}

/* Collect the addresses of data that the function at `vaddr` and its direct callees take. */
static void collect(struct boxed *b, struct arch_decoder *d, uint64_t vaddr, int level)
{
	uint64_t len = CODE_MAX;
	const uint8_t *code = elf_bytes(b->cpu, vaddr, len);
	struct arch_insn i;
	for (uint32_t off = 0; code && off < len && !arch_decode(d, code, len, vaddr, off, &i);
	     off += i.len) {
		if (i.effect == ARCH_EFF_LEA && i.base == ARCH_NOREG && i.target)
			add_data(b, i.target);
		if (i.flow == ARCH_FLOW_CALL && level == 0)
			collect(b, d, i.target, 1);
		if (i.flow == ARCH_FLOW_RET && off > 64)
			break;
	}
}

static bool goes_on(const struct boxed *b)
{
	return b->votes < AGREE && b->reads < READS_MAX;
}

static bool is_code(const struct boxed *b, uint64_t addr)
{
	return addr >= b->text && addr < b->text_end;
}

/* The Operator of a c10 operator holds an OperatorHandle and a std::function: {16 bytes, manager,
 * invoker}. */
static void look_at_operator(struct boxed *b, uint64_t addr)
{
	uint64_t w[OPERATOR_WORDS];
	b->reads++;
	if (mem_read(b->mem, addr, w, sizeof(w)))
		return;
	for (unsigned i = 3; i < OPERATOR_WORDS; i++) {
		if (!is_code(b, w[i]) || !is_code(b, w[i - 1]))
			continue;
		uint64_t key[HANDLE_WORDS] = {addr + 8 * (i - 3), w[i - 3], w[i - 2]};
		mem_read(b->mem, w[i - 3], &key[3], 16);
		if (!registry_is_operator(b->registry, key))
			return;
		if (b->found && b->found != w[i])
			b->votes = 0;
		b->found = w[i];
		b->votes++;
		return;
	}
}

/* {begin, end} of a vector of shared_ptr<Operator>, 16 bytes each. */
static void look_at_vector(struct boxed *b, uint64_t begin, uint64_t end)
{
	uint64_t op;
	if (begin < 4096 || end <= begin || (end - begin) % 16 || (begin & 7))
		return;
	for (uint64_t i = 0; i < OPERATORS_MAX && begin + 16 * i < end && goes_on(b); i++) {
		if (mem_read_u64(b->mem, begin + 16 * i, &op) || op <= 4096 || (op & 7))
			return;
		look_at_operator(b, op);
	}
}

/* Walk the nodes of an unordered_map<Symbol, vector<...>>: {next, key, begin, end, ...}. Memory
 * that is no such map may contain a cycle, so remember one node, replaced at ever longer intervals,
 * and stop on meeting it again. */
static void look_at_nodes(struct boxed *b, uint64_t node)
{
	uint64_t w[4], met = 0;
	for (unsigned i = 0; i < OPERATORS_MAX && node > 4096 && !(node & 7) && goes_on(b); i++) {
		b->reads++;
		if (node == met || mem_read(b->mem, node, w, sizeof(w)))
			return;
		if (!(i & (i + 1)))
			met = node;
		look_at_vector(b, w[2], w[3]);
		node = w[0];
	}
}

static void look_at_registry(struct boxed *b, uint64_t at)
{
	uint64_t w[REGISTRY_WORDS];
	b->reads = 0;
	if (mem_read(b->mem, at, w, sizeof(w)))
		return;
	for (unsigned i = 0; i + 1 < REGISTRY_WORDS && goes_on(b); i++) {
		look_at_vector(b, w[i], w[i + 1]);
		look_at_nodes(b, w[i]);
	}
}

uint64_t boxed_find(struct elf_file *cpu, uint64_t bias, uint64_t text, uint64_t text_end,
		    const struct mem *m, struct registry *g)
{
	struct boxed b = {
	    .cpu = cpu, .mem = m, .registry = g, .bias = bias, .text = text, .text_end = text_end};
	uint64_t code = elf_find_dynamic(cpu, lookup_symbol, NULL);
	struct arch_decoder *d = code ? arch_decoder_new() : NULL;
	if (!d)
		return 0;
	collect(&b, d, code, 0);
	arch_decoder_free(d);
	for (unsigned i = 0; i < b.ndata && b.votes < AGREE; i++)
		look_at_registry(&b, b.data[i]);
	return b.votes >= AGREE ? b.found : 0;
}

/* The word in the first item, BOXED_DATA, may differ between calls. The header of the second item
 * and the words of the handle follow it. */
enum { HEAD = sizeof(struct item), SECOND_AT = HEAD + 8, WORDS_AT = SECOND_AT + HEAD };

static uint32_t place(const struct items *it)
{
	uint64_t w[2];
	memcpy(w, it->data + WORDS_AT, sizeof(w));
	return (uint32_t)((w[0] ^ w[1]) * 0x9e3779b97f4a7c15u >> 56) % BOXED_SEEN;
}

/* Length in bytes of the items that name the operator; 0 if any is missing or they are too long. */
static uint32_t length(const struct items *it)
{
	const struct item *i = NULL;
	for (unsigned read = BOXED_DATA; read <= BOXED_OVERLOAD; read++) {
		i = items_next(it, i);
		if (!i || i->read != read || (read == BOXED_DATA && i->len != 8))
			return 0;
	}
	uint32_t len = (uint32_t)((const uint8_t *)(i + 1) - it->data) + ((i->len + 7u) & ~7u);
	return len <= BOXED_SEEN_BYTES && len >= WORDS_AT + 16 ? len : 0;
}

const struct registered_op *boxed_seen_find(const struct boxed_seen *all, const struct items *it)
{
	if (it->len < WORDS_AT + 16)
		return NULL;
	const struct boxed_seen *s = &all[place(it)];
	uint64_t data;
	memcpy(&data, it->data + HEAD, sizeof(data));
	return s->op && data && it->len >= s->len && !memcmp(s->bytes, it->data, HEAD) &&
		       !memcmp(s->bytes + SECOND_AT, it->data + SECOND_AT, s->len - SECOND_AT)
		   ? s->op
		   : NULL;
}

void boxed_seen_add(struct boxed_seen *all, const struct items *it, const struct registered_op *op)
{
	uint32_t len = length(it);
	if (!len)
		return;
	struct boxed_seen *s = &all[place(it)];
	*s = (struct boxed_seen){.op = op, .len = len};
	memcpy(s->bytes, it->data, len);
}
