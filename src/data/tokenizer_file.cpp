// SPDX-License-Identifier: Apache-2.0
// Reading tokenizer.json. Whatever would change the tokens and is not
// implemented is refused by name.
#include "base/error.h"
#include "base/json.h"
#include "base/readable.h"
#include "data/tokenizer.h"

#include <algorithm>
#include <limits>
#include <nlohmann/json.hpp>

namespace weft {

namespace {

using Json = nlohmann::ordered_json;

constexpr std::string_view kEndOfText = "<|endoftext|>";

bool is_empty(const Json& json, const char* key) {
  const auto found = json.find(key);
  return found == json.end() || found->is_null() || *found == "" ||
         *found == false || *found == Json::array() || *found == 0.0;
}

std::string type_of(const Json& json) {
  return shortened(
      json.is_object() ? json.value("type", "of no type") : json.dump(), 100);
}

[[noreturn]] void refuse(const std::string& what) {
  throw UserError(cat(
      what,
      " is not supported: weft reads byte-level BPE with the words of GPT-2. "
      "Make the tokens with the tokenizer's own library and give them as .bin "
      "files of uint16 or uint32"));
}

uint32_t token_in(const Json& json) {
  const int64_t token = whole_number(json);
  WEFT_CHECK_USER(
      0 <= token && token <= std::numeric_limits<int32_t>::max(),
      "a token has the number ",
      token);
  return static_cast<uint32_t>(token);
}

// The alphabet in which GPT-2 writes bytes: printable ones as themselves, the
// rest as the code points from 256 on. In UTF-8.
std::array<std::string, 256> byte_alphabet() {
  std::array<std::string, 256> alphabet;
  unsigned extra = 256;
  for (unsigned byte = 0; byte < 256; ++byte) {
    const bool printable = (byte >= '!' && byte <= '~') ||
                           (byte >= 0xA1 && byte <= 0xAC) || byte >= 0xAE;
    const unsigned code = printable ? byte : extra++;
    if (code < 0x80) {
      alphabet[byte] = std::string(1, static_cast<char>(code));
    } else {
      alphabet[byte] = {
          static_cast<char>(0xC0 | (code >> 6)),
          static_cast<char>(0x80 | (code & 0x3F))};
    }
  }
  return alphabet;
}

void check_model(const Json& model) {
  const std::string type = model.value("type", "BPE");
  if (type != "BPE") {
    refuse(cat("a model of type ", type));
  }
  for (const char* key :
       {"dropout",
        "continuing_subword_prefix",
        "end_of_word_suffix",
        "byte_fallback",
        "ignore_merges"}) {
    if (!is_empty(model, key)) {
      refuse(cat("a model with ", key));
    }
  }
}

void check_stages(const Json& json) {
  if (!is_empty(json, "normalizer")) {
    refuse(cat("the normalizer ", type_of(json.at("normalizer"))));
  }
  if (is_empty(json, "pre_tokenizer")) {
    refuse("a file without a pre_tokenizer");
  }
  const Json& split = json.at("pre_tokenizer");
  if (type_of(split) != "ByteLevel") {
    refuse(cat("the pre_tokenizer ", type_of(split)));
  }
  if (!split.value("use_regex", true)) {
    refuse("a pre_tokenizer with use_regex=false");
  }
  if (!is_empty(json, "post_processor") &&
      type_of(json.at("post_processor")) != "ByteLevel") {
    refuse(cat("the post_processor ", type_of(json.at("post_processor"))));
  }
}

}  // namespace

class TokenizerReader {
 public:
  TokenizerReader(Tokenizer& tokenizer, const Json& json)
      : tokenizer_(tokenizer) {
    WEFT_CHECK_USER(
        json.is_object() && json.contains("model"),
        "it has no model: is it a tokenizer.json?");
    check_model(json.at("model"));
    check_stages(json);
    tokenizer.add_prefix_space_ =
        json.at("pre_tokenizer").value("add_prefix_space", false);
    for (const auto& [text, number] : json.at("model").at("vocab").items()) {
      const uint32_t token = token_in(number);
      vocabulary_.emplace(text, token);
      count(token);
    }
    read_bytes();
    read_merges(json.at("model").at("merges"));
    if (!is_empty(json, "added_tokens")) {
      read_added(json.at("added_tokens"));
    }
    const auto end = vocabulary_.find(std::string(kEndOfText));
    if (!tokenizer.end_of_text_ && end != vocabulary_.end()) {
      tokenizer.end_of_text_ = end->second;
    }
  }

 private:
  void count(uint32_t token) {
    tokenizer_.vocabulary_ =
        std::max(tokenizer_.vocabulary_, int64_t{token} + 1);
  }

  uint32_t token_of(const std::string& text) const {
    const auto found = vocabulary_.find(text);
    WEFT_CHECK_USER(
        found != vocabulary_.end(),
        "the vocabulary lacks ",
        quote(text),
        ", which the byte alphabet or a merge needs");
    return found->second;
  }

  void read_bytes() {
    const std::array<std::string, 256> alphabet = byte_alphabet();
    for (size_t byte = 0; byte < alphabet.size(); ++byte) {
      tokenizer_.byte_tokens_[byte] = token_of(alphabet[byte]);
    }
  }

  // "a b", or in newer files ["a", "b"].
  void read_merges(const Json& merges) {
    uint32_t rank = 0;
    for (const Json& merge : merges) {
      std::string left;
      std::string right;
      if (merge.is_array()) {
        left = merge.at(0);
        right = merge.at(1);
      } else {
        const std::string text = merge;
        const size_t space = text.find(' ');
        WEFT_CHECK_USER(
            space != std::string::npos, "merge ", quote(text), " is no pair");
        left = text.substr(0, space);
        right = text.substr(space + 1);
      }
      const uint64_t key = uint64_t{token_of(left)} << 32 | token_of(right);
      tokenizer_.merges_.emplace(
          key, Tokenizer::Merge{rank, token_of(left + right)});
      ++rank;
    }
  }

  void read_added(const Json& added) {
    for (const Json& token : added) {
      const std::string content = token.at("content");
      for (const char* key : {"lstrip", "rstrip", "single_word"}) {
        if (!is_empty(token, key)) {
          refuse(cat("the added token ", content, " with ", key));
        }
      }
      const uint32_t id = token_in(token.at("id"));
      count(id);
      if (content.empty()) {
        continue;
      }
      tokenizer_.added_.emplace_back(content, id);
      if (content == kEndOfText) {
        tokenizer_.end_of_text_ = id;
      }
    }
  }

  Tokenizer& tokenizer_;
  std::unordered_map<std::string, uint32_t> vocabulary_;
};

Tokenizer::Tokenizer(const std::string& path) {
  try {
    TokenizerReader(*this, parse_json<Json>(read_file(path)));
  } catch (const Json::exception& error) {
    throw UserError(
        cat("cannot read the tokenizer ", path, ": ", json_fault(error)));
  } catch (const UserError& error) {
    throw UserError(
        cat("cannot read the tokenizer ", path, ": ", error.what()));
  }
}

}  // namespace weft
