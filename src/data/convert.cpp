// SPDX-License-Identifier: Apache-2.0
#include "data/convert.h"

#include "base/error.h"

#include <bit>
#include <cmath>
#include <cstring>
#include <type_traits>
#include <utility>

namespace weft {
namespace {

struct Half {
  uint16_t bits = 0;
};

struct BFloat {
  uint16_t bits = 0;
};

float to_float(Half half) {
  const int exponent = (half.bits >> 10) & 0x1F;
  const int mantissa = half.bits & 0x3FF;
  float value = 0;
  if (exponent == 0) {
    value = std::ldexp(static_cast<float>(mantissa), -24);
  } else if (exponent == 31) {
    value = mantissa == 0 ? HUGE_VALF : std::nanf("");
  } else {
    value = std::ldexp(static_cast<float>(mantissa | 0x400), exponent - 25);
  }
  return (half.bits & 0x8000) != 0 ? -value : value;
}

float to_float(BFloat value) {
  return std::bit_cast<float>(uint32_t{value.bits} << 16);
}

// Adding half of what is cut off, less one unless the result would be odd, is
// rounding to nearest even; it carries into the exponent as it should.
BFloat to_bfloat(float value) {
  const auto bits = std::bit_cast<uint32_t>(value);
  if (std::isnan(value)) {
    return {static_cast<uint16_t>((bits >> 16) | 0x40)};
  }
  return {static_cast<uint16_t>((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16)};
}

Half to_half(float value) {
  const auto bits = std::bit_cast<uint32_t>(value);
  const auto sign = static_cast<uint16_t>((bits >> 16) & 0x8000);
  const float size = std::fabs(value);
  uint32_t half = 0;
  if (std::isnan(value)) {
    half = 0x7E00;
  } else if (size >= 65520) {
    half = 0x7C00;
  } else if (size < 0x1p-14F) {
    // Subnormal: a whole number of 2^-24.
    half = static_cast<uint32_t>(std::nearbyint(std::ldexp(size, 24)));
  } else {
    const uint32_t magnitude = bits & 0x7FFFFFFF;
    half = (magnitude + 0xFFF + ((magnitude >> 13) & 1) - (112U << 23)) >> 13;
  }
  return {static_cast<uint16_t>(sign | half)};
}

template <typename T>
constexpr bool kIsFloat = std::is_floating_point_v<T> ||
                          std::is_same_v<T, Half> || std::is_same_v<T, BFloat>;

template <typename To, typename From>
To convert_one(From from) {
  if constexpr (std::is_same_v<From, Half> || std::is_same_v<From, BFloat>) {
    return convert_one<To>(to_float(from));
  } else if constexpr (std::is_same_v<To, Half>) {
    return to_half(static_cast<float>(from));
  } else if constexpr (std::is_same_v<To, BFloat>) {
    return to_bfloat(static_cast<float>(from));
  } else {
    if constexpr (std::is_integral_v<From> && std::is_integral_v<To>) {
      WEFT_CHECK_USER(
          std::in_range<To>(from),
          "the number ",
          +from,
          " does not fit an integer of ",
          sizeof(To),
          " bytes");
    }
    return static_cast<To>(from);
  }
}

template <typename T>
struct Tag {
  using Type = T;
};

// Calls `call` with the tag of the C++ type; false for those without one.
template <typename Call>
bool with_type(DType dtype, Call&& call) {
  switch (dtype) {
    case DType::F64:
      return call(Tag<double>());
    case DType::F32:
      return call(Tag<float>());
    case DType::F16:
      return call(Tag<Half>());
    case DType::BF16:
      return call(Tag<BFloat>());
    case DType::I64:
      return call(Tag<int64_t>());
    case DType::I32:
      return call(Tag<int32_t>());
    case DType::I16:
      return call(Tag<int16_t>());
    case DType::I8:
      return call(Tag<int8_t>());
    case DType::U8:
    case DType::Bool:
      return call(Tag<uint8_t>());
    case DType::U16:
      return call(Tag<uint16_t>());
    case DType::U32:
      return call(Tag<uint32_t>());
    case DType::U64:
      return call(Tag<uint64_t>());
    default:
      return false;
  }
}

template <typename From, typename To>
bool convert_all(std::span<const std::byte> from, std::span<std::byte> to) {
  if constexpr (kIsFloat<From> && !kIsFloat<To>) {
    return false;
  } else {
    const size_t count = from.size() / sizeof(From);
    WEFT_CHECK(
        to.size() == count * sizeof(To), to.size(), " bytes for ", count);
    for (size_t i = 0; i < count; ++i) {
      From element = {};
      std::memcpy(&element, from.data() + i * sizeof(From), sizeof(From));
      const To converted = convert_one<To>(element);
      std::memcpy(to.data() + i * sizeof(To), &converted, sizeof(To));
    }
    return true;
  }
}

}  // namespace

bool converts(DType from, DType to) {
  if (from == to) {
    return true;
  }
  const auto is_known = [](DType dtype) {
    return with_type(dtype, [](auto) { return true; });
  };
  return is_known(from) && is_known(to) && to != DType::Bool &&
         (is_floating(to) || !is_floating(from));
}

void convert(
    DType from_dtype,
    std::span<const std::byte> from,
    DType to_dtype,
    std::span<std::byte> to) {
  WEFT_CHECK(
      converts(from_dtype, to_dtype), name(from_dtype), " to ", name(to_dtype));
  if (from_dtype == to_dtype) {
    WEFT_CHECK(from.size() == to.size(), from.size(), " bytes");
    if (!to.empty()) {
      std::memcpy(to.data(), from.data(), to.size());
    }
    return;
  }
  const bool done = with_type(from_dtype, [&](auto from_tag) {
    return with_type(to_dtype, [&](auto to_tag) {
      return convert_all<
          typename decltype(from_tag)::Type,
          typename decltype(to_tag)::Type>(from, to);
    });
  });
  WEFT_CHECK(done, name(from_dtype), " to ", name(to_dtype));
}

void fill_ones(DType dtype, std::span<std::byte> to) {
  const bool done = with_type(dtype, [&](auto tag) {
    using T = typename decltype(tag)::Type;
    const T one = convert_one<T>(uint8_t{1});
    for (size_t i = 0; i + sizeof(T) <= to.size(); i += sizeof(T)) {
      std::memcpy(to.data() + i, &one, sizeof(T));
    }
    return true;
  });
  WEFT_CHECK(done, "ones of ", name(dtype));
}

}  // namespace weft
