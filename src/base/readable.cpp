// SPDX-License-Identifier: Apache-2.0
#include "base/readable.h"

#include "base/text.h"

#include <algorithm>

namespace weft {
namespace {

constexpr size_t kLongestWordBytes = 400;
constexpr std::string_view kGap = "...";

bool is_continuation(char c) {
  return (static_cast<unsigned char>(c) & 0xC0) == 0x80;
}

// The bytes of the character of UTF-8 that begins the text, 0 when it begins
// with none. Overlong forms and surrogates are none.
size_t character_bytes(std::string_view text) {
  const auto first = static_cast<unsigned char>(text.front());
  if (first < 0x80) {
    return 1;
  }
  const size_t size = first >= 0xF0   ? 4
                      : first >= 0xE0 ? 3
                      : first >= 0xC2 ? 2
                                      : 0;
  if (size == 0 || first > 0xF4 || text.size() < size) {
    return 0;
  }
  for (size_t i = 1; i < size; ++i) {
    if (!is_continuation(text[i])) {
      return 0;
    }
  }
  const auto second = static_cast<unsigned char>(text[1]);
  const bool is_wrong =
      (first == 0xE0 && second < 0xA0) || (first == 0xED && second >= 0xA0) ||
      (first == 0xF0 && second < 0x90) || (first == 0xF4 && second >= 0x90);
  return is_wrong ? 0 : size;
}

bool is_shown(char c) {
  const auto byte = static_cast<unsigned char>(c);
  return c == '\n' || c == '\t' || (byte >= 0x20 && byte != 0x7F);
}

std::string with_escapes(std::string_view text) {
  std::string out;
  while (!text.empty()) {
    const size_t size = character_bytes(text);
    if (size > 1 || (size == 1 && is_shown(text.front()))) {
      out += text.substr(0, size);
    } else {
      out += "\\x" + to_hex(text.substr(0, 1));
    }
    text.remove_prefix(std::max<size_t>(size, 1));
  }
  return out;
}

std::string with_short_words(std::string_view text) {
  std::string out;
  while (!text.empty()) {
    const size_t end = std::min(text.find_first_of(" \n\t"), text.size());
    out += shortened(text.substr(0, end), kLongestWordBytes);
    const size_t next =
        std::min(text.find_first_not_of(" \n\t", end), text.size());
    out += text.substr(end, next - end);
    text.remove_prefix(next);
  }
  return out;
}

}  // namespace

std::string shortened(std::string_view text, size_t most_bytes) {
  if (text.size() <= most_bytes) {
    return std::string(text);
  }
  const size_t kept = most_bytes - std::min(most_bytes, kGap.size());
  size_t head = kept - kept / 3;
  size_t tail = text.size() - kept / 3;
  while (head > 0 && is_continuation(text[head])) {
    --head;
  }
  while (tail < text.size() && is_continuation(text[tail])) {
    ++tail;
  }
  return cat(text.substr(0, head), kGap, text.substr(tail));
}

std::string readable(std::string_view message) {
  // Before every byte of it is looked at: it may be as long as a file.
  const std::string first = shortened(message, 8 * kLongestMessageBytes);
  return shortened(with_short_words(with_escapes(first)), kLongestMessageBytes);
}

}  // namespace weft
