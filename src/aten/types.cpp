// SPDX-License-Identifier: Apache-2.0
#include "aten/types.h"

#include "base/error.h"

namespace weft {

DType dtype_of(at::ScalarType type) {
  switch (type) {
    case at::kDouble:
      return DType::F64;
    case at::kFloat:
      return DType::F32;
    case at::kHalf:
      return DType::F16;
    case at::kBFloat16:
      return DType::BF16;
    case at::kFloat8_e4m3fn:
      return DType::F8E4M3;
    case at::kFloat8_e5m2:
      return DType::F8E5M2;
    case at::kLong:
      return DType::I64;
    case at::kInt:
      return DType::I32;
    case at::kShort:
      return DType::I16;
    case at::kChar:
      return DType::I8;
    case at::kByte:
      return DType::U8;
    case at::kUInt16:
      return DType::U16;
    case at::kUInt32:
      return DType::U32;
    case at::kUInt64:
      return DType::U64;
    case at::kBool:
      return DType::Bool;
    case at::kComplexFloat:
      return DType::C64;
    case at::kComplexDouble:
      return DType::C128;
    default:
      throw UserError(
          cat("[capture] element type ",
              c10::toString(type),
              " is not supported: convert the tensor to a plain type first"));
  }
}

at::ScalarType scalar_type_of(DType dtype) {
  switch (dtype) {
    case DType::F64:
      return at::kDouble;
    case DType::F32:
      return at::kFloat;
    case DType::F16:
      return at::kHalf;
    case DType::BF16:
      return at::kBFloat16;
    case DType::F8E4M3:
      return at::kFloat8_e4m3fn;
    case DType::F8E5M2:
      return at::kFloat8_e5m2;
    case DType::I64:
      return at::kLong;
    case DType::I32:
      return at::kInt;
    case DType::I16:
      return at::kShort;
    case DType::I8:
      return at::kChar;
    case DType::U8:
      return at::kByte;
    case DType::U16:
      return at::kUInt16;
    case DType::U32:
      return at::kUInt32;
    case DType::U64:
      return at::kUInt64;
    case DType::Bool:
      return at::kBool;
    case DType::C64:
      return at::kComplexFloat;
    case DType::C128:
      return at::kComplexDouble;
  }
  WEFT_CHECK(false, "unknown dtype");
}

TensorType type_of(const at::Tensor& tensor) {
  return make_type(
      dtype_of(tensor.scalar_type()),
      tensor.sizes().vec(),
      tensor.strides().vec());
}

std::string_view name(at::MemoryFormat format) {
  switch (format) {
    case at::MemoryFormat::Contiguous:
      return "contiguous";
    case at::MemoryFormat::Preserve:
      return "preserve";
    case at::MemoryFormat::ChannelsLast:
      return "channels_last";
    case at::MemoryFormat::ChannelsLast3d:
      return "channels_last_3d";
    case at::MemoryFormat::NumOptions:
      break;
  }
  WEFT_CHECK(false, "unknown memory format");
}

}  // namespace weft
