// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "base/text.h"

#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

namespace weft {

// For tests: a tokenizer.json whose token of a printable byte is the byte, with
// these merges from 256 on, and `<|endoftext|>` last.
inline void write_test_tokenizer(
    const std::string& path,
    const std::vector<std::pair<std::string, std::string>>& merges) {
  using Json = nlohmann::ordered_json;
  Json vocabulary = Json::object();
  unsigned extra = 256;
  for (unsigned byte = 0; byte < 256; ++byte) {
    const bool printable = (byte >= 33 && byte <= 126) ||
                           (byte >= 161 && byte <= 172) || byte >= 174;
    const unsigned code = printable ? byte : extra++;
    const std::string text = code < 128
                                 ? std::string(1, static_cast<char>(code))
                                 : std::string{
                                       static_cast<char>(0xC0 | (code >> 6)),
                                       static_cast<char>(0x80 | (code & 63))};
    vocabulary[text] = byte;
  }
  unsigned token = 256;
  for (const auto& [left, right] : merges) {
    vocabulary[left + right] = token++;
  }
  const Json json = {
      {"added_tokens",
       {{{"id", token},
         {"content", "<|endoftext|>"},
         {"single_word", false},
         {"lstrip", false},
         {"rstrip", false},
         {"special", true}}}},
      {"normalizer", nullptr},
      {"pre_tokenizer",
       {{"type", "ByteLevel"},
        {"add_prefix_space", false},
        {"use_regex", true}}},
      {"post_processor", nullptr},
      {"model",
       {{"type", "BPE"},
        {"dropout", nullptr},
        {"byte_fallback", false},
        {"vocab", vocabulary},
        {"merges", merges}}}};
  write_file(path, json.dump());
}

}  // namespace weft
