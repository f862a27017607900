// SPDX-License-Identifier: Apache-2.0
#include "prover.h"

#include "aten/call.h"
#include "aten/types.h"
#include "base/error.h"
#include "execute/allocation_watch.h"
#include "expansion.h"
#include "ops/call.h"
#include "ops/example.h"
#include "ops/plane_index.h"
#include "pieces.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/empty_strided.h>
#include <ATen/ops/zeros.h>
#include <ATen/ops/zeros_like.h>

#include <algorithm>
#include <map>
#include <optional>
#include <utility>

namespace weft {
namespace {

using Tensors = std::vector<at::Tensor>;

// Whether each factor that may be split was, in one of the examples.
using FactorNames = std::map<std::string, bool>;

using Cut = FactorCut;

Rule rule_by(const OpDef& def, const Function& function, const Node& node) {
  if (def.rule_of != nullptr) {
    return def.rule_of(function, node);
  }
  if (!def.rule.empty()) {
    return rule_from_text(def.rule, function, node);
  }
  return whole_rule(function, node);
}

// An undefined result is recorded with sizes [0].
TensorType recorded_type(const at::Tensor& tensor) {
  return tensor.defined() ? type_of(tensor) : TensorType{DType::F32, {0}, {}};
}

at::Tensor to_meta(const at::Tensor& tensor) {
  return at::empty_strided(
      tensor.sizes(), tensor.strides(), tensor.options().device(at::kMeta));
}

constexpr int64_t kFewBytes = 32;

class ExampleProof {
 public:
  ExampleProof(
      const OpDef& def,
      std::string_view text,
      Proof& proof,
      FactorNames& factors)
      : def_(def), text_(text), proof_(proof), factors_(factors) {}

  void run() {
    try {
      example_ = parse_example(def_, text_);
      draw();
      if (!run_as_written()) {
        ++proof_.not_run;
        prove_without_run();
        return;
      }
      prove_types();
      prove_expansion_as_written();
      run_widened();
      prove_sizes();
      prove_splits();
      prove_expansion();
      prove_linear();
    } catch (const std::exception& error) {
      fail(error.what());
    }
  }

 private:
  bool has_values() const {
    return def_.kind != OpKind::Random && def_.kind != OpKind::Empty;
  }

  // False when PyTorch does not have the operator, or not for the CPU.
  bool run_as_written() {
    try {
      AtenCall call(example_.node);
      AllocationWatch watch;
      expected_ = call(operands_);
      scratch_bytes_ = watch.peak_bytes() - watch.live_bytes();
      watch.close();
      return true;
    } catch (const c10::NotImplementedError&) {
      return false;
    } catch (const UserError& error) {
      if (std::string_view(error.what()).find("has no operator") ==
          std::string_view::npos) {
        throw;
      }
      return false;
    }
  }

  // The entry alone: its rule fits its own types.
  void prove_without_run() {
    WEFT_CHECK_USER(
        def_.types != nullptr, "cannot be run here, and has no types");
    std::vector<TensorType> types =
        def_.types(example_.function, example_.node);
    std::vector<std::string> names;
    for (size_t i = 0; i < types.size(); ++i) {
      names.push_back(cat("result", i));
      expected_.push_back(draw_tensor(types[i], {}));
    }
    add_node(example_.function, example_.node, names, types);
    node_ = example_.function.nodes.back();
    rule_ = rule_by(def_, example_.function, node_);
    prove_sizes();
    if (const auto expansion = expand_node(def_, example_.function, node_)) {
      expected_ = run_expanded(*expansion, node_, operands_);
      prove_expansion();
    }
  }

  // Whole, in the types of the example.
  void prove_expansion_as_written() {
    Function function = example_.function;
    std::vector<std::string> names;
    std::vector<TensorType> types;
    for (size_t i = 0; i < expected_.size(); ++i) {
      names.push_back(cat("result", i));
      types.push_back(recorded_type(expected_[i]));
    }
    add_node(function, example_.node, names, types);
    const Node node = function.nodes.back();
    if (const auto expansion = expand_node(def_, function, node)) {
      compare(run_expanded(*expansion, node, operands_), "expanded");
    }
  }

  // Whole, and with every factor cut: the expansion frees all but the window of
  // a convolution.
  void prove_expansion() {
    const auto expansion = expand_node(def_, example_.function, node_);
    if (!expansion) {
      return;
    }
    ++proof_.expansions;
    compare(run_expanded(*expansion, node_, operands_), "expanded");
    for (size_t i = 0; i < rule_.factors.size(); ++i) {
      const Factor& factor = rule_.factors[i];
      for (const int64_t ways : {2, 4}) {
        if (factor.kind == FactorKind::Halo || factor.size == 0 ||
            factor.size % ways != 0) {
          continue;
        }
        ++proof_.expanded_splits;
        const std::string what =
            cat("expanded and split ", factor.name, " ", ways, " ways");
        try {
          const Cut cut = {static_cast<int>(i), ways};
          compare(
              run_expanded_split(*expansion, node_, rule_, cut, operands_),
              what);
        } catch (const std::exception& error) {
          fail(cat(what, ": ", error.what()));
        }
      }
    }
  }

