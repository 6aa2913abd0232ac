/* C routines that kernels of a model call by name. In a library the linker finds them; for models linked into this process they
 * are listed here. */
#ifndef FORGE_ROUTINES_H
#define FORGE_ROUTINES_H
#include "forge_fft.h"
#include "forge_strings.h"

typedef struct {
  const char *name;
  int32_t (*address)();
} forge_routine;

#define ROUTINE(name) {#name, (int32_t (*)())name}

static const forge_routine FORGE_ROUTINES[] = {
    ROUTINE(forge_string_unpack),       ROUTINE(forge_string_concat),      ROUTINE(forge_string_equal),
    ROUTINE(forge_string_most_parts),   ROUTINE(forge_string_split),       ROUTINE(forge_string_count_words),
    ROUTINE(forge_string_normalize),    ROUTINE(forge_string_match),       ROUTINE(forge_string_from_int64),
    ROUTINE(forge_string_from_uint64),  ROUTINE(forge_string_from_bool),   ROUTINE(forge_string_from_float64),
    ROUTINE(forge_string_lookup),       ROUTINE(forge_ngram_counts),
    ROUTINE(forge_string_rank),          ROUTINE(forge_fft),
    ROUTINE(forge_string_to_int64),     ROUTINE(forge_string_to_uint64),   ROUTINE(forge_string_to_float64),
};

#endif
