// SPDX-License-Identifier: Apache-2.0
// Byte-level BPE, as of GPT-2, from a Hugging Face tokenizer.json.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

namespace weft {

class Tokenizer {
 public:
  // Reads vocabulary, merges and added tokens. Throws UserError that names the
  // file and what in it is not supported: other models than BPE, a normalizer,
  // another splitting of words (pre_split.h), a post-processor that adds
  // tokens. Truncation and padding in the file are of no meaning for streams
  // and left aside.
  explicit Tokenizer(const std::string& path);

  // One more than the highest token.
  int64_t vocabulary() const { return vocabulary_; }
  // `<|endoftext|>`, where the file has it: goes behind every document.
  std::optional<uint32_t> end_of_text() const { return end_of_text_; }

  using Sink = std::function<void(std::span<const uint32_t>)>;
  // Hands the tokens of the text to `sink`, some at a time. Any bytes have
  // tokens. Added tokens that stand in the text are taken as such.
  void encode(std::string_view text, const Sink& sink);
  std::vector<uint32_t> encode(std::string_view text);

 private:
  struct Merge {
    uint32_t rank = 0;
    uint32_t token = 0;
  };

  void encode_plain(
      std::string_view text, std::vector<uint32_t>& tokens, const Sink& sink);
  const std::vector<uint32_t>& encode_word(std::string_view word);
  std::vector<uint32_t> merge_word(std::string_view word) const;
  const Merge* find_merge(uint32_t left, uint32_t right) const;

  friend class TokenizerReader;

  std::array<uint32_t, 256> byte_tokens_ = {};
  std::unordered_map<uint64_t, Merge> merges_;
  std::vector<std::pair<std::string, uint32_t>> added_;
  std::optional<uint32_t> end_of_text_;
  bool add_prefix_space_ = false;
  int64_t vocabulary_ = 0;
  // Words repeat; most of a text is a lookup.
  std::unordered_map<std::string, std::vector<uint32_t>> words_;
  std::vector<uint32_t> unkept_word_;
};

}  // namespace weft
