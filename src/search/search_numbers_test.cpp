// SPDX-License-Identifier: Apache-2.0
#include "base/test_numbers.h"
#include "search/space.h"

namespace weft {
namespace {

TEST(SearchNumbers, OfWords) {
  for (const char* text :
       {"data=2",
        "tensor=2",
        "pipeline=2",
        "context=2",
        "expert=2",
        "seats=2",
        "zero=1",
        "stages=2",
        "micro-batches=2"}) {
    expect_bounded_numbers(text, {""}, [](const std::string& word) {
      SearchLimits limits;
      fix_word(limits, word);
      fix_word(limits, word.starts_with("data") ? "tensor=4" : "data=4");
      verify(limits, 16);
      candidates(16, 8, 16, limits);
    });
  }
}

}  // namespace
}  // namespace weft
