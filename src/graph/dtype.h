// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace weft {

// Element types, printed as f32, bf16, i64, bool, ...
enum class DType : uint8_t {
  F64,
  F32,
  F16,
  BF16,
  F8E4M3,
  F8E5M2,
  I64,
  I32,
  I16,
  I8,
  U8,
  U16,
  U32,
  U64,
  Bool,
  C64,
  C128,
};

std::string_view name(DType dtype);
std::optional<DType> dtype_from_name(std::string_view name);
int64_t element_bytes(DType dtype);
bool is_floating(DType dtype);
bool is_complex(DType dtype);

}  // namespace weft
