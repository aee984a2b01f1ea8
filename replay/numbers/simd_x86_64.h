/* The one part of replay/ that depends on the machine: variants of the comparison loops. */
#ifndef REPLAY_NUMBERS_SIMD_X86_64_H
#define REPLAY_NUMBERS_SIMD_X86_64_H

/* Put before a function: compile it for these x86-64 psABI levels too, selected at load time. Empty
 * on other machines and with compilers without target_clones. */
#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__) &&                             \
    !defined(__SANITIZE_ADDRESS__)
#define COMPARE_CLONES __attribute__((target_clones("arch=x86-64-v4", "arch=x86-64-v3", "default")))
#else
#define COMPARE_CLONES
#endif

#endif