  void compare(const Tensors& got, const std::string& what) {
    for (size_t i = 0; i < got.size(); ++i) {
      const std::string text = difference(got[i], expected_[i]);
      if (!text.empty()) {
        fail(cat(what, ", result ", i, ": ", text));
      }
    }
  }

  // The call as it is written: types against ATen's own.
  void prove_types() {
    std::vector<TensorType> expected;
    for (const at::Tensor& result : expected_) {
      expected.push_back(recorded_type(result));
    }
    std::vector<TensorType> got;
    if (def_.types != nullptr) {
      got = def_.types(example_.function, example_.node);
    }
    const bool by_entry = !got.empty();
    if (by_entry) {
      ++proof_.types;
    } else {
      Tensors metas;
      for (const at::Tensor& operand : operands_) {
        metas.push_back(to_meta(operand));
      }
      try {
        for (const at::Tensor& result :
             AtenCall(example_.node, at::kMeta)(metas)) {
          got.push_back(recorded_type(result));
        }
      } catch (const c10::NotImplementedError&) {
        fail("has no meta kernel in C++: give its entry `types`");
        return;
      }
      ++proof_.meta_types;
    }
    for (size_t i = 0; i < std::max(got.size(), expected.size()); ++i) {
      std::string ours = i < got.size() ? print(got[i]) : "nothing";
      std::string theirs = i < expected.size() ? print(expected[i]) : "nothing";
      if (ours != theirs) {
        fail(
            cat("type of result ",
                i,
                by_entry ? "" : " by the meta kernel",
                " is ",
                ours,
                ", ATen makes ",
                theirs));
      }
    }
  }

  // What the kernel took besides its results. A few bytes for numbers that it
  // made into tensors do not count.
  void prove_scratch() {
    Function function = example_.function;
    std::vector<std::string> names;
    std::vector<TensorType> types;
    for (size_t i = 0; i < expected_.size(); ++i) {
      names.push_back(cat("result", i));
      types.push_back(recorded_type(expected_[i]));
    }
    add_node(function, example_.node, names, types);
    int64_t said = def_.scratch_bytes == nullptr
                       ? 0
                       : def_.scratch_bytes(function, function.nodes.back());
    ++proof_.scratch;
    if (said < scratch_bytes_ - kFewBytes ||
        said > scratch_bytes_ + kFewBytes) {
      fail(
          cat("says ", said, " bytes of scratch, ATen takes ", scratch_bytes_));
    }
  }

  void draw() {
    operands_.clear();
    std::optional<int64_t> looked_up = lookup_size();
    for (size_t i = 0; i < example_.draws.size(); ++i) {
      Draw draw = example_.draws[i];
      if (looked_up && static_cast<int>(i) == def_.lookup_operand &&
          draw.below < 0) {
        draw.below = *looked_up;
      }
      operands_.push_back(
          draw_tensor(operand_type(example_.function, example_.node, i), draw));
    }
    if (def_.plane_index && !def_.plane_index->in_result) {
      const auto tensor = static_cast<size_t>(def_.plane_index->tensor);
      operands_[tensor] = indices_in_windows(
          operands_[tensor],
          rule_by(def_, example_.function, example_.node),
          plane_sizes(
              example_.function,
              example_.node,
              rule_by(def_, example_.function, example_.node)));
    }
  }

  std::optional<int64_t> lookup_size() const {
    if (def_.lookup_operand < 0) {
      return std::nullopt;
    }
    for (const Factor& factor :
         rule_by(def_, example_.function, example_.node).factors) {
      if (factor.kind == FactorKind::Lookup) {
        return factor.size;
      }
    }
    return std::nullopt;
  }

  // Some kernels know f32 alone.
  void run_widened() {
    const Example written = example_;
    const Tensors drawn = operands_;
    try {
      widen();
      run_whole();
    } catch (const c10::Error&) {
      example_ = written;
      operands_ = drawn;
      run_whole();
    }
  }

  // f32 operands become f64, so that only rounding of f64 is left to compare.
  void widen() {
    for (Value& value : example_.function.values) {
      if (value.type.dtype == DType::F32) {
        value.type.dtype = DType::F64;
      } else if (value.type.dtype == DType::C64) {
        value.type.dtype = DType::C128;
      }
    }
    draw();
  }

