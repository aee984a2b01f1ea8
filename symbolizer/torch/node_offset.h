/* Where an autograd node keeps its sequence number, by the code that sets it. */
#ifndef SYMBOLIZER_TORCH_NODE_OFFSET_H
#define SYMBOLIZER_TORCH_NODE_OFFSET_H

#include <stdint.h>

#include "symbolizer/target/elf.h"

/* Byte offset of sequence_nr_ within torch::autograd::Node, 0 when it cannot be told. The
 * constructor of AccumulateGrad sets it, and no other word, to UINT64_MAX
 * (torch/csrc/autograd/functions/accumulate_grad.cpp, 1.13.1 and 2.13.0). */
uint16_t node_seq_offset(struct elf_file *cpu);

#endif
