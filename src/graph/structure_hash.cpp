// SPDX-License-Identifier: Apache-2.0
#include "graph/structure_hash.h"

#include <algorithm>
#include <bit>

namespace weft {
namespace {

// FNV-1a over words, with a final mix so that sums of hashes stay apart.
class Hasher {
 public:
  Hasher& add(uint64_t word) {
    state_ = (state_ ^ word) * 0x100000001b3;
    state_ ^= state_ >> 31;
    return *this;
  }
  Hasher& add(std::string_view text) {
    add(text.size());
    for (const char c : text) {
      add(static_cast<uint64_t>(static_cast<unsigned char>(c)));
    }
    return *this;
  }
  uint64_t value() const {
    uint64_t mixed = (state_ ^ (state_ >> 32)) * 0xd6e8feb86659fd93;
    mixed = (mixed ^ (mixed >> 29)) * 0x9e3779b97f4a7c15;
    return mixed ^ (mixed >> 32);
  }

 private:
  uint64_t state_ = 0xcbf29ce484222325;
};

// Order must not count where what is hashed was recorded in any order.
uint64_t hash_of_set(std::vector<uint64_t> hashes) {
  std::sort(hashes.begin(), hashes.end());
  Hasher hasher;
  for (const uint64_t hash : hashes) {
    hasher.add(hash);
  }
  return hasher.value();
}

void add_type(Hasher& hasher, const TensorType& type) {
  hasher.add(print(type));
}

// With the hashes of the values that the argument names in place of their ids.
void add_arg(
    Hasher& hasher, const Arg& arg, const std::vector<uint64_t>& values) {
  hasher.add(arg.data.index());
  std::visit(
      [&](const auto& data) {
        using Data = std::decay_t<decltype(data)>;
        if constexpr (std::is_same_v<Data, ValueId>) {
          hasher.add(values[index(data)]);
        } else if constexpr (std::is_same_v<Data, double>) {
          hasher.add(std::bit_cast<uint64_t>(data));
        } else if constexpr (std::is_same_v<Data, Symbol>) {
          hasher.add(data.text);
        } else if constexpr (std::is_same_v<Data, std::string>) {
          hasher.add(data);
        } else if constexpr (std::is_same_v<Data, Arg::List>) {
          hasher.add(data.size());
          for (const Arg& item : data) {
            add_arg(hasher, item, values);
          }
        } else if constexpr (!std::is_same_v<Data, None>) {
          hasher.add(static_cast<uint64_t>(data));
        }
      },
      arg.data);
}

uint64_t hash_of_input(
    const Graph& graph, const Function& function, const Input& input) {
  Hasher hasher;
  hasher.add(name(input.kind));
  add_type(hasher, function[input.value].type);
  if (input.kind == InputKind::Constant) {
    // Its name counts the constants that were recorded before it.
    for (const Constant& constant : graph.constants) {
      if (constant.name == input.keys.front()) {
        hasher.add(constant.bytes);
      }
    }
    return hasher.value();
  }
  for (const std::string& key : input.keys) {
    hasher.add(key);
  }
  hasher.add(static_cast<uint64_t>(input.trained));
  for (const std::string& saved : saved_names(input)) {
    hasher.add(saved);
  }
  return hasher.value();
}

uint64_t hash_of_call(const Node& node, const std::vector<uint64_t>& values) {
  Hasher hasher;
  hasher.add(node.op);
  hasher.add(name(node.phase));
  for (const Arg& arg : node.args) {
    add_arg(hasher, arg, values);
  }
  for (const Option& option : node.options) {
    hasher.add(option.name);
    if (option.name != kRngOption) {
      add_arg(hasher, option.value, values);
    }
  }
  return hasher.value();
}

uint64_t hash_of_function(const Graph& graph, const Function& function) {
  std::vector<uint64_t> values(function.values.size());
  std::vector<uint64_t> parts;
  for (const Input& input : function.inputs) {
    values[index(input.value)] = hash_of_input(graph, function, input);
    // A constant that was recorded for nothing is no difference.
    if (input.kind != InputKind::Constant) {
      parts.push_back(values[index(input.value)]);
    }
  }
  for (const Node& node : function.nodes) {
    const uint64_t call = hash_of_call(node, values);
    // Every call counts, guards and others that no output needs included.
    parts.push_back(call);
    for (size_t i = 0; i < node.results.size(); ++i) {
      Hasher hasher;
      hasher.add(call).add(i);
      add_type(hasher, function[node.results[i]].type);
      values[index(node.results[i])] = hasher.value();
    }
  }
  for (const Output& output : function.outputs) {
    Hasher hasher;
    hasher.add(name(output.kind)).add(output.key);
    parts.push_back(hasher.add(values[index(output.value)]).value());
  }
  return Hasher().add(function.name).add(hash_of_set(parts)).value();
}

}  // namespace

uint64_t structure_hash(const Graph& graph) {
  std::vector<uint64_t> functions;
  functions.reserve(graph.functions.size());
  for (const Function& function : graph.functions) {
    functions.push_back(hash_of_function(graph, function));
  }
  return hash_of_set(std::move(functions));
}

}  // namespace weft
