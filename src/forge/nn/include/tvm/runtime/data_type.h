/* Element types of tensors, by the names of TVM's headers. */
#ifndef TVM_RUNTIME_DATA_TYPE_H_
#define TVM_RUNTIME_DATA_TYPE_H_

#include <dlpack/dlpack.h>

namespace tvm {
namespace runtime {

class DataType {
 public:
  DataType(int code, int bits, int lanes = 1)
      : type_{static_cast<uint8_t>(code), static_cast<uint8_t>(bits), static_cast<uint16_t>(lanes)} {}
  explicit DataType(DLDataType type) : type_(type) {}
  static DataType Int(int bits, int lanes = 1) { return DataType(kDLInt, bits, lanes); }
  static DataType UInt(int bits, int lanes = 1) { return DataType(kDLUInt, bits, lanes); }
  static DataType Float(int bits, int lanes = 1) { return DataType(kDLFloat, bits, lanes); }
  static DataType BFloat(int bits, int lanes = 1) { return DataType(kDLBfloat, bits, lanes); }
  static DataType Bool(int lanes = 1) { return DataType(kDLBool, 8, lanes); }
  int code() const { return type_.code; }
  int bits() const { return type_.bits; }
  int bytes() const { return (bits() + 7) / 8; }
  int lanes() const { return type_.lanes; }
  bool is_float() const { return code() == kDLFloat; }
  bool is_int() const { return code() == kDLInt; }
  bool is_uint() const { return code() == kDLUInt; }
  bool operator==(const DataType &other) const {
    return code() == other.code() && bits() == other.bits() && lanes() == other.lanes();
  }
  bool operator!=(const DataType &other) const { return !(*this == other); }
  operator DLDataType() const { return type_; }

 private:
  DLDataType type_;
};

}  // namespace runtime
}  // namespace tvm

#endif
