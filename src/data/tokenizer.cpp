// SPDX-License-Identifier: Apache-2.0
#include "data/tokenizer.h"

#include "data/pre_split.h"

#include <algorithm>
#include <queue>
#include <tuple>

namespace weft {
namespace {

constexpr size_t kTokensAtATime = size_t{1} << 20;
// The memory of words: longer ones hardly come again.
constexpr size_t kMostWords = size_t{1} << 20;
constexpr size_t kLongestKeptWord = 64;

void flush(std::vector<uint32_t>& tokens, const Tokenizer::Sink& sink) {
  if (!tokens.empty()) {
    sink(tokens);
    tokens.clear();
  }
}

// A symbol of a word while it is merged: a doubly linked list in an array.
struct Symbol {
  uint32_t token = 0;
  size_t previous = 0;
  size_t next = 0;
  bool gone = false;
};

// A merge that was possible when it was queued: lowest rank first, then
// leftmost.
struct Candidate {
  uint32_t rank = 0;
  size_t left = 0;
  uint32_t left_token = 0;
  uint32_t right_token = 0;
  uint32_t merged = 0;

  bool operator>(const Candidate& other) const {
    return std::tie(rank, left) > std::tie(other.rank, other.left);
  }
};

constexpr size_t kNone = SIZE_MAX;

}  // namespace

const Tokenizer::Merge* Tokenizer::find_merge(
    uint32_t left, uint32_t right) const {
  const auto found = merges_.find(uint64_t{left} << 32 | right);
  return found == merges_.end() ? nullptr : &found->second;
}

// A queue and not a scan for every merge: a text without spaces is one word,
// and may be long.
std::vector<uint32_t> Tokenizer::merge_word(std::string_view word) const {
  std::vector<Symbol> symbols(word.size());
  for (size_t i = 0; i < word.size(); ++i) {
    symbols[i].token = byte_tokens_[static_cast<unsigned char>(word[i])];
    symbols[i].previous = i == 0 ? kNone : i - 1;
    symbols[i].next = i + 1 == word.size() ? kNone : i + 1;
  }
  std::priority_queue<Candidate, std::vector<Candidate>, std::greater<>> queue;
  const auto consider = [&](size_t left) {
    if (left == kNone || symbols[left].next == kNone) {
      return;
    }
    const uint32_t a = symbols[left].token;
    const uint32_t b = symbols[symbols[left].next].token;
    if (const Merge* merge = find_merge(a, b)) {
      queue.push({merge->rank, left, a, b, merge->token});
    }
  };
  for (size_t i = 0; i < symbols.size(); ++i) {
    consider(i);
  }
  while (!queue.empty()) {
    const Candidate top = queue.top();
    queue.pop();
    Symbol& left = symbols[top.left];
    if (left.gone || left.token != top.left_token || left.next == kNone ||
        symbols[left.next].token != top.right_token) {
      continue;
    }
    Symbol& right = symbols[left.next];
    right.gone = true;
    left.token = top.merged;
    left.next = right.next;
    if (left.next != kNone) {
      symbols[left.next].previous = top.left;
    }
    consider(left.previous);
    consider(top.left);
  }
  std::vector<uint32_t> tokens;
  for (size_t i = symbols.empty() ? kNone : 0; i != kNone;
       i = symbols[i].next) {
    tokens.push_back(symbols[i].token);
  }
  return tokens;
}

const std::vector<uint32_t>& Tokenizer::encode_word(std::string_view word) {
  const std::string key(word);
  const auto found = words_.find(key);
  if (found != words_.end()) {
    return found->second;
  }
  if (words_.size() >= kMostWords || word.size() > kLongestKeptWord) {
    unkept_word_ = merge_word(word);
    return unkept_word_;
  }
  return words_[key] = merge_word(word);
}

void Tokenizer::encode_plain(
    std::string_view text, std::vector<uint32_t>& tokens, const Sink& sink) {
  while (!text.empty()) {
    const size_t size = first_word_bytes(text);
    const std::vector<uint32_t>& word = encode_word(text.substr(0, size));
    tokens.insert(tokens.end(), word.begin(), word.end());
    if (tokens.size() >= kTokensAtATime) {
      flush(tokens, sink);
    }
    text.remove_prefix(size);
  }
}

void Tokenizer::encode(std::string_view text, const Sink& sink) {
  std::vector<uint32_t> tokens;
  // Where each added token comes next, so that each is searched for once.
  std::vector<size_t> next(added_.size());
  for (size_t i = 0; i < added_.size(); ++i) {
    next[i] = text.find(added_[i].first);
  }
  size_t position = 0;
  while (position < text.size()) {
    size_t first = text.size();
    size_t which = added_.size();
    for (size_t i = 0; i < added_.size(); ++i) {
      if (next[i] != std::string_view::npos && next[i] < position) {
        next[i] = text.find(added_[i].first, position);
      }
      const bool longer = which < added_.size() && next[i] == first &&
                          added_[i].first.size() > added_[which].first.size();
      if (next[i] < first || longer) {
        first = next[i];
        which = i;
      }
    }
    const std::string_view plain = text.substr(position, first - position);
    if (add_prefix_space_ && !plain.empty() && plain[0] != ' ') {
      encode_plain(" " + std::string(plain), tokens, sink);
    } else {
      encode_plain(plain, tokens, sink);
    }
    position = first;
    if (which < added_.size()) {
      tokens.push_back(added_[which].second);
      position += added_[which].first.size();
    }
  }
  flush(tokens, sink);
}

std::vector<uint32_t> Tokenizer::encode(std::string_view text) {
  std::vector<uint32_t> all;
  encode(text, [&](std::span<const uint32_t> tokens) {
    all.insert(all.end(), tokens.begin(), tokens.end());
  });
  return all;
}

}  // namespace weft
