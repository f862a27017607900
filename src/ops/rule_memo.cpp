// SPDX-License-Identifier: Apache-2.0
#include "ops/rule_memo.h"

#include "ops/op_def.h"

#include <mutex>
#include <type_traits>
#include <variant>

namespace weft {
namespace {

// Writes down, without a meaning for anybody else, what tells nodes apart.
class NodeKey {
 public:
  NodeKey(const Function& function, const Node& node) : function_(function) {
    add(node.op);
    add(node.args.size());
    for (const Arg& arg : node.args) {
      add(arg);
    }
    add(node.options.size());
    for (const Option& option : node.options) {
      // Every layer draws random numbers of its own.
      if (option.name != kRngOption) {
        add(option.name);
        add(option.value);
      }
    }
    add(node.results.size());
    for (const ValueId result : node.results) {
      add(function[result].type);
    }
  }

  std::string take() { return std::move(key_); }

 private:
  template <typename T>
    requires std::is_arithmetic_v<T> || std::is_enum_v<T>
  void add(T number) {
    key_.append(reinterpret_cast<const char*>(&number), sizeof(number));
  }

  void add(const std::string& text) {
    add(text.size());
    key_ += text;
  }

  void add(const Dims& sizes) {
    add(sizes.size());
    key_.append(
        reinterpret_cast<const char*>(sizes.data()),
        sizes.size() * sizeof(sizes[0]));
  }

  void add(const TensorType& type) {
    add(type.dtype);
    add(type.sizes);
    add(type.strides);
  }

  void add(const Symbol& symbol) { add(symbol.text); }
  void add(None) {}
  void add(ValueId value) { add(function_[value].type); }
  void add(const Arg::List& list) {
    add(list.size());
    for (const Arg& arg : list) {
      add(arg);
    }
  }
  void add(const Arg& arg) {
    add(static_cast<uint8_t>(arg.data.index()));
    std::visit([this](const auto& what) { add(what); }, arg.data);
  }

  const Function& function_;
  std::string key_;
};

}  // namespace

const Rule& RuleMemo::rule(const Function& function, const Node& node) {
  std::string key = NodeKey(function, node).take();
  {
    const std::shared_lock<std::shared_mutex> lock(mutex_);
    const auto found = known_.find(key);
    if (found != known_.end()) {
      return *found->second;
    }
  }
  auto rule = std::make_unique<const Rule>(rule_of(function, node));
  const std::unique_lock<std::shared_mutex> lock(mutex_);
  return *known_.try_emplace(std::move(key), std::move(rule)).first->second;
}

std::vector<const Rule*> RuleMemo::rules(const Function& function) {
  std::vector<const Rule*> out;
  out.reserve(function.nodes.size());
  for (const Node& node : function.nodes) {
    out.push_back(&rule(function, node));
  }
  return out;
}

int64_t RuleMemo::size() const {
  const std::shared_lock<std::shared_mutex> lock(mutex_);
  return static_cast<int64_t>(known_.size());
}

}  // namespace weft
