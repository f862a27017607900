// SPDX-License-Identifier: Apache-2.0
// For tests of readers: every number of a text in turn becomes each of these,
// and the reader says yes, or in one line what is wrong.
#pragma once

#include "base/error.h"
#include "base/number.h"
#include "base/text.h"

#include <algorithm>
#include <functional>
#include <gtest/gtest.h>
#include <string>
#include <string_view>
#include <vector>

namespace weft {

inline constexpr std::string_view kOddNumbers[] = {
    "0",
    "-1",
    "0.5",
    "1e9",
    "1000000000",
    "1e30",
    "inf",
    "-inf",
    "nan",
    "9223372036854775807",
    "4611686018427387904",
    "9223372036854775808",
    "2x",
    "",
    "x"};

// The numbers of a text, one by one; not those inside a word, such as f32, nor
// those inside quotes.
template <typename Each>
void for_each_number(std::string_view text, Each&& each) {
  const auto is_word_at = [&](size_t start, size_t end) {
    return end <= text.size() && is_word(text.substr(start, end - start));
  };
  for (size_t at = 0; at < text.size();) {
    const size_t length = number_length(text.substr(at));
    if (length > 0) {
      each(at, length);
      at += length;
      continue;
    }
    const size_t start = at++;
    if (text[start] == '"') {
      at = std::min(text.find('"', at), text.size() - 1) + 1;
    }
    while (is_word_at(start, start + 1) && is_word_at(start, at + 1)) {
      ++at;
    }
  }
}

// `read` takes the text and does with it what a command would. Nothing but a
// UserError of one line may come of it, which begins with one of `places`; for
// each number of the text one must come for some of the odd ones.
inline void expect_bounded_numbers(
    const std::string& text,
    const std::vector<std::string>& places,
    const std::function<void(const std::string&)>& read) {
  constexpr size_t kMostCharacters = 2000;
  ASSERT_NO_THROW(read(text)) << text;
  for_each_number(text, [&](size_t at, size_t length) {
    int refused = 0;
    for (const std::string_view odd : kOddNumbers) {
      std::string changed = text;
      changed.replace(at, length, odd);
      std::string said;
      try {
        read(changed);
        continue;
      } catch (const UserError& error) {
        said = error.what();
        refused += 1;
      } catch (const std::exception& error) {
        ADD_FAILURE() << error.what() << " of:\n" << changed;
      }
      const bool has_place = std::any_of(
          places.begin(), places.end(), [&](const std::string& place) {
            return said.starts_with(place);
          });
      EXPECT_TRUE(
          has_place && said.find('\n') == std::string::npos &&
          said.size() <= kMostCharacters)
          << said << " of:\n"
          << changed;
    }
    EXPECT_GT(refused, 0) << "any number will do at character " << at
                          << " of:\n"
                          << text;
  });
}

}  // namespace weft
