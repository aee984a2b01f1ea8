/* What of replay/ is particular to a machine: which variants of the comparison loops are built. */
#ifndef REPLAY_NUMBERS_SIMD_X86_64_H
#define REPLAY_NUMBERS_SIMD_X86_64_H

/* Before a function: build it for these levels of the x86-64 psABI too, and choose at load time.
 * Elsewhere, and with compilers that have no target_clones: nothing. */
#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__) &&                             \
    !defined(__SANITIZE_ADDRESS__)
#define COMPARE_CLONES __attribute__((target_clones("arch=x86-64-v4", "arch=x86-64-v3", "default")))
#else
#define COMPARE_CLONES
#endif

#endif
