/* TVM_DLL_EXPORT_TYPED_FUNC(symbol, function): a function of C++ with typed parameters as one that a model calls.
 *
 * Parameters are DLTensor *, const DLTensor *, integers, bool, enums, float, double, const char * and std::string. It returns
 * nothing or a status; an exception that it throws ends the call of the model as a status does. */
#ifndef TVM_RUNTIME_PACKED_FUNC_H_
#define TVM_RUNTIME_PACKED_FUNC_H_

#include <forge/extern.h>

#include <string>
#include <type_traits>
#include <utility>

namespace forge_extern {

template <typename T, typename = void>
struct Argument;

template <typename T>
struct Argument<T, typename std::enable_if<std::is_integral<T>::value || std::is_enum<T>::value>::type> {
  static bool fits(int32_t kind) { return kind == FORGE_EXTERN_INTEGER; }
  static T get(const forge_extern_value &value, int32_t) { return static_cast<T>(value.integer); }
};

template <typename T>
struct Argument<T, typename std::enable_if<std::is_floating_point<T>::value>::type> {
  static bool fits(int32_t kind) { return kind == FORGE_EXTERN_NUMBER || kind == FORGE_EXTERN_INTEGER; }
  static T get(const forge_extern_value &value, int32_t kind) {
    return static_cast<T>(kind == FORGE_EXTERN_INTEGER ? static_cast<double>(value.integer) : value.number);
  }
};

template <typename T>
struct Argument<T, typename std::enable_if<std::is_same<T, DLTensor *>::value || std::is_same<T, const DLTensor *>::value>::type> {
  static bool fits(int32_t kind) { return kind == FORGE_EXTERN_TENSOR; }
  static T get(const forge_extern_value &value, int32_t) { return value.tensor; }
};

template <typename T>
struct Argument<T, typename std::enable_if<std::is_same<T, const char *>::value || std::is_same<T, std::string>::value>::type> {
  static bool fits(int32_t kind) { return kind == FORGE_EXTERN_TEXT; }
  static T get(const forge_extern_value &value, int32_t) { return T(value.text); }
};

template <typename T>
using Plain = typename std::remove_cv<typename std::remove_reference<T>::type>::type;

template <typename... Parameters, std::size_t... k>
int32_t status_of(void (*function)(Parameters...), const forge_extern_value *values, const int32_t *kinds, std::index_sequence<k...>) {
  function(Argument<Plain<Parameters>>::get(values[k], kinds[k])...);
  return 0;
}

template <typename Result, typename... Parameters, std::size_t... k>
int32_t status_of(Result (*function)(Parameters...), const forge_extern_value *values, const int32_t *kinds, std::index_sequence<k...>) {
  return static_cast<int32_t>(function(Argument<Plain<Parameters>>::get(values[k], kinds[k])...));
}

template <typename Result, typename... Parameters>
int32_t call(Result (*function)(Parameters...), const forge_extern_value *values, const int32_t *kinds, int32_t count) {
  if (count != static_cast<int32_t>(sizeof...(Parameters))) return FORGE_EXTERN_WRONG_ARGUMENTS;
  const bool fits[] = {true, Argument<Plain<Parameters>>::fits(*kinds++)...};
  for (bool fit : fits) {
    if (!fit) return FORGE_EXTERN_WRONG_ARGUMENTS;
  }
#if defined(__cpp_exceptions)
  try {
    return status_of(function, values, kinds - count, std::index_sequence_for<Parameters...>());
  } catch (...) {
    return FORGE_EXTERN_EXCEPTION;
  }
#else
  return status_of(function, values, kinds - count, std::index_sequence_for<Parameters...>());
#endif
}

}  // namespace forge_extern

#define TVM_DLL_EXPORT_TYPED_FUNC(ExportName, Function)                                                                        \
  extern "C" __attribute__((visibility("default"))) int32_t ExportName(const forge_extern_value *values, const int32_t *kinds, \
                                                                       int32_t count) {                                        \
    return forge_extern::call(&Function, values, kinds, count);                                                                \
  }

#endif
