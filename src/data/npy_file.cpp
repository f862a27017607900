// SPDX-License-Identifier: Apache-2.0
#include "data/npy_file.h"

#include "base/error.h"
#include "base/number.h"
#include "graph/countable.h"

#include <array>
#include <cstring>
#include <string_view>
#include <utility>

namespace weft {
namespace {

constexpr std::array<std::pair<std::string_view, DType>, 14> kNames = {{
    {"f8", DType::F64},
    {"f4", DType::F32},
    {"f2", DType::F16},
    {"i8", DType::I64},
    {"i4", DType::I32},
    {"i2", DType::I16},
    {"i1", DType::I8},
    {"u8", DType::U64},
    {"u4", DType::U32},
    {"u2", DType::U16},
    {"u1", DType::U8},
    {"b1", DType::Bool},
    {"c8", DType::C64},
    {"c16", DType::C128},
}};

DType dtype_of(const std::string& descr) {
  WEFT_CHECK_USER(
      !descr.starts_with('>'),
      "it is big-endian. Save it as "
      "array.astype(array.dtype.newbyteorder('<'))");
  for (const auto& [name, dtype] : kNames) {
    if (descr.size() == name.size() + 1 && descr.substr(1) == name) {
      return dtype;
    }
  }
  throw UserError(
      cat("elements of dtype ",
          quote(descr),
          " are not supported. Save it as an array of numbers or bools"));
}

struct Header {
  std::string descr;
  bool fortran_order = false;
  Dims sizes;
};

// The header is a Python dict of three known keys:
// {'descr': '<f4', 'fortran_order': False, 'shape': (3, 4), }
Header parse_header(std::string_view text) {
  Header header;
  Scanner scanner(text, "its header");
  const auto expect_quoted = [&] {
    scanner.expect("'");
    std::string word(
        scanner.expect_run([](char c) { return c != '\''; }, "a name"));
    scanner.expect("'");
    return word;
  };
  scanner.expect("{");
  while (!scanner.take("}")) {
    const std::string key = expect_quoted();
    scanner.expect(":");
    if (key == "descr") {
      WEFT_CHECK_USER(
          !scanner.looking_at("["),
          "elements that are records are not supported. Save each of their "
          "parts as an array");
      header.descr = expect_quoted();
    } else if (key == "fortran_order") {
      header.fortran_order = scanner.expect_word() == "True";
    } else if (key == "shape") {
      scanner.expect("(");
      while (!scanner.take(")")) {
        header.sizes.push_back(
            expect_integer(scanner, "a size of the shape", {}));
        scanner.take(",");
      }
    } else {
      scanner.fail(cat("unknown key ", quote(key)));
    }
    scanner.take(",");
  }
  return header;
}

struct Parts {
  std::string_view header;
  std::span<const std::byte> elements;
};

Parts split_file(std::span<const std::byte> bytes) {
  constexpr std::string_view kMagic = "\x93NUMPY";
  const std::string_view text(
      reinterpret_cast<const char*>(bytes.data()), bytes.size());
  WEFT_CHECK_USER(
      text.starts_with(kMagic) && text.size() >= 12, "it is not a .npy file");
  const int version = static_cast<unsigned char>(text[6]);
  WEFT_CHECK_USER(
      1 <= version && version <= 3,
      "it is of version ",
      version,
      " of the format, which is not known");
  size_t length = 0;
  const size_t length_bytes = version == 1 ? 2 : 4;
  std::memcpy(&length, text.data() + 8, length_bytes);
  const size_t start = 8 + length_bytes;
  WEFT_CHECK_USER(
      length <= text.size() - start, "it is cut short: it ends in its header");
  return {text.substr(start, length), bytes.subspan(start + length)};
}

}  // namespace

NpyFile::NpyFile(const std::string& path) : file_(path) {
  try {
    const Parts parts = split_file(file_.bytes());
    Header header = parse_header(parts.header);
    const DType dtype = dtype_of(header.descr);
    WEFT_CHECK_USER(
        !header.fortran_order || header.sizes.size() < 2,
        "it is in Fortran order, where a sample does not lie in one place. "
        "Save "
        "it as numpy.ascontiguousarray(array)");
    WEFT_CHECK_USER(
        is_countable(dtype, header.sizes), "its shape is not one of an array");
    type_ = make_type(dtype, std::move(header.sizes));
    const int64_t needed = storage_bytes(type_);
    WEFT_CHECK_USER(
        std::ssize(parts.elements) >= needed,
        "it is cut short: its elements take ",
        needed,
        " bytes and ",
        parts.elements.size(),
        " are there");
    bytes_ = parts.elements.first(static_cast<size_t>(needed));
  } catch (const UserError& error) {
    throw UserError(cat("cannot read ", path, ": ", error.what()));
  }
}

}  // namespace weft
