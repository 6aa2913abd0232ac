/* Element types, sizes of tensors, errors. */
#include "forge_internal.h"
#include <stdarg.h>
#include <stdio.h>

typedef struct {
  const char *name;
  int32_t size;
  int32_t alignment;
} dtype_info;

static const dtype_info DTYPES[] = {
    [FORGE_BOOL] = {"bool", 1, 1},
    [FORGE_INT8] = {"int8", 1, 1},
    [FORGE_INT16] = {"int16", 2, 2},
    [FORGE_INT32] = {"int32", 4, 4},
    [FORGE_INT64] = {"int64", 8, 8},
    [FORGE_UINT8] = {"uint8", 1, 1},
    [FORGE_UINT16] = {"uint16", 2, 2},
    [FORGE_UINT32] = {"uint32", 4, 4},
    [FORGE_UINT64] = {"uint64", 8, 8},
    [FORGE_FLOAT16] = {"float16", 2, 2},
    [FORGE_BFLOAT16] = {"bfloat16", 2, 2},
    [FORGE_FLOAT32] = {"float32", 4, 4},
    [FORGE_FLOAT64] = {"float64", 8, 8},
    [FORGE_COMPLEX64] = {"complex64", 8, 4},
    [FORGE_COMPLEX128] = {"complex128", 16, 8},
    [FORGE_FLOAT8_E4M3FN] = {"float8_e4m3fn", 1, 1},
    [FORGE_FLOAT8_E4M3FNUZ] = {"float8_e4m3fnuz", 1, 1},
    [FORGE_FLOAT8_E5M2] = {"float8_e5m2", 1, 1},
    [FORGE_FLOAT8_E5M2FNUZ] = {"float8_e5m2fnuz", 1, 1},
    [FORGE_FLOAT8_E8M0FNU] = {"float8_e8m0fnu", 1, 1},
    [FORGE_FLOAT4_E2M1FN] = {"float4_e2m1fn", 1, 1},
    [FORGE_INT2] = {"int2", 1, 1},
    [FORGE_UINT2] = {"uint2", 1, 1},
    [FORGE_INT4] = {"int4", 1, 1},
    [FORGE_UINT4] = {"uint4", 1, 1},
    [FORGE_STRING] = {"string", sizeof(forge_string), _Alignof(forge_string)},
    [FORGE_SEQUENCE] = {"sequence", sizeof(forge_sequence), _Alignof(forge_sequence)},
    [FORGE_OPTIONAL] = {"optional", sizeof(forge_sequence), _Alignof(forge_sequence)},
};

static const dtype_info *find_dtype(int32_t dtype) {
  static const dtype_info unknown = {"an unknown dtype", 0, 1};
  const int32_t known = (int32_t)(sizeof DTYPES / sizeof *DTYPES);
  return dtype >= 0 && dtype < known ? &DTYPES[dtype] : &unknown;
}

const char *forge_dtype_name(int32_t dtype) { return find_dtype(dtype)->name; }

int64_t forge_dtype_alignment(int32_t dtype) { return find_dtype(dtype)->alignment; }

size_t forge_dtype_size(int32_t dtype) { return (size_t)find_dtype(dtype)->size; }

int32_t forge_fail(forge_error *error, int32_t status, const char *format, ...) {
  if (error == NULL) return status;
  error->status = status;
  va_list arguments;
  va_start(arguments, format);
  const int needed = vsnprintf(error->message, sizeof error->message, format, arguments);
  va_end(arguments);
  if (needed >= (int)sizeof error->message) {
    size_t end = sizeof error->message - 1;
    while (end > 0 && ((unsigned char)error->message[end - 1] & 0xC0) == 0x80)
      end--;
    if (end > 0 && (unsigned char)error->message[end - 1] >= 0xC0) end--;
    error->message[end] = '\0';
  }
  return status;
}

int64_t forge_byte_count(const forge_tensor *tensor) {
  int64_t bytes = find_dtype(tensor->dtype)->size;
  bool empty = false;
  for (int32_t d = 0; d < tensor->ndim; d++)
    empty |= tensor->shape[d] == 0;
  if (empty) return 0;
  for (int32_t d = 0; d < tensor->ndim; d++)
    if (__builtin_mul_overflow(bytes, tensor->shape[d], &bytes)) return -1;
  return bytes;
}
