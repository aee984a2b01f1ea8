/* What the files of this folder share. */
#ifndef SYMBOLIZER_OPS_INTERNAL_H
#define SYMBOLIZER_OPS_INTERNAL_H

#include <stdbool.h>
#include <stdint.h>

#include "symbolizer/ops/ops.h"
#include "symbolizer/ops/schema.h"
#include "symbolizer/target/elf.h"

/* Between the files that make an op table. */

/* A function to probe, as found in the symbols. */
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
	bool std_optional; /* optionals are std:: in this build, OptionalArrayRef's own too */
	struct found *found;
	size_t nfound, room;
	uint8_t file;  /* being read */
	bool *planned; /* of a lazy table, for each op */
};

/* Whether the op of this role (enum probe_role) is at no place in a file. */
bool ops_has_no_place(uint8_t role);

/* Fill b->found from the symbols of the files that are open. Returns 0 or -ENOMEM. */
int ops_find(struct build *b);

/* Describe and plan every found op, into the table's ops and plans (b->nfound each). facts: as
 * many, filled too. Returns 0 or -ENOMEM. */
int ops_plan_all(struct build *b, struct func_facts *facts);

/* The same of op `i` alone. */
int ops_plan_one(struct build *b, uint32_t i, struct func_facts *facts);

/* Where parseSchema is, and by its name the ABI of strings, before the plans are made. */
void ops_find_parse_schema(struct build *b);

/* What else the files tell, into the table. */
void ops_read_facts(struct build *b);

/* The function of autograd's engine that gives the gradients of a node their final form. */

/* Address and size in bytes of torch::autograd::validate_outputs(const edge_list &, variable_list
 * &, const std::function<...> &) in libtorch_cpu (torch/csrc/autograd/engine.cpp), which sums
 * gradients to the shape of a broadcast argument, converts their dtype, and checks them. Where it
 * has no symbol (1.13.1) it is the one function near Engine::evaluate_function whose code takes the
 * address of its message "invalid number of gradients - expected ". `c` are the file's callees.
 * False when it cannot be told. */
bool grads_function_find(struct elf_file *cpu, struct callees *c, uint64_t *vaddr, uint64_t *size);

#endif