  void run_whole() {
    expected_ = AtenCall(example_.node)(operands_);
    std::vector<std::string> names;
    std::vector<TensorType> types;
    for (size_t i = 0; i < expected_.size(); ++i) {
      names.push_back(cat("result", i));
      types.push_back(recorded_type(expected_[i]));
    }
    add_node(example_.function, example_.node, names, types);
    node_ = example_.function.nodes.back();
    rule_ = rule_by(def_, example_.function, node_);
  }

  // Operands and results have the sizes that the rule says.
  void prove_sizes() {
    check(rule_.operands.size() == operands_.size(), "operands of the rule");
    check(rule_.results.size() == expected_.size(), "results of the rule");
    for (bool in_result : {false, true}) {
      const Tensors& tensors = in_result ? expected_ : operands_;
      for (size_t i = 0; i < tensors.size(); ++i) {
        TensorPlace place = {in_result, static_cast<int>(i)};
        for (size_t d = 0; d < dims_of(rule_, place).size(); ++d) {
          prove_dim(place, d, tensors[i]);
        }
      }
    }
  }

  void prove_dim(TensorPlace place, size_t d, const at::Tensor& tensor) {
    const DimFactors& dim = dims_of(rule_, place)[d];
    if (dim.empty() || find_halo(rule_, place, d) != nullptr) {
      return;
    }
    int64_t size = 1;
    for (int factor : dim) {
      size *= rule_.factors[static_cast<size_t>(factor)].size;
    }
    check(
        tensor.defined() && size == tensor.size(static_cast<int64_t>(d)),
        "a size of the rule");
  }

  void prove_splits() {
    std::vector<int> halves;
    for (size_t i = 0; i < rule_.factors.size(); ++i) {
      const Factor& factor = rule_.factors[i];
      if (factor.kind == FactorKind::Whole) {
        continue;
      }
      bool& was_split = factors_[factor.name];
      for (int64_t ways : {2, 4}) {
        if (factor.size % ways == 0 && factor.size > 0) {
          was_split = true;
          ++proof_.splits;
          prove_split({{static_cast<int>(i), ways}});
        }
      }
      if (factor.size % 2 == 0) {
        halves.push_back(static_cast<int>(i));
      }
    }
    for (size_t i = 0; i < halves.size(); ++i) {
      for (size_t j = i + 1; j < halves.size(); ++j) {
        ++proof_.double_splits;
        prove_split({{halves[i], 2}, {halves[j], 2}});
      }
    }
  }

  void prove_split(const std::vector<Cut>& cuts) {
    std::string what;
    for (const Cut& cut : cuts) {
      what +=
          cat(" ",
              rule_.factors[static_cast<size_t>(cut.factor)].name,
              " ",
              cut.ways,
              " ways");
    }
    try {
      cut_flops_ = 0;
      Tensors joined = run_pieces(cuts, 0, whole_pieces(rule_));
      for (size_t i = 0; i < joined.size(); ++i) {
        std::string text =
            has_values() ? difference(joined[i], expected_[i]) : "";
        if (!text.empty()) {
          fail(cat("split", what, ", result ", i, ": ", text));
        }
      }
      prove_flops(cuts, what);
    } catch (const std::exception& error) {
      fail(cat("split", what, ": ", error.what()));
    }
  }

  // Borders are computed twice, and an op whose factor takes no part in the
  // work repeats it: only plain splits divide the work. torch's flop counter
  // does not look at groups where it counts the weight's gradient.
  void prove_flops(const std::vector<Cut>& cuts, const std::string& what) {
    if (def_.flops == nullptr) {
      return;
    }
    for (const Cut& cut : cuts) {
      if (rule_.factors[static_cast<size_t>(cut.factor)].kind !=
          FactorKind::Free) {
        return;
      }
      if (def_.name == "aten.convolution_backward" &&
          rule_.factors[static_cast<size_t>(cut.factor)].name == "g") {
        return;
      }
    }
    ++proof_.flops;
    int64_t whole = def_.flops(example_.function, node_);
    if (cut_flops_ != whole) {
      fail(
          cat("split",
              what,
              ": pieces have ",
              cut_flops_,
              " flops, the whole ",
              whole));
    }
  }

