// SPDX-License-Identifier: Apache-2.0
#include "base/text.h"
#include "ops/op_def.h"
#include "rewrite/edit.h"

namespace weft {

// The printed line without the names of its results. Not Arg's equality, for
// which 0.0 and -0.0 are one.
std::string call_key(const Function& function, Node call) {
  call.releases.clear();
  call.overwrites = ValueId::None;
  std::string line = print(function, call);
  // Names hold no spaces, so the first " = " is where the results end.
  line.erase(0, line.find(" = ") + 3);
  return line;
}

bool is_repeatable(const Node& node) {
  return !is_random(node) || find_option(node, kRngOption) != nullptr;
}

}  // namespace weft
