// SPDX-License-Identifier: Apache-2.0
// The text of a rule taken apart, before it is sized by a node (see rule.h for
// the notation).
#pragma once

#include "ops/rule.h"

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace weft {

struct FactorText {
  std::string name;
  FactorKind kind = FactorKind::Free;
  std::optional<Combine> combine = std::nullopt;
  std::optional<int64_t> size = std::nullopt;
};

struct DimText {
  enum class Kind : uint8_t { Factors, One, Ellipsis };
  Kind kind = Kind::Factors;
  std::vector<FactorText> factors = {};
};

// One operand or result.
struct TermText {
  // Written `_`.
  bool apart = false;
  std::vector<DimText> dims;
};

struct RuleText {
  std::vector<TermText> operands;
  std::vector<TermText> results;
};

// Throws InternalError naming the text.
RuleText parse_rule_text(std::string_view text);

std::string_view name(Combine combine);

}  // namespace weft
