/* Where boxed calls of operators pass: the std::function that every torch::jit::Operator of a c10
 * operator holds (torch/csrc/jit/runtime/register_c10_ops.cpp, createOperatorFromC10). torch.ops,
 * TorchScript and all that is built on them call ops through it. It has no symbol in stripped
 * libraries, so it is taken from the live registry. */
#ifndef SYMBOLIZER_DECODE_BOXED_H
#define SYMBOLIZER_DECODE_BOXED_H

#include <stdint.h>

#include "symbolizer/decode/registry.h"
#include "symbolizer/target/elf.h"
#include "symbolizer/target/mem.h"

/* Address in the process of that function. `cpu` is libtorch_cpu, loaded at `bias`; [text,
 * text_end) its executable mapping in the process. 0 when it is not (yet) to be found. */
uint64_t boxed_find(struct elf_file *cpu, uint64_t bias, uint64_t text, uint64_t text_end,
		    const struct mem *m, struct registry *g);

#endif
