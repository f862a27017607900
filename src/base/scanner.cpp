// SPDX-License-Identifier: Apache-2.0
#include "base/error.h"
#include "base/number.h"
#include "base/text.h"

#include <algorithm>
#include <limits>
#include <optional>
#include <utility>

namespace weft {

namespace {

// Characters of a token in a message.
constexpr size_t kShown = 40;

bool is_space(char c) {
  return c == ' ' || c == '\n' || c == '\t' || c == '\r';
}

bool is_digit(char c) { return c >= '0' && c <= '9'; }

bool is_word_start(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
}

bool is_word_char(char c) { return is_word_start(c) || is_digit(c); }

}  // namespace

bool is_word(std::string_view text) {
  return !text.empty() && is_word_start(text.front()) &&
         std::all_of(text.begin(), text.end(), is_word_char);
}

Scanner::Scanner(std::string_view text, std::string source)
    : text_(text), source_(std::move(source)) {}

void Scanner::skip_space() {
  while (position_ < text_.size()) {
    if (is_space(text_[position_])) {
      ++position_;
    } else if (text_.compare(position_, 2, "//") == 0) {
      const size_t end = text_.find('\n', position_);
      position_ = end == std::string_view::npos ? text_.size() : end;
    } else {
      return;
    }
  }
}

bool Scanner::at_end() {
  skip_space();
  return position_ == text_.size();
}

char Scanner::peek() {
  skip_space();
  return position_ < text_.size() ? text_[position_] : '\0';
}

bool Scanner::looking_at(std::string_view token) {
  skip_space();
  if (text_.compare(position_, token.size(), token) != 0) {
    return false;
  }
  const size_t end = position_ + token.size();
  const bool inside_word = !token.empty() && is_word_char(token.back()) &&
                           end < text_.size() && is_word_char(text_[end]);
  return !inside_word;
}

bool Scanner::take(std::string_view token) {
  if (!looking_at(token)) {
    return false;
  }
  position_ += token.size();
  return true;
}

void Scanner::expect(std::string_view token) {
  if (!take(token)) {
    fail_expected(cat("'", token, "'"));
  }
}

std::string Scanner::expect_word() {
  if (!is_word_start(peek())) {
    fail_expected("a word");
  }
  const size_t start = position_;
  while (position_ < text_.size() && is_word_char(text_[position_])) {
    ++position_;
  }
  return std::string(text_.substr(start, position_ - start));
}

std::string_view Scanner::expect_run(
    bool (*accepts)(char), std::string_view what) {
  skip_space();
  const size_t start = position_;
  while (position_ < text_.size() && accepts(text_[position_])) {
    ++position_;
  }
  if (position_ == start) {
    fail_expected(what);
  }
  return text_.substr(start, position_ - start);
}

int64_t Scanner::expect_int() {
  const size_t start = mark();
  const std::string_view token =
      text_.substr(start, number_length(text_.substr(start)));
  if (token.empty()) {
    fail_expected("an integer");
  }
  bool is_integer = false;
  int64_t integer = 0;
  expect_number(&is_integer, &integer);
  if (!is_integer) {
    position_ = start;
    fail(cat("expected an integer, found ", quote(token.substr(0, kShown))));
  }
  return integer;
}

double Scanner::expect_number(bool* is_integer, int64_t* integer) {
  const size_t start = mark();
  *is_integer = false;
  for (const std::string_view word : {"inf", "-inf", "nan"}) {
    if (take(word)) {
      constexpr double kInfinity = std::numeric_limits<double>::infinity();
      return word == "nan"   ? std::numeric_limits<double>::quiet_NaN()
             : word == "inf" ? kInfinity
                             : -kInfinity;
    }
  }
  const std::string_view token =
      text_.substr(start, number_length(text_.substr(start)));
  if (token.empty()) {
    fail_expected("a number");
  }
  std::optional<double> value;
  if (token.find_first_of(".eE") == std::string_view::npos) {
    if (const std::optional<int64_t> whole = read_integer(token)) {
      *is_integer = true;
      *integer = *whole;
      value = static_cast<double>(*whole);
    }
  } else {
    value = read_number(token);
  }
  if (!value) {
    fail(cat("number out of range: ", token.substr(0, kShown)));
  }
  position_ = start + token.size();
  return *value;
}

std::string Scanner::expect_string() {
  if (peek() != '"') {
    fail_expected("a quoted string");
  }
  const size_t start = position_;
  std::string out;
  for (size_t at = start + 1; at < text_.size(); ++at) {
    const char c = text_[at];
    if (c == '"') {
      position_ = at + 1;
      return out;
    }
    if (c == '\n') {
      break;
    }
    if (c != '\\') {
      out += c;
      continue;
    }
    ++at;
    const char escaped = at < text_.size() ? text_[at] : '\0';
    if (escaped == '"' || escaped == '\\') {
      out += escaped;
    } else if (escaped == 'n') {
      out += '\n';
    } else if (escaped == 't') {
      out += '\t';
    } else if (escaped == 'x' && at + 2 < text_.size()) {
      position_ = at - 1;
      try {
        out += from_hex(text_.substr(at + 1, 2));
      } catch (const UserError& error) {
        fail(error.what());
      }
      position_ = start;
      at += 2;
    } else {
      position_ = at - 1;
      fail("unknown escape in a string (known: \\\" \\\\ \\n \\t \\xNN)");
    }
  }
  fail("string without its closing quote");
}

std::string Scanner::take_line() {
  const size_t start = position_;
  bool in_string = false;
  size_t end = start;
  while (end < text_.size() && text_[end] != '\n') {
    if (in_string && text_[end] == '\\' && end + 1 < text_.size() &&
        text_[end + 1] != '\n') {
      ++end;
    } else if (text_[end] == '"') {
      in_string = !in_string;
    } else if (!in_string && text_.compare(end, 2, "//") == 0) {
      break;
    }
    ++end;
  }
  std::string_view line = text_.substr(start, end - start);
  position_ = std::min(text_.find('\n', end), text_.size());
  while (!line.empty() && is_space(line.front())) {
    line.remove_prefix(1);
  }
  while (!line.empty() && is_space(line.back())) {
    line.remove_suffix(1);
  }
  return std::string(line);
}

size_t Scanner::mark() {
  skip_space();
  return position_;
}

std::string Scanner::where() { return where_is(mark()); }

// Counts lines from the start: for messages, not for every token.
std::string Scanner::where_is(size_t position) const {
  size_t line = 1;
  size_t line_start = 0;
  for (size_t i = 0; i < position; ++i) {
    if (text_[i] == '\n') {
      ++line;
      line_start = i + 1;
    }
  }
  return cat(source_, ":", line, ":", position - line_start + 1);
}

void Scanner::fail(const std::string& message) { fail_at(mark(), message); }

void Scanner::fail_at(size_t mark, const std::string& message) {
  throw UserError(cat(where_is(mark), ": ", message));
}

void Scanner::fail_expected(std::string_view what) {
  const size_t start = mark();
  if (start == text_.size()) {
    fail(cat("expected ", what, ", found the end of the text"));
  }
  size_t end = start;
  while (end < text_.size() && is_word_char(text_[end])) {
    ++end;
  }
  const size_t length = std::min(std::max(end - start, size_t{1}), kShown);
  fail(cat("expected ", what, ", found ", quote(text_.substr(start, length))));
}

}  // namespace weft
