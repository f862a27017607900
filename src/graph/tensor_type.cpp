// SPDX-License-Identifier: Apache-2.0
#include "graph/tensor_type.h"

#include "base/error.h"
#include "base/number.h"
#include "base/text.h"
#include "graph/countable.h"

#include <algorithm>
#include <numeric>
#include <optional>
#include <utility>

namespace weft {

namespace {

std::optional<int64_t> times(std::optional<int64_t> a, int64_t b) {
  int64_t out = 0;
  if (!a || __builtin_mul_overflow(*a, b, &out)) {
    return std::nullopt;
  }
  return out;
}

bool is_empty(const Dims& sizes) {
  return std::find(sizes.begin(), sizes.end(), 0) != sizes.end();
}

// Absent when 64 bits do not hold the count.
std::optional<int64_t> count_elements(const Dims& sizes) {
  if (is_empty(sizes)) {
    return 0;
  }
  std::optional<int64_t> count = 1;
  for (const int64_t size : sizes) {
    count = times(count, size);
  }
  return count;
}

// Absent when 64 bits do not hold the bytes.
std::optional<int64_t> count_storage_bytes(const TensorType& type) {
  const int64_t bytes = element_bytes(type.dtype);
  if (type.strides.empty() || is_empty(type.sizes)) {
    return times(count_elements(type.sizes), bytes);
  }
  int64_t last = 0;
  for (size_t dim = 0; dim < type.sizes.size(); ++dim) {
    const auto reach = times(type.sizes[dim] - 1, type.strides[dim]);
    if (!reach || __builtin_add_overflow(last, *reach, &last)) {
      return std::nullopt;
    }
  }
  int64_t count = 0;
  if (__builtin_add_overflow(last, int64_t{1}, &count)) {
    return std::nullopt;
  }
  return times(count, bytes);
}

bool is_row_major(const Dims& sizes, const Dims& strides) {
  int64_t expected = 1;
  for (size_t dim = sizes.size(); dim-- > 0;) {
    if (sizes[dim] == 1) {
      continue;
    }
    if (strides[dim] != expected) {
      return false;
    }
    const auto next = times(expected, sizes[dim]);
    if (!next) {
      return false;
    }
    expected = *next;
  }
  return true;
}

// From the innermost dim to the outermost. Only images and volumes, with a dim
// of samples and one of channels, can lie with their channels last.
std::vector<size_t> channels_last_order(size_t ndim) {
  return ndim == 4   ? std::vector<size_t>{1, 3, 2, 0}
         : ndim == 5 ? std::vector<size_t>{1, 4, 3, 2, 0}
                     : std::vector<size_t>();
}

// As PyTorch tells it from strides, those of dims of size 1 included.
bool are_channels_last(const Dims& sizes, const Dims& strides) {
  const std::vector<size_t> order = channels_last_order(sizes.size());
  if (order.empty() || strides[1] == 0) {
    return false;
  }
  int64_t least = 0;
  for (const size_t dim : order) {
    if (strides[dim] < least || (dim == 0 && least == strides[1])) {
      return false;
    }
    const auto next = times(strides[dim], std::max(sizes[dim], int64_t{1}));
    if (!next) {
      return false;
    }
    least = *next;
  }
  return true;
}

Dims channels_last_strides(const Dims& sizes) {
  Dims strides(sizes.size());
  int64_t next = 1;
  for (const size_t dim : channels_last_order(sizes.size())) {
    strides[dim] = next;
    next *= std::max(sizes[dim], int64_t{1});
  }
  return strides;
}

// Of strides that are row-major, too: none, or those of channels last where
// dims of size 1 make PyTorch take the tensor for that.
Dims strides_to_keep(const Dims& sizes, const Dims& strides) {
  if (!are_channels_last(sizes, strides)) {
    return {};
  }
  Dims kept = channels_last_strides(sizes);
  return are_channels_last(sizes, kept) ? kept : Dims();
}

void print_dims(const Dims& dims, char open, char close, std::string* out) {
  *out += open;
  for (size_t i = 0; i < dims.size(); ++i) {
    if (i > 0) {
      *out += ", ";
    }
    *out += std::to_string(dims[i]);
  }
  *out += close;
}

Dims parse_dims(
    Scanner& scanner, std::string_view open, std::string_view close) {
  Dims dims;
  scanner.expect(open);
  if (scanner.take(close)) {
    return dims;
  }
  do {
    dims.push_back(expect_integer(scanner, "a size or stride", {}));
  } while (scanner.take(","));
  scanner.expect(close);
  return dims;
}

}  // namespace

TensorType make_type(DType dtype, Dims sizes, Dims strides) {
  WEFT_CHECK(
      strides.empty() || strides.size() == sizes.size(),
      "a type with ",
      sizes.size(),
      " sizes has ",
      strides.size(),
      " strides");
  if (!strides.empty() && is_empty(sizes)) {
    strides.clear();
  } else if (!strides.empty() && is_row_major(sizes, strides)) {
    strides = strides_to_keep(sizes, strides);
  }
  return {dtype, std::move(sizes), std::move(strides)};
}

Dims row_major_strides(const Dims& sizes) {
  Dims strides(sizes.size());
  int64_t stride = 1;
  for (size_t dim = sizes.size(); dim-- > 0;) {
    strides[dim] = stride;
    const auto next = times(stride, std::max(sizes[dim], int64_t{1}));
    WEFT_CHECK(next, "strides do not fit in 64 bits");
    stride = *next;
  }
  return strides;
}

Dims strides_of(const TensorType& type) {
  return type.strides.empty() ? row_major_strides(type.sizes) : type.strides;
}

bool is_contiguous(const TensorType& type) {
  return type.strides.empty() || is_row_major(type.sizes, type.strides);
}

bool is_channels_last(const TensorType& type) {
  return !type.strides.empty() && are_channels_last(type.sizes, type.strides);
}

TensorType channels_last(DType dtype, Dims sizes) {
  WEFT_CHECK(
      !channels_last_order(sizes.size()).empty(),
      "no channels to be last among ",
      sizes.size(),
      " dims");
  Dims strides = channels_last_strides(sizes);
  return make_type(dtype, std::move(sizes), std::move(strides));
}

std::vector<size_t> memory_order(const Dims& strides) {
  std::vector<size_t> order(strides.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) {
    return strides[a] > strides[b];
  });
  return order;
}

