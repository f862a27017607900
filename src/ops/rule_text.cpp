// SPDX-License-Identifier: Apache-2.0
#include "ops/rule_text.h"

#include "base/error.h"
#include "base/number.h"

#include <array>
#include <cctype>
#include <optional>
#include <utility>

namespace weft {
namespace {

constexpr std::array<std::pair<Combine, std::string_view>, 7> kCombines = {{
    {Combine::Sum, "sum"},
    {Combine::Mean, "mean"},
    {Combine::Max, "max"},
    {Combine::Min, "min"},
    {Combine::Product, "product"},
    {Combine::Norm, "norm"},
    {Combine::Any, "any"},
}};

bool is_word(char c) {
  return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_' ||
         c == '.';
}

std::optional<FactorKind> marked_kind(char mark) {
  switch (mark) {
    case '!':
      return FactorKind::Whole;
    case '~':
      return FactorKind::Halo;
    case '?':
      return FactorKind::Lookup;
    default:
      return std::nullopt;
  }
}

class Parser {
 public:
  explicit Parser(std::string_view text) : text_(text) {}

  RuleText parse() {
    RuleText rule;
    if (!looking_at("->")) {
      rule.operands = parse_terms();
    }
    check(take("->"), "expected ->");
    rule.results = parse_terms();
    check(at_end(), "unexpected text at the end");
    return rule;
  }

 private:
  std::vector<TermText> parse_terms() {
    std::vector<TermText> terms;
    do {
      terms.push_back(parse_term());
    } while (take(","));
    return terms;
  }

  TermText parse_term() {
    TermText term;
    if (take("()")) {
      return term;
    }
    while (!at_end() && !looking_at(",") && !looking_at("->")) {
      check(!term.apart, "_ stands alone");
      if (take("...")) {
        term.dims.push_back({DimText::Kind::Ellipsis, {}});
      } else if (take("(")) {
        DimText dim;
        while (!take(")")) {
          dim.factors.push_back(parse_factor());
        }
        term.dims.push_back(std::move(dim));
      } else {
        FactorText factor = parse_factor();
        if (factor.name == "_") {
          check(term.dims.empty(), "_ stands alone");
          term.apart = true;
        } else if (factor.name == "1") {
          term.dims.push_back({DimText::Kind::One, {}});
        } else {
          term.dims.push_back({DimText::Kind::Factors, {std::move(factor)}});
        }
      }
    }
    check(term.apart || !term.dims.empty(), "an empty term; write () or _");
    return term;
  }

  FactorText parse_factor() {
    FactorText factor;
    factor.name = parse_word();
    while (position_ < text_.size()) {
      char mark = text_[position_];
      if (std::optional<FactorKind> kind = marked_kind(mark)) {
        check(factor.kind == FactorKind::Free, "a factor has two marks");
        factor.kind = *kind;
      } else if (mark != ':' && mark != '=') {
        break;
      }
      ++position_;
      if (mark == ':') {
        factor.combine = parse_combine();
      } else if (mark == '=') {
        const std::optional<int64_t> size = read_integer(parse_word());
        check(size.has_value(), "expected a size");
        factor.size = *size;
      }
    }
    return factor;
  }

  Combine parse_combine() {
    std::string word = parse_word();
    for (const auto& [combine, text] : kCombines) {
      if (word == text) {
        return combine;
      }
    }
    check(false, "not a way to combine: " + word);
    return Combine::Sum;
  }

  std::string parse_word() {
    skip_space();
    size_t start = position_;
    while (position_ < text_.size() && is_word(text_[position_])) {
      ++position_;
    }
    check(position_ > start, "expected a factor");
    return std::string(text_.substr(start, position_ - start));
  }

  void skip_space() {
    while (position_ < text_.size() && text_[position_] == ' ') {
      ++position_;
    }
  }

  bool at_end() {
    skip_space();
    return position_ == text_.size();
  }

  bool looking_at(std::string_view token) {
    skip_space();
    return text_.substr(position_, token.size()) == token;
  }

  bool take(std::string_view token) {
    if (!looking_at(token)) {
      return false;
    }
    position_ += token.size();
    return true;
  }

  void check(bool condition, const std::string& message) {
    WEFT_CHECK(
        condition,
        "rule \"",
        text_,
        "\", column ",
        position_ + 1,
        ": ",
        message);
  }

  std::string_view text_;
  size_t position_ = 0;
};

}  // namespace

RuleText parse_rule_text(std::string_view text) { return Parser(text).parse(); }

std::string_view name(Combine combine) {
  for (const auto& [value, text] : kCombines) {
    if (value == combine) {
      return text;
    }
  }
  return "";
}

}  // namespace weft
