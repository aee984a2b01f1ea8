#define _GNU_SOURCE
#include <string.h>

#include "symbolizer/code/arch_x86_64.h"
#include "symbolizer/ops/ops_internal.h"
#include "symbolizer/torch/node_offset.h"

/* parseSchema(const std::string &), in later versions with a bool behind it
 * (torch/csrc/jit/frontend/function_schema_parser.h); the last two with the std::string of before
 * C++11. */
static const char *const parse_schema[] = {
    "_ZN5torch3jit11parseSchemaERKNSt7__cxx1112basic_stringIcSt11char_traitsIcESaIcEEEb",
    "_ZN5torch3jit11parseSchemaERKNSt7__cxx1112basic_stringIcSt11char_traitsIcESaIcEEE",
    "_ZN5torch3jit11parseSchemaERKSsb",
    "_ZN5torch3jit11parseSchemaERKSs",
};
enum { FIRST_COW = 2 };
const char ops_dispatched[] = "_ZN2at27getStepCallbacksUnlessEmptyENS_11RecordScopeE";

static uint64_t build_find(struct build *b, unsigned file, const char *name)
{
	return b->elf[file] ? elf_find_dynamic(b->elf[file], name, NULL) : 0;
}

static const uint8_t *code_of(void *ctx, const char *mangled, size_t *len)
{
	struct build *b = ctx;
	for (unsigned i = 0; i < OPS_FILES; i++) {
		uint64_t size = 0, at = b->elf[i] ? elf_find_dynamic(b->elf[i], mangled, &size) : 0;
		if (!at || !size)
			continue;
		*len = size;
		return elf_bytes(b->elf[i], at, size);
	}
	return NULL;
}

/* c10::Scalar::conj() first compares the tag with HAS_z (c10/core/Scalar.cpp): cmp r32, imm. */
static uint8_t complex_tag(struct build *b)
{
	size_t len = 0;
	const uint8_t *code = code_of(b, "_ZNK3c106Scalar4conjEv", &len);
	struct arch_decoder *d = code ? arch_decoder_new() : NULL;
	struct arch_insn i = {0};
	uint8_t tag = 0;
	for (uint32_t off = 0; d && off < len && !arch_decode(d, code, len, 0, off, &i);
	     off += i.len) {
		if (i.flow != ARCH_FLOW_NEXT)
			break;
		if (i.effect != ARCH_EFF_COMPARE)
			continue;
		tag = i.disp == 2 || i.disp == 3 ? (uint8_t)i.disp : 0;
		break;
	}
	arch_decoder_free(d);
	return tag;
}

/* libc10 names all device types (c10/core/DeviceType.cpp); "mtia" came in before PrivateUse1, which
 * made 21. */
static uint8_t count_device_types(struct build *b)
{
	uint64_t at;
	size_t size = 0;
	const uint8_t *ro =
	    b->elf[OPS_C10] ? elf_section(b->elf[OPS_C10], ".rodata", &at, &size) : NULL;
	return !ro || memmem(ro, size, "mtia", 5) ? 21 : 20;
}

void ops_find_parse_schema(struct build *b)
{
	unsigned i = 0, n = sizeof(parse_schema) / sizeof(parse_schema[0]);
	uint64_t at = 0;
	while (i < n && !(at = build_find(b, OPS_CPU, parse_schema[i])))
		i++;
	int64_t off = at ? elf_offset(b->elf[OPS_CPU], at) : -1;
	b->t->schema_off = off > 0 ? (uint64_t)off : 0;
	b->t->cow_strings = at && i >= FIRST_COW;
}

void ops_read_facts(struct build *b)
{
	struct op_table *t = b->t;
	struct code_source src = {code_of, b};
	accessors_read(&src, &t->facts);
	t->ndevice_types = count_device_types(b);
	t->scalar_complex_tag = complex_tag(b);
	t->node_seq = node_seq_offset(b->elf[OPS_CPU]);
	t->undefined = build_find(b, OPS_C10, "_ZN3c1019UndefinedTensorImpl10_singletonE");
	t->vt_meta[0] = build_find(b, OPS_CPU, "_ZTVN5torch8autograd12AutogradMetaE");
	t->vt_meta[1] = build_find(b, OPS_CPU, "_ZTVN5torch8autograd22DifferentiableViewMetaE");
	t->vt_impl = build_find(b, OPS_C10, "_ZTVN3c1010TensorImplE");
	for (unsigned i = 0; i < OPS_FILES; i++)
		t->vt_storage[i] = build_find(b, i, "_ZTVN3c1011StorageImplE");
	uint64_t cb = build_find(b, OPS_CPU, ops_dispatched);
	int64_t off = cb ? elf_offset(b->elf[OPS_CPU], cb) : -1;
	t->dispatch_off = off > 0 ? (uint64_t)off : 0;
	interned_places(b->elf[OPS_CPU], t->interned);
	t->pynode_vtable = b->elf[OPS_PYTHON]
			       ? elf_find(b->elf[OPS_PYTHON], "_ZTVN5torch8autograd6PyNodeE", NULL)
			       : 0;
	op_table_set_pynode(t, 0);
}