int64_t element_count(const TensorType& type) {
  const auto count = count_elements(type.sizes);
  WEFT_CHECK(count, "too many elements for 64 bits: ", print(type));
  return *count;
}

int64_t storage_bytes(const TensorType& type) {
  const auto bytes = count_storage_bytes(type);
  WEFT_CHECK(bytes, "too many bytes for 64 bits: ", print(type));
  return *bytes;
}

std::string print(const TensorType& type) {
  std::string out(name(type.dtype));
  print_dims(type.sizes, '[', ']', &out);
  if (!type.strides.empty()) {
    print_dims(type.strides, '{', '}', &out);
  }
  return out;
}

TensorType parse_type(Scanner& scanner) {
  const size_t start = scanner.mark();
  const std::string word = scanner.expect_word();
  const auto dtype = dtype_from_name(word);
  if (!dtype) {
    scanner.fail_at(
        start, cat("expected a type such as f32[8, 16], found ", quote(word)));
  }
  Dims sizes = parse_dims(scanner, "[", "]");
  Dims strides;
  if (scanner.looking_at("{")) {
    strides = parse_dims(scanner, "{", "}");
    if (strides.size() != sizes.size()) {
      scanner.fail_at(
          start,
          cat("a type with ",
              sizes.size(),
              " sizes has ",
              strides.size(),
              " strides"));
    }
  }
  TensorType type = make_type(*dtype, std::move(sizes), std::move(strides));
  const auto bytes = count_storage_bytes(type);
  if (!is_countable(type.dtype, type.sizes) || !bytes ||
      *bytes > kMostTensorBytes) {
    scanner.fail_at(
        start,
        cat("the type has more bytes than any machine: at most ",
            human_bytes(static_cast<double>(kMostTensorBytes))));
  }
  return type;
}

TensorType parse_type(const std::string& text) {
  Scanner scanner(text, "<type>");
  TensorType type = parse_type(scanner);
  if (!scanner.at_end()) {
    scanner.fail_expected("the end of the type");
  }
  return type;
}

}  // namespace weft
