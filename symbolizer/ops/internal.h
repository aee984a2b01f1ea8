/* Internals of symbolizer/ops: building an op table; the function that finalises gradients. */
#ifndef SYMBOLIZER_OPS_INTERNAL_H
#define SYMBOLIZER_OPS_INTERNAL_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/stat.h>

#include "symbolizer/ops/ops.h"
#include "symbolizer/ops/schema.h"
#include "symbolizer/target/elf.h"

/* Building an op table. */

/* A function to probe, from the symbol tables. */
struct found {
	const char *symbol;
	uint64_t vaddr, size;
	uint8_t role, file;
};

struct build {
	struct op_table *t;
	struct elf_file *elf[OPS_FILES];
	struct callees *callees[OPS_FILES];
	struct schema_index schemas;
	bool std_optional; /* this build uses std::optional, also in OptionalArrayRef */
	struct found *found;
	size_t nfound, room;
	uint8_t file;	  /* the file being read */
	bool jumps;	  /* sites are windows, of libtorch_cpu and libc10 alone */
	bool local_waits; /* OPS_COLLECTIVES */
	struct windows_ops windows[OPS_FILES];
	uint16_t accumulated;		  /* offset of AccumulateGrad's variable; 0: unknown */
	bool *planned;			  /* lazy tables: by op, whether it is planned */
	int cache;			  /* as in op_table_load */
	struct stat file_stat[OPS_FILES]; /* zeros: there is no such file */
};

/* Fill b->found from the symbols of the open files. Returns 0 or -ENOMEM. */
int ops_find(struct build *b);

/* Describe and plan every op found, into the table's ops and plans (b->nfound each), and fill
 * `facts`, as many, or read them from b->cache. Returns 0 or -ENOMEM. */
int ops_plan_all(struct build *b, struct func_facts *facts);

/* The same with facts that are `known`, or not: then they are found by analysis of the code. */
int ops_plan_known(struct build *b, struct func_facts *facts, bool known);

/* The same for op `i` only. */
int ops_plan_one(struct build *b, uint32_t i, struct func_facts *facts);

/* For windows_ops.is_shared, of a function of which another name does the same: constructors have
 * two (Itanium C++ ABI, 5.1.4.3). False. */
bool ops_is_not_shared(void *arg, uint64_t start, size_t len);

/* What return_sites_analyze says of the function's code or, with jumps, windows_find; no exit where
 * that is not understood. 0 or -ENOMEM. */
int ops_analyze(const struct build *b, const struct found *f, struct return_sites_ctx *x,
		struct func_facts *facts);

/* Find where to probe the function at `at`, `size` bytes (0: none), of op number `op`, whose file
 * has the callees `c`; with `jumps`, windows for jumps. out->n stays 0 where there are no such
 * places. 0 or -ENOMEM. */
int ops_sites_at(struct elf_file *f, struct callees *c, uint64_t at, uint64_t size, uint32_t op,
		 bool jumps, struct op_sites *out);

/* Target of the first jump out of the function at `vaddr` of the file; 0 if there is none. */
uint64_t ops_tail_target(struct elf_file *f, uint64_t vaddr);

/* For jumps: fill the table's `step`. 0 or -ENOMEM. */
int ops_find_steps(struct build *b);

/* For jumps: fill the table's `memory`. 0 or -ENOMEM. */
int ops_find_memory(struct build *b);

/* The autograd engine's function that finalises the gradients of a node. */

/* Address and size in bytes of torch::autograd::validate_outputs(const edge_list &, variable_list
 * &, const std::function<...> &) in libtorch_cpu (torch/csrc/autograd/engine.cpp), which sums
 * gradients to the shape of a broadcast argument, converts their dtype, and checks them. Without a
 * symbol (1.13.1) it is the only function near Engine::evaluate_function whose code takes the
 * address of the message "invalid number of gradients - expected ". `c` are the file's callees.
 * False when it is not found or ambiguous. */
bool grads_function_find(struct elf_file *cpu, struct callees *c, uint64_t *vaddr, uint64_t *size);

