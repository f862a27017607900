// SPDX-License-Identifier: Apache-2.0
#include "data/token_stream.h"

#include "base/error.h"

#include <algorithm>
#include <cstring>
#include <utility>

namespace weft {
namespace {

constexpr size_t kTokens = 0;
constexpr size_t kLabels = 1;

template <typename Token>
void widen(std::span<const std::byte> from, int64_t* to) {
  for (size_t i = 0; i < from.size() / sizeof(Token); ++i) {
    Token token = 0;
    std::memcpy(&token, from.data() + i * sizeof(Token), sizeof(Token));
    to[i] = token;
  }
}

class StreamDataset final : public Dataset {
 public:
  StreamDataset(
      TokenStream stream,
      int64_t sequence,
      std::optional<int64_t> vocabulary,
      std::optional<int64_t> limit,
      std::vector<std::string> notes)
      : stream_(std::move(stream)),
        sequence_(sequence),
        vocabulary_(vocabulary),
        limit_(limit),
        notes_(std::move(notes)) {
    const TensorType type = make_type(DType::I64, {sequence});
    fields_ = {{"tokens", type}, {"labels", type}};
    int64_t count = 0;
    for (const TokenStream::Segment& segment : stream_.segments) {
      starts_.push_back(count);
      count += std::ssize(segment.bytes) / stream_.token_bytes;
    }
    starts_.push_back(count);
    size_ = count == 0 ? 0 : (count - 1) / sequence;
    WEFT_CHECK_USER(
        size_ > 0,
        "no whole sample: there are ",
        count,
        " tokens, and a sample of sequence ",
        sequence,
        " takes ",
        sequence,
        " and the one after them. Give more data or a shorter sequence");
  }

  int64_t size() const override { return size_; }
  const std::vector<Field>& fields() const override { return fields_; }
  bool is_stream() const override { return true; }
  std::optional<int64_t> vocabulary() const override { return vocabulary_; }
  const std::vector<std::string>& notes() const override { return notes_; }

  void read(
      int64_t sample, size_t field, std::span<std::byte> to) const override {
    WEFT_CHECK(
        0 <= sample && sample < size_ && field <= kLabels &&
            std::ssize(to) == sequence_ * 8,
        "sample ",
        sample,
        " of ",
        size_);
    std::vector<int64_t> tokens(static_cast<size_t>(sequence_));
    const int64_t first = sample * sequence_ + (field == kTokens ? 0 : 1);
    read_tokens(first, tokens);
    std::memcpy(to.data(), tokens.data(), to.size());
  }

 private:
  void read_tokens(int64_t first, std::span<int64_t> to) const {
    auto segment = static_cast<size_t>(
        std::upper_bound(starts_.begin(), starts_.end(), first) -
        starts_.begin() - 1);
    while (!to.empty()) {
      const int64_t position = first - starts_[segment];
      const int64_t count =
          std::min(starts_[segment + 1] - first, std::ssize(to));
      read_segment(segment, position, to.first(static_cast<size_t>(count)));
      to = to.subspan(static_cast<size_t>(count));
      first += count;
      ++segment;
    }
  }

  void read_segment(
      size_t segment, int64_t position, std::span<int64_t> to) const {
    const auto width = static_cast<size_t>(stream_.token_bytes);
    if (const auto& checks = stream_.segments[segment].checks) {
      checks->expect(
          position * stream_.token_bytes, std::ssize(to) * stream_.token_bytes);
    }
    const auto from = stream_.segments[segment].bytes.subspan(
        static_cast<size_t>(position) * width, to.size() * width);
    switch (width) {
      case 1:
        widen<uint8_t>(from, to.data());
        break;
      case 2:
        widen<uint16_t>(from, to.data());
        break;
      default:
        widen<uint32_t>(from, to.data());
    }
    for (size_t i = 0; limit_ && i < to.size(); ++i) {
      WEFT_CHECK_USER(
          to[i] < *limit_,
          stream_.segments[segment].name,
          ": token ",
          to[i],
          " at position ",
          position + static_cast<int64_t>(i),
          " is not below the vocabulary of ",
          *limit_,
          ". Is it the model's tokenizer, and the right number of bytes a "
          "token (",
          width,
          ")?");
    }
  }

  TokenStream stream_;
  int64_t sequence_ = 0;
  std::optional<int64_t> vocabulary_;
  std::optional<int64_t> limit_;
  std::vector<std::string> notes_;
  std::vector<Field> fields_;
  // The first token of every segment, and the end of the last.
  std::vector<int64_t> starts_;
  int64_t size_ = 0;
};

}  // namespace

void TokenStream::add(MappedFile file) {
  // An empty segment would have no position of its own.
  if (file.size_bytes() >= token_bytes) {
    segments.push_back({file.path(), file.bytes()});
    files.push_back(std::move(file));
  }
}

void TokenStream::add(TokenCache cache) {
  if (!cache.tokens.empty()) {
    segments.push_back(
        {cache.file.path(), cache.tokens, std::move(cache.checks)});
    files.push_back(std::move(cache.file));
  }
}

void TokenStream::add(std::string name, std::vector<std::byte> tokens) {
  if (!tokens.empty()) {
    buffers.push_back(std::move(tokens));
    segments.push_back({std::move(name), buffers.back()});
  }
}

std::unique_ptr<Dataset> make_stream_dataset(
    TokenStream stream,
    int64_t sequence,
    std::optional<int64_t> vocabulary,
    std::optional<int64_t> limit,
    std::vector<std::string> notes) {
  WEFT_CHECK_USER(
      sequence > 0,
      "a stream of tokens is cut into sequences: say how many tokens one has "
      "(the second dim of the model's input)");
  return std::make_unique<StreamDataset>(
      std::move(stream), sequence, vocabulary, limit, std::move(notes));
}

}  // namespace weft
