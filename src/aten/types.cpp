// SPDX-License-Identifier: Apache-2.0
#include "aten/types.h"

#include "base/error.h"

#include <array>
#include <utility>

namespace weft {

namespace {

constexpr std::array<std::pair<DType, at::ScalarType>, 17> kScalarTypes = {{
    {DType::F64, at::kDouble},
    {DType::F32, at::kFloat},
    {DType::F16, at::kHalf},
    {DType::BF16, at::kBFloat16},
    {DType::F8E4M3, at::kFloat8_e4m3fn},
    {DType::F8E5M2, at::kFloat8_e5m2},
    {DType::I64, at::kLong},
    {DType::I32, at::kInt},
    {DType::I16, at::kShort},
    {DType::I8, at::kChar},
    {DType::U8, at::kByte},
    {DType::U16, at::kUInt16},
    {DType::U32, at::kUInt32},
    {DType::U64, at::kUInt64},
    {DType::Bool, at::kBool},
    {DType::C64, at::kComplexFloat},
    {DType::C128, at::kComplexDouble},
}};

constexpr std::array<std::pair<std::string_view, at::MemoryFormat>, 4>
    kMemoryFormats = {{
        {"contiguous", at::MemoryFormat::Contiguous},
        {"preserve", at::MemoryFormat::Preserve},
        {"channels_last", at::MemoryFormat::ChannelsLast},
        {"channels_last_3d", at::MemoryFormat::ChannelsLast3d},
    }};

}  // namespace

DType dtype_of(at::ScalarType type) {
  for (const auto& [ours, theirs] : kScalarTypes) {
    if (theirs == type) {
      return ours;
    }
  }
  throw UserError(
      cat("element type ",
          c10::toString(type),
          " is not supported: convert the tensor to a plain type first"));
}

at::ScalarType scalar_type_of(DType dtype) {
  for (const auto& [ours, theirs] : kScalarTypes) {
    if (ours == dtype) {
      return theirs;
    }
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
  for (const auto& [word, theirs] : kMemoryFormats) {
    if (theirs == format) {
      return word;
    }
  }
  WEFT_CHECK(false, "unknown memory format");
}

at::MemoryFormat memory_format_of(std::string_view word) {
  for (const auto& [known, format] : kMemoryFormats) {
    if (known == word) {
      return format;
    }
  }
  throw UserError(cat("not a memory format: ", word));
}

}  // namespace weft
