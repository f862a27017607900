// SPDX-License-Identifier: Apache-2.0
#include "base/json.h"

#include "base/error.h"
#include "base/readable.h"
#include "base/text.h"

#include <algorithm>
#include <iterator>
#include <limits>
#include <nlohmann/json.hpp>
#include <type_traits>
#include <unordered_set>
#include <utility>

namespace weft {
namespace {

constexpr size_t kLongestFault = 200;
constexpr size_t kLongestValue = 60;

// Tells how far the library has read: it passes no places on.
class Cursor {
 public:
  using iterator_category = std::forward_iterator_tag;
  using value_type = char;
  using difference_type = std::ptrdiff_t;
  using pointer = const char*;
  using reference = const char&;

  Cursor(const char* at, const char** furthest)
      : at_(at), furthest_(furthest) {}

  reference operator*() const { return *at_; }
  Cursor& operator++() {
    *furthest_ = ++at_;
    return *this;
  }
  bool operator==(const Cursor& other) const { return at_ == other.at_; }

 private:
  const char* at_;
  const char** furthest_;
};

template <typename Json>
class TreeBuilder final : public nlohmann::json_sax<Json> {
 public:
  explicit TreeBuilder(std::string_view text)
      : text_(text), furthest_(text.data()) {}

  Json run() {
    // The library would take it for the end.
    if (const size_t zero = text_.find('\0'); zero != std::string_view::npos) {
      furthest_ = text_.data() + zero + 1;
      fail("a zero byte");
    }
    const char* begin = text_.data();
    const char* end = begin + text_.size();
    Json::sax_parse(Cursor(begin, &furthest_), Cursor(end, &furthest_), this);
    return std::move(root_);
  }

  bool null() override { return put(nullptr); }
  bool boolean(bool value) override { return put(value); }
  bool number_integer(typename Json::number_integer_t value) override {
    return put(value);
  }
  bool number_unsigned(typename Json::number_unsigned_t value) override {
    return put(value);
  }
  bool number_float(
      typename Json::number_float_t value,
      const typename Json::string_t& /*text*/) override {
    return put(value);
  }
  bool string(typename Json::string_t& value) override {
    return put(std::move(value));
  }
  bool binary(typename Json::binary_t& value) override {
    return put(std::move(value));
  }

  bool start_object(size_t /*count*/) override { return open(Json::object()); }
  bool start_array(size_t /*count*/) override { return open(Json::array()); }
  bool end_object() override { return close(); }
  bool end_array() override { return close(); }

  bool key(typename Json::string_t& key) override {
    Level& level = levels_.back();
    if (!level.keys.insert(key).second) {
      fail(
          cat("the key ",
              quote(shortened(key, kLongestValue)),
              " stands twice in one object"));
    }
    level.key = std::move(key);
    return true;
  }

  bool parse_error(
      size_t /*position*/,
      const std::string& /*token*/,
      const nlohmann::detail::exception& error) override {
    return fail(shortened(json_fault(error), kLongestFault));
  }

 private:
  // An object or array whose end was not read yet.
  struct Level {
    Json value;
    std::string key;
    std::unordered_set<std::string> keys;
  };

  bool open(Json value) {
    if (levels_.size() == kDeepestJson) {
      fail(cat("values are nested deeper than ", kDeepestJson));
    }
    levels_.push_back({std::move(value), {}, {}});
    return true;
  }

  bool close() {
    Json value = std::move(levels_.back().value);
    levels_.pop_back();
    return put(std::move(value));
  }

  template <typename Value>
  bool put(Value&& value) {
    if (levels_.empty()) {
      root_ = std::forward<Value>(value);
      return true;
    }
    Level& level = levels_.back();
    if (level.value.is_array()) {
      level.value.push_back(std::forward<Value>(value));
      return true;
    }
    auto& object = level.value.template get_ref<typename Json::object_t&>();
    if constexpr (std::is_same_v<Json, nlohmann::ordered_json>) {
      // Its own way in looks for the key among all others, which takes minutes
      // for the names of a large file.
      object.emplace_back(std::move(level.key), std::forward<Value>(value));
    } else {
      object.emplace(std::move(level.key), std::forward<Value>(value));
    }
    return true;
  }

  [[noreturn]] bool fail(const std::string& what) const {
    const auto read = static_cast<size_t>(furthest_ - text_.data());
    const std::string_view before =
        text_.substr(0, std::max<size_t>(read, 1) - 1);
    const auto lines = std::count(before.begin(), before.end(), '\n');
    const size_t last_line = before.rfind('\n');
    const size_t column =
        before.size() -
        (last_line == std::string_view::npos ? 0 : last_line + 1);
    throw UserError(
        cat("line ", lines + 1, ", column ", column + 1, ": ", what));
  }

  const std::string_view text_;
  const char* furthest_;
  std::vector<Level> levels_;
  Json root_;
};

}  // namespace

template <typename Json>
Json parse_json(std::string_view text) {
  return TreeBuilder<Json>(text).run();
}

std::string json_fault(const std::exception& error) {
  std::string_view what = error.what();
  const auto drop_through = [&](std::string_view end) {
    const size_t at = what.find(end);
    if (at != std::string_view::npos) {
      what.remove_prefix(at + end.size());
    }
  };
  if (what.starts_with("[json.exception")) {
    drop_through("] ");
  }
  if (what.starts_with("parse error")) {
    drop_through(": ");
  }
  return std::string(what);
}

template <typename Json>
int64_t whole_number(const Json& value) {
  const bool is_whole = value.is_number_integer() &&
                        (!value.is_number_unsigned() ||
                         value.template get<uint64_t>() <=
                             uint64_t{std::numeric_limits<int64_t>::max()});
  WEFT_CHECK_USER(
      is_whole,
      "expected a whole number, found ",
      shortened(value.dump(), kLongestValue));
  return value.template get<int64_t>();
}

template <typename Json>
std::vector<int64_t> whole_numbers(const Json& value) {
  WEFT_CHECK_USER(
      value.is_array(),
      "expected a list of whole numbers, found ",
      shortened(value.dump(), kLongestValue));
  std::vector<int64_t> numbers;
  for (const Json& each : value) {
    numbers.push_back(whole_number(each));
  }
  return numbers;
}

template nlohmann::json parse_json<nlohmann::json>(std::string_view);
template nlohmann::ordered_json parse_json<nlohmann::ordered_json>(
    std::string_view);
template int64_t whole_number(const nlohmann::json&);
template int64_t whole_number(const nlohmann::ordered_json&);
template std::vector<int64_t> whole_numbers(const nlohmann::json&);
template std::vector<int64_t> whole_numbers(const nlohmann::ordered_json&);

}  // namespace weft
