/* Functions that a compiled model calls. A function of C has this form and is called by its name:
 *
 *     int32_t scale(const forge_extern_value *arguments, const int32_t *kinds, int32_t count) {
 *       const DLTensor *x = arguments[0].tensor;
 *       DLTensor *y = arguments[1].tensor;
 *       ...
 *       return 0;
 *     }
 *
 * Arguments come first, then the results, which the model has allocated and the function fills; it writes nowhere else. Tensors
 * are in C order. Another status than 0 ends the call of the model. Threads may call it at the same time. In C++,
 * TVM_DLL_EXPORT_TYPED_FUNC (tvm/runtime/packed_func.h) makes such a function of one with typed parameters. */
#ifndef FORGE_EXTERN_H_
#define FORGE_EXTERN_H_

#include <dlpack/dlpack.h>

typedef union {
  int64_t integer;
  double number;
  const char *text;
  DLTensor *tensor;
} forge_extern_value;

enum { FORGE_EXTERN_INTEGER = 0, FORGE_EXTERN_NUMBER = 1, FORGE_EXTERN_TEXT = 2, FORGE_EXTERN_TENSOR = 3 };

/* Statuses by which TVM_DLL_EXPORT_TYPED_FUNC says what went wrong; those of your own are others. */
enum { FORGE_EXTERN_WRONG_ARGUMENTS = INT32_MIN, FORGE_EXTERN_EXCEPTION = INT32_MIN + 1 };

#endif