/* Address of c10::Dispatcher::callBoxed in the file, where it is exported; else 0. */
uint64_t ops_call_boxed(struct elf_file *f);

/* Call `fn` with the address behind each four bytes that, as a displacement from there, lead to
 * `target`; a non-zero return ends it. */
void ops_each_displacement(const uint8_t *code, size_t size, uint64_t vaddr, uint64_t target,
			   elf_address_fn *fn, void *arg);

/* Add to `p`, which has none yet, the reads that tell the operator of the OperatorHandle whose
 * address is the first argument: BOXED_DATA to BOXED_OVERLOAD. */
void plan_operator(struct op_plan *p, bool cow_strings);

/* A dispatch inlined into a function. */
struct inlined_call {
	uint64_t call; /* address of the call that asks for observers */
	uint64_t exits[EXITS_MAX];
	unsigned nexits;
	bool named;    /* what leads to the OperatorDef is known: */
	uint8_t reg;   /* the register that has it at the call (enum arch_reg), or ARCH_NOREG: */
	uint8_t loads; /* so many loads, the first from `vaddr` */
	uint64_t vaddr;
};

/* python_names.c: where Python's names of operators are others than the dispatcher's. `op`: without
 * namespace and overload, "add_". */

/* A string without a terminating NUL. */
struct name_span {
	const char *s;
	size_t len;
};

/* The operators that "torch.Tensor.T" stands for, separated by spaces; NULL: that of its name. */
const char *python_name_operators(struct name_span name);

/* Its other name in Python, "": none in public; NULL: that of the operator. */
const char *python_name_other(struct name_span op);

/* Whether it is torch.nn.functional.X; a method or attribute of Tensor alone. */
bool python_name_is_functional(struct name_span op);
bool python_name_is_method(struct name_span op);

/* Whether Python's function takes other arguments, or in another order, or returns less. */
bool python_name_takes_others(struct name_span op);

/* abi.c and abi_results.c: a plan while it is made. */

struct abi_assign {
	unsigned gpr, xmm, stack;
	bool hidden;
};

struct abi_builder {
	struct op_plan *plan;
	struct abi_assign at;
	const struct func_facts *facts;
	bool late; /* the entry probe is at facts->late */
	/* Exit reads, collected separately: they follow all entry reads. */
	struct probe_read exit[PLAN_READS];
	unsigned nexit;
};

struct abi_value abi_unknown(const char *why);

/* What the read (ABI_NO_READ: there was no room for it) brings. */
struct abi_value abi_known(const struct cxx_param *p, uint8_t how, uint8_t read);

/* Whether the op returns through a hidden pointer: 1, 0, or -1 if unknown. */
int abi_has_hidden(const struct schema *s, const struct func_facts *facts);

/* Plan the results of `s`, after the arguments. */
void abi_plan_results(struct abi_builder *b, const struct schema *s, struct op_abi *out);

/* ops_c10d.c: whether the mangled name is that of a method of c10d::Reducer that is traced,
 * ROLE_REDUCER. */
bool reducer_has_method(const char *symbol);

/* Whether only its entry is traced, as an event that has no duration. */
bool reducer_is_moment(const char *symbol);

/* Describe such a method, and plan its reads; what is allocated is in the arena. Names of
 * parameters, its second result, are what the decoder finds. 0 or -ENOMEM. */
int reducer_plan(const char *symbol, struct arena *arena, struct op_probe *o, struct op_plan *p);

/* Whether the mangled name is that of a method of c10d::ProcessGroupGloo that this libtorch_cpu
 * calls without asking the dispatcher: ROLE_GLOO. */
bool gloo_has_method(struct elf_file *cpu, const char *symbol);

/* As reducer_plan. */
int gloo_plan(const char *symbol, struct arena *arena, struct op_probe *o, struct op_plan *p);

/* c10d::Work: waiting for it, and its end (ROLE_DONE, ROLE_WRITTEN). 0 or -ENOMEM. */
int work_wait_plan(struct arena *arena, struct op_probe *o, struct op_plan *p);
void work_done_plan(struct op_probe *o, struct op_plan *p);

#endif
