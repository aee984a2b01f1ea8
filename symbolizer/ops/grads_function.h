/* The function of autograd's engine that gives the gradients of a node their final form. */
#ifndef SYMBOLIZER_OPS_GRADS_FUNCTION_H
#define SYMBOLIZER_OPS_GRADS_FUNCTION_H

#include <stdbool.h>
#include <stdint.h>

#include "symbolizer/ops/callees.h"
#include "symbolizer/target/elf.h"

/* Address and size in bytes of torch::autograd::validate_outputs(const edge_list &, variable_list
 * &, const std::function<...> &) in libtorch_cpu (torch/csrc/autograd/engine.cpp), which sums
 * gradients to the shape of a broadcast argument, converts their dtype, and checks them. Where it
 * has no symbol (1.13.1) it is the one function near Engine::evaluate_function whose code takes the
 * address of its message "invalid number of gradients - expected ". `c` are the file's callees.
 * False when it cannot be told. */
bool grads_function_find(struct elf_file *cpu, struct callees *c, uint64_t *vaddr, uint64_t *size);

#endif
