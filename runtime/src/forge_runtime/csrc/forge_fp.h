/* The floating-point environment of a thread: rounding, flushing of subnormal numbers, exceptions. Not part of the interface. */
#ifndef FORGE_FP_H
#define FORGE_FP_H
#include <stdbool.h>
#include <stdint.h>

/* forge_fp_masked: the same environment with all exceptions masked and no flags; forge_fp_is_masked: none can trap. */
#if defined(__x86_64__)

typedef uint32_t forge_fp; /* MXCSR: generated code uses nothing else */
enum { FORGE_FP_FLAGS = 0x003f, FORGE_FP_MASKS = 0x1f80 };
static inline forge_fp forge_fp_get(void) { return __builtin_ia32_stmxcsr(); }
static inline void forge_fp_set(forge_fp value) { __builtin_ia32_ldmxcsr(value); }
static inline bool forge_fp_is_masked(forge_fp value) { return (value & FORGE_FP_MASKS) == FORGE_FP_MASKS; }
static inline forge_fp forge_fp_masked(forge_fp value) { return (value | FORGE_FP_MASKS) & ~(forge_fp)FORGE_FP_FLAGS; }

#elif defined(__aarch64__)

typedef uint64_t forge_fp; /* FPSR (flags) above FPCR */
enum { FORGE_FP_TRAPS = 0x9f00 };
static inline forge_fp forge_fp_get(void) {
  uint64_t control, flags;
  __asm__ volatile("mrs %0, fpcr" : "=r"(control));
  __asm__ volatile("mrs %0, fpsr" : "=r"(flags));
  return (control & UINT32_MAX) | flags << 32;
}
static inline void forge_fp_set(forge_fp value) {
  __asm__ volatile("msr fpcr, %0" : : "r"(value & UINT32_MAX));
  __asm__ volatile("msr fpsr, %0" : : "r"(value >> 32));
}
static inline bool forge_fp_is_masked(forge_fp value) { return (value & FORGE_FP_TRAPS) == 0; }
static inline forge_fp forge_fp_masked(forge_fp value) { return value & UINT32_MAX & ~(forge_fp)FORGE_FP_TRAPS; }

#else

typedef uint32_t forge_fp;
static inline forge_fp forge_fp_get(void) { return 0; }
static inline void forge_fp_set(forge_fp value) { (void)value; }
static inline bool forge_fp_is_masked(forge_fp value) { return value == 0; }
static inline forge_fp forge_fp_masked(forge_fp value) { return value; }

#endif

/* Makes `wanted`, from forge_fp_masked, the environment of this thread; returns the one before, for forge_fp_leave. */
static inline forge_fp forge_fp_enter(forge_fp wanted) {
  const forge_fp before = forge_fp_get();
  if (forge_fp_masked(before) != wanted || !forge_fp_is_masked(before)) forge_fp_set(wanted);
  return before;
}

/* Masks exceptions; returns the environment before, for forge_fp_leave. */
static inline forge_fp forge_fp_mask(void) {
  const forge_fp before = forge_fp_get();
  if (!forge_fp_is_masked(before)) forge_fp_set(forge_fp_masked(before));
  return before;
}

static inline void forge_fp_leave(forge_fp before) {
  if (forge_fp_get() != before) forge_fp_set(before);
}

#endif
