// SPDX-License-Identifier: Apache-2.0
#include "profile/signatures.h"

#include <bit>
#include <functional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <variant>

namespace weft {
namespace {

// A running hash over the parts of a node's description.
class Digest {
 public:
  void add(uint64_t part) {
    hash_ ^= part + 0x9e3779b97f4a7c15u + (hash_ << 6) + (hash_ >> 2);
    hash_ *= 0xff51afd7ed558ccdu;
    hash_ ^= hash_ >> 32;
  }
  void add(int64_t part) { add(static_cast<uint64_t>(part)); }
  void add(std::string_view text) {
    add(static_cast<uint64_t>(std::hash<std::string_view>{}(text)));
  }
  void add(const Dims& dims) {
    add(static_cast<uint64_t>(dims.size()));
    for (const int64_t dim : dims) {
      add(dim);
    }
  }
  uint64_t hash() const { return hash_; }

 private:
  uint64_t hash_ = 0;
};

uint64_t digest(const TensorType& type) {
  Digest digest;
  digest.add(static_cast<uint64_t>(type.dtype));
  digest.add(type.sizes);
  digest.add(type.strides);
  return digest.hash();
}

class Describer {
 public:
  explicit Describer(const Function& function) {
    types_.reserve(function.values.size());
    for (const Value& value : function.values) {
      types_.push_back(digest(value.type));
    }
  }

  uint64_t describe(const Node& node) const {
    Digest digest;
    digest.add(node.op);
    for (const Arg& arg : node.args) {
      add(digest, arg);
    }
    for (const Option& option : node.options) {
      // Every layer draws its own random numbers.
      if (option.name != kRngOption) {
        digest.add(option.name);
        add(digest, option.value);
      }
    }
    for (const ValueId result : node.results) {
      digest.add(types_[index(result)]);
    }
    return digest.hash();
  }

 private:
  void add(Digest& digest, const Arg& arg) const {
    digest.add(static_cast<uint64_t>(arg.data.index()));
    std::visit([&](const auto& data) { add_data(digest, data); }, arg.data);
  }

  void add_data(Digest&, None) const {}
  void add_data(Digest& digest, ValueId value) const {
    digest.add(types_[index(value)]);
  }
  void add_data(Digest& digest, int64_t value) const { digest.add(value); }
  void add_data(Digest& digest, bool value) const {
    digest.add(static_cast<uint64_t>(value));
  }
  void add_data(Digest& digest, double value) const {
    digest.add(std::bit_cast<uint64_t>(value));
  }
  void add_data(Digest& digest, DType value) const {
    digest.add(static_cast<uint64_t>(value));
  }
  void add_data(Digest& digest, const Symbol& symbol) const {
    digest.add(std::string_view(symbol.text));
  }
  void add_data(Digest& digest, const std::string& text) const {
    digest.add(std::string_view(text));
  }
  void add_data(Digest& digest, const Arg::List& list) const {
    digest.add(static_cast<uint64_t>(list.size()));
    for (const Arg& item : list) {
      add(digest, item);
    }
  }

  // By value.
  std::vector<uint64_t> types_;
};

}  // namespace

std::vector<int32_t> signatures(const Function& function) {
  const Describer describer(function);
  std::unordered_map<uint64_t, int32_t> numbers;
  std::vector<int32_t> found;
  found.reserve(function.nodes.size());
  for (const Node& node : function.nodes) {
    const auto next = static_cast<int32_t>(numbers.size());
    found.push_back(
        numbers.try_emplace(describer.describe(node), next).first->second);
  }
  return found;
}

}  // namespace weft