  Tensors run_pieces(
      const std::vector<Cut>& cuts, size_t next, const Pieces& outer) {
    if (next == cuts.size()) {
      return run_piece(outer);
    }
    const Cut& cut = cuts[next];
    auto factor = static_cast<size_t>(cut.factor);
    std::vector<Tensors> parts;
    std::vector<Pieces> pieces;
    for (int64_t part = 0; part < cut.ways; ++part) {
      pieces.push_back(outer);
      pieces.back()[factor] =
          split_pieces(rule_, cut.factor, cut.ways, part)[factor];
      parts.push_back(run_pieces(cuts, next + 1, pieces.back()));
    }
    Tensors joined;
    for (size_t i = 0; i < expected_.size(); ++i) {
      if (!expected_[i].defined()) {
        joined.emplace_back();
        continue;
      }
      Tensors of_result;
      for (const Tensors& part : parts) {
        of_result.push_back(part[i]);
      }
      auto result = static_cast<int>(i);
      Dims sizes =
          local_sizes(rule_, {true, result}, expected_[i].sizes().vec(), outer);
      joined.push_back(
          has_values()
              ? join_parts(of_result, rule_, result, cut.factor, pieces, sizes)
              : at::zeros(sizes, expected_[i].options()));
    }
    return joined;
  }

  Tensors run_piece(const Pieces& pieces) {
    LocalCall call = local_call(def_, example_.function, node_, rule_, pieces);
    Tensors cuts;
    for (size_t i = 0; i < operands_.size(); ++i) {
      cuts.push_back(
          cut(operands_[i], rule_, {false, static_cast<int>(i)}, pieces));
    }
    ValueTensors values(call.function.values.size());
    for (size_t i = 0; i < call.kept.size(); ++i) {
      values[i] = cuts[call.kept[i]];
    }
    run_nodes(call.function, values);
    Tensors results;
    for (const ValueId id : call.results) {
      results.push_back(values[index(id)]);
    }
    for (size_t i = 0; i < results.size(); ++i) {
      if (!results[i].defined()) {
        continue;
      }
      Dims sizes = local_sizes(
          rule_,
          {true, static_cast<int>(i)},
          expected_[i].sizes().vec(),
          pieces);
      WEFT_CHECK_USER(
          results[i].sizes() == at::IntArrayRef(sizes),
          "a piece of result ",
          i,
          " has sizes ",
          results[i].sizes(),
          " and not ",
          at::IntArrayRef(sizes));
    }
    if (def_.flops != nullptr) {
      cut_flops_ += def_.flops(call.function, call.node());
    }
    return results;
  }

  // f(x + y) = f(x) + f(y), where the entry says so.
  void prove_linear() {
    Linear linear = def_.linear;
    std::vector<size_t> floats;
    for (size_t i = 0; i < operands_.size(); ++i) {
      if (operands_[i].is_floating_point() || operands_[i].is_complex()) {
        floats.push_back(i);
      }
    }
    if (linear == Linear::No || floats.empty()) {
      return;
    }
    if (linear == Linear::All) {
      // A partial sum of integers beside one of floats is not a thing.
      if (floats.size() == operands_.size()) {
        prove_linear_in(floats);
      }
    } else if (linear == Linear::First) {
      prove_linear_in({0});
    } else {
      for (size_t i : floats) {
        prove_linear_in({i});
      }
    }
  }

  void prove_linear_in(const std::vector<size_t>& varied) {
    ++proof_.linear;
    Tensors others = operands_;
    Tensors sums = operands_;
    for (size_t i : varied) {
      others[i] = draw_tensor(type_of(operands_[i]), example_.draws[i]);
      sums[i] = operands_[i] + others[i];
    }
    Tensors first = AtenCall(node_)(operands_);
    Tensors second = AtenCall(node_)(others);
    Tensors both = AtenCall(node_)(sums);
    for (size_t i = 0; i < both.size(); ++i) {
      if (both[i].defined() && both[i].is_floating_point()) {
        std::string text = difference(first[i] + second[i], both[i]);
        if (!text.empty()) {
          fail(cat("not linear, result ", i, ": ", text));
        }
      }
    }
  }

  void check(bool condition, const std::string& what) {
    WEFT_CHECK_USER(condition, what, " do not fit: ", print(rule_));
  }

  void fail(const std::string& message) {
    // The first line: ATen's have a backtrace after it.
    proof_.failures.push_back(
        cat(def_.name, text_, ": ", message.substr(0, message.find('\n'))));
  }

  const OpDef& def_;
  std::string_view text_;
  Proof& proof_;
  FactorNames& factors_;
  Example example_;
  Tensors operands_;
  Tensors expected_;
  Node node_;
  Rule rule_;
  int64_t cut_flops_ = 0;
  int64_t scratch_bytes_ = 0;
};

}  // namespace

void prove(const OpDef& def, Proof& proof) {
  if (def.kind == OpKind::DataDependent) {
    return;
  }
  if (def.examples.empty()) {
    proof.failures.push_back(cat(def.name, ": no example"));
  }
  FactorNames factors;
  for (std::string_view text : def.examples) {
    ++proof.examples;
    ExampleProof(def, text, proof, factors).run();
  }
  for (const auto& [name, was_split] : factors) {
    if (!was_split) {
      proof.failures.push_back(
          cat(def.name, ": no example splits factor ", name));
    }
  }
}

}  // namespace weft
