// SPDX-License-Identifier: Apache-2.0
#include "graph/dtype.h"

#include "base/error.h"

#include <array>

namespace weft {

namespace {

enum class Family : uint8_t { Floating, Integer, Complex };

struct DTypeInfo {
  DType dtype;
  std::string_view name;
  int64_t bytes;
  Family family;
};

// In the order of the enumeration, so that it is indexed by it.
constexpr std::array kInfos = {
    DTypeInfo{DType::F64, "f64", 8, Family::Floating},
    DTypeInfo{DType::F32, "f32", 4, Family::Floating},
    DTypeInfo{DType::F16, "f16", 2, Family::Floating},
    DTypeInfo{DType::BF16, "bf16", 2, Family::Floating},
    DTypeInfo{DType::F8E4M3, "f8e4m3", 1, Family::Floating},
    DTypeInfo{DType::F8E5M2, "f8e5m2", 1, Family::Floating},
    DTypeInfo{DType::I64, "i64", 8, Family::Integer},
    DTypeInfo{DType::I32, "i32", 4, Family::Integer},
    DTypeInfo{DType::I16, "i16", 2, Family::Integer},
    DTypeInfo{DType::I8, "i8", 1, Family::Integer},
    DTypeInfo{DType::U8, "u8", 1, Family::Integer},
    DTypeInfo{DType::U16, "u16", 2, Family::Integer},
    DTypeInfo{DType::U32, "u32", 4, Family::Integer},
    DTypeInfo{DType::U64, "u64", 8, Family::Integer},
    DTypeInfo{DType::Bool, "bool", 1, Family::Integer},
    DTypeInfo{DType::C64, "c64", 8, Family::Complex},
    DTypeInfo{DType::C128, "c128", 16, Family::Complex},
};

constexpr bool is_in_order() {
  for (size_t i = 0; i < kInfos.size(); ++i) {
    if (static_cast<size_t>(kInfos[i].dtype) != i) {
      return false;
    }
  }
  return true;
}
static_assert(is_in_order());

const DTypeInfo& info(DType dtype) {
  const auto i = static_cast<size_t>(dtype);
  WEFT_CHECK(i < kInfos.size(), "no such dtype: ", i);
  return kInfos[i];
}

}  // namespace

std::string_view name(DType dtype) { return info(dtype).name; }

std::optional<DType> dtype_from_name(std::string_view name) {
  for (const DTypeInfo& entry : kInfos) {
    if (entry.name == name) {
      return entry.dtype;
    }
  }
  return std::nullopt;
}

int64_t element_bytes(DType dtype) { return info(dtype).bytes; }

bool is_floating(DType dtype) { return info(dtype).family == Family::Floating; }

bool is_complex(DType dtype) { return info(dtype).family == Family::Complex; }

}  // namespace weft
