// SPDX-License-Identifier: Apache-2.0
#include "data/pre_split.h"

#include <array>
#include <cstdint>

namespace weft {
namespace {

enum class Class : uint8_t { Letter, Number, Space, Other };

Class class_of(char c) {
  const auto byte = static_cast<unsigned char>(c);
  if (byte >= 0x80 || (byte >= 'a' && byte <= 'z') ||
      (byte >= 'A' && byte <= 'Z')) {
    return Class::Letter;
  }
  if (byte >= '0' && byte <= '9') {
    return Class::Number;
  }
  if (byte == ' ' || (byte >= '\t' && byte <= '\r')) {
    return Class::Space;
  }
  return Class::Other;
}

// The end of the run of one class that starts at `start`.
size_t run_end(std::string_view text, size_t start) {
  const Class kind = class_of(text[start]);
  size_t end = start + 1;
  while (end < text.size() && class_of(text[end]) == kind) {
    ++end;
  }
  return end;
}

constexpr std::array<std::string_view, 7> kContractions = {
    "'s", "'t", "'re", "'ve", "'m", "'ll", "'d"};

}  // namespace

size_t first_word_bytes(std::string_view text) {
  for (const std::string_view contraction : kContractions) {
    if (text.starts_with(contraction)) {
      return contraction.size();
    }
  }
  if (class_of(text[0]) != Class::Space) {
    return run_end(text, 0);
  }
  if (text[0] == ' ' && text.size() > 1 && class_of(text[1]) != Class::Space) {
    return run_end(text, 1);
  }
  // A run of spaces leaves its last one to the word behind it.
  const size_t end = run_end(text, 0);
  return end == text.size() || end == 1 ? end : end - 1;
}

}  // namespace weft
