// SPDX-License-Identifier: Apache-2.0
#include "mutate.h"

#include <algorithm>
#include <array>
#include <vector>

namespace weft {
namespace {

using Pieces = std::vector<std::string_view>;

constexpr std::array<std::string_view, 24> kNumbers = {
    "0",
    "1",
    "-1",
    "2",
    "3",
    "7",
    "0.5",
    "-0.0",
    "1e308",
    "1e999",
    "inf",
    "nan",
    "2147483647",
    "2147483648",
    "4294967296",
    "9223372036854775807",
    "9223372036854775808",
    "-9223372036854775808",
    "18446744073709551615",
    "4611686018427387904",
    "3037000500",
    "1e-300",
    "00",
    "64"};

bool is_word_char(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
         (c >= '0' && c <= '9') || c == '_' || c == '.';
}

bool is_number(std::string_view token) {
  return token.front() >= '0' && token.front() <= '9';
}

// Words, runs of spaces, and single other characters.
Pieces tokens_of(std::string_view text) {
  Pieces tokens;
  while (!text.empty()) {
    size_t size = 1;
    if (is_word_char(text.front())) {
      while (size < text.size() && is_word_char(text[size])) {
        ++size;
      }
    } else if (text.front() == ' ') {
      while (size < text.size() && text[size] == ' ') {
        ++size;
      }
    }
    tokens.push_back(text.substr(0, size));
    text.remove_prefix(size);
  }
  return tokens;
}

Pieces lines_of(std::string_view text) {
  Pieces lines;
  while (!text.empty()) {
    const size_t size = std::min(text.find('\n'), text.size() - 1) + 1;
    lines.push_back(text.substr(0, size));
    text.remove_prefix(size);
  }
  return lines;
}

class Mutation {
 public:
  Mutation(std::string_view text, std::minstd_rand& random)
      : text_(text), random_(random) {}

  std::string run() {
    const Pieces pieces = below(3) == 0 ? lines_of(text_) : tokens_of(text_);
    if (pieces.empty()) {
      return "1";
    }
    switch (below(6)) {
      case 0:
        return without(pieces);
      case 1:
        return twice(pieces);
      case 2:
        return swapped(pieces);
      case 3:
        return bytes_changed();
      default:
        return replaced(tokens_of(text_));
    }
  }

 private:
  size_t below(size_t end) { return random_() % end; }

  static std::string joined(const Pieces& pieces) {
    std::string out;
    for (const std::string_view piece : pieces) {
      out += piece;
    }
    return out;
  }

  std::string without(Pieces pieces) {
    const auto first = static_cast<std::ptrdiff_t>(below(pieces.size()));
    const size_t most = std::min<size_t>(pieces.size() - first, 4);
    pieces.erase(
        pieces.begin() + first,
        pieces.begin() + first + static_cast<std::ptrdiff_t>(below(most) + 1));
    return joined(pieces);
  }

  std::string twice(Pieces pieces) {
    const std::string_view piece = pieces[below(pieces.size())];
    const auto at = static_cast<std::ptrdiff_t>(below(pieces.size() + 1));
    pieces.insert(
        pieces.begin() + at, below(8) == 0 ? 1 + below(40) : 1, piece);
    return joined(pieces);
  }

  std::string swapped(Pieces pieces) {
    std::swap(pieces[below(pieces.size())], pieces[below(pieces.size())]);
    return joined(pieces);
  }

  // By another of the text of the same sort, or a number by one at an edge.
  std::string replaced(Pieces pieces) {
    std::vector<size_t> places;
    const bool wants_numbers = below(2) == 0;
    for (size_t i = 0; i < pieces.size(); ++i) {
      if (is_word_char(pieces[i].front()) &&
          is_number(pieces[i]) == wants_numbers) {
        places.push_back(i);
      }
    }
    if (places.empty()) {
      return swapped(std::move(pieces));
    }
    std::string_view& place = pieces[places[below(places.size())]];
    place = wants_numbers && below(2) == 0
                ? kNumbers[below(kNumbers.size())]
                : pieces[places[below(places.size())]];
    return joined(pieces);
  }

  std::string bytes_changed() {
    std::string text(text_);
    const size_t at = below(text.size());
    switch (below(3)) {
      case 0:
        text[at] = static_cast<char>(text[at] ^ (1 << below(8)));
        break;
      case 1:
        text[at] = static_cast<char>(below(256));
        break;
      default:
        text.resize(at);
    }
    return text;
  }

  const std::string_view text_;
  std::minstd_rand& random_;
};

}  // namespace

std::string mutated(
    std::string_view text, size_t most_bytes, std::minstd_rand& random) {
  std::string out(text);
  for (size_t left = 1 + random() % 3; left > 0; --left) {
    out = Mutation(out, random).run();
  }
  out.resize(std::min(out.size(), most_bytes));
  return out;
}

}  // namespace weft
