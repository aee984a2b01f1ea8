/* What the analysis of a function's exits asks about the file the function is in: whether a
 * function that it calls is clean-up, and what stands in read-only data. */
#ifndef SYMBOLIZER_OPS_CALLEES_H
#define SYMBOLIZER_OPS_CALLEES_H

#include "symbolizer/code/return_sites.h"
#include "symbolizer/target/elf.h"

struct callees;

/* Make one for the open file, which must outlive it. 0 and *out (free with callees_close), or
 * -ENOMEM. A file without sections or symbols is no error: then no call is known to be clean-up. */
int callees_open(struct elf_file *f, struct callees **out);
void callees_close(struct callees *c); /* NULL allowed */

/* For return_sites_new; addresses are those of the file. May be used by several threads. Valid
 * while `c` is. */
struct return_sites_ops callees_ops(struct callees *c);

/* The function of the file itself that the linker's stub (.plt) at address `stub` jumps to, if no
 * other library has one of its name; 0: it is no stub, or for a function of another file. */
uint64_t callees_of_stub(struct callees *c, uint64_t stub);

#endif
