// SPDX-License-Identifier: Apache-2.0
#include "search/resize.h"

#include "base/error.h"

namespace weft {

// Walks through both programs at once. Everything but sizes must be equal.
class ResizableProgram::Comparison {
 public:
  explicit Comparison(std::vector<Size>& sizes) : sizes_(sizes) {}

  // Of what has no sizes in it.
  static bool may_be_alike(const Block& a, const Block& b) {
    return a.instructions == b.instructions && a.overwrites == b.overwrites &&
           a.parts == b.parts && a.function.inputs == b.function.inputs &&
           a.function.outputs == b.function.outputs;
  }

  bool alike(Block& a, const Block& b) {
    return may_be_alike(a, b) && all(a.function.values, b.function.values) &&
           all(a.function.nodes, b.function.nodes);
  }

 private:
  template <typename T>
  bool all(std::vector<T>& a, const std::vector<T>& b) {
    if (a.size() != b.size()) {
      return false;
    }
    for (size_t i = 0; i < a.size(); ++i) {
      if (!alike(a[i], b[i])) {
        return false;
      }
    }
    return true;
  }

  bool alike(int64_t& a, const int64_t& b) {
    if (a != b) {
      sizes_.push_back({.place = &a, .few = a, .many = b});
    }
    return true;
  }

  bool alike(Value& a, const Value& b) {
    return a.name == b.name && a.type.dtype == b.type.dtype &&
           a.node == b.node && a.result == b.result && alike(a.type, b.type);
  }

  // The stride of a dim of one row says nothing, whatever it is: it is that of
  // many rows.
  bool alike(TensorType& a, const TensorType& b) {
    if (a.sizes.size() == b.sizes.size() && a.strides != b.strides) {
      Dims strides = strides_of(a);
      const Dims others = strides_of(b);
      for (size_t dim = 0; dim < a.sizes.size(); ++dim) {
        if (a.sizes[dim] == 1) {
          strides[dim] = others[dim];
        }
      }
      a.strides = std::move(strides);
      return all(a.sizes, b.sizes) && all(a.strides, others);
    }
    return all(a.sizes, b.sizes) && all(a.strides, b.strides);
  }

  bool alike(Arg& a, const Arg& b) {
    if (auto* size = std::get_if<int64_t>(&a.data)) {
      const auto* other = std::get_if<int64_t>(&b.data);
      return other != nullptr && alike(*size, *other);
    }
    if (auto* list = std::get_if<Arg::List>(&a.data)) {
      const auto* other = std::get_if<Arg::List>(&b.data);
      return other != nullptr && all(*list, *other);
    }
    // A mean divides by a number that grows with the rows. Nothing costs more
    // or less for it.
    return a == b || (std::holds_alternative<double>(a.data) &&
                      std::holds_alternative<double>(b.data));
  }

  bool alike(Option& a, const Option& b) {
    return a.name == b.name && alike(a.value, b.value);
  }

  bool alike(Node& a, const Node& b) {
    return a.op == b.op && a.phase == b.phase && a.results == b.results &&
           all(a.args, b.args) && all(a.options, b.options);
  }

  std::vector<Size>& sizes_;
};

std::optional<ResizableProgram> ResizableProgram::between(
    const SizedProgram& few, const SizedProgram& many) {
  WEFT_CHECK(
      few.rows < many.rows && few.program.blocks.size() == 1 &&
          many.program.blocks.size() == 1,
      "few rows, then many, and a block of each");
  const Block& most = many.program.blocks.front();
  if (!Comparison::may_be_alike(few.program.blocks.front(), most)) {
    return std::nullopt;
  }
  ResizableProgram out;
  out.few_rows_ = few.rows;
  out.many_rows_ = many.rows;
  out.program_ = std::make_unique<Program>(few.program);
  if (!Comparison(out.sizes_).alike(out.program_->blocks.front(), most)) {
    return std::nullopt;
  }
  return out;
}

const Program* ResizableProgram::at(int64_t rows) {
  const int64_t whole = many_rows_ - few_rows_;
  for (const Size& size : sizes_) {
    const int64_t more = (size.many - size.few) * (rows - few_rows_);
    if (more % whole != 0) {
      return nullptr;
    }
    *size.place = size.few + more / whole;
  }
  return program_.get();
}

}  // namespace weft
