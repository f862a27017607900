// SPDX-License-Identifier: Apache-2.0
#include "lower/emit_halo.h"

#include "base/error.h"
#include "lower/halo.h"
#include "ops/call.h"
#include "ops/kernel.h"
#include "ops/node_builder.h"
#include "ops/plane_index.h"

#include <algorithm>
#include <optional>
#include <set>
#include <utility>

namespace weft {
namespace {

// Work that is worth calls of its own while borders travel. Less than that is
// done before a call has begun.
constexpr double kLeastInnerFlops = 4e6;

// One tensor's borders on their way.
struct Exchange {
  // Whose windows reach them.
  Halo halo;
  // The rank's own, or of a result all that it made; then what others sent.
  std::vector<BoxPart> parts;
};

class WindowEmitter {
 public:
  WindowEmitter(
      Emitter& emitter, Borders& borders, const WindowedNode& windowed)
      : emitter_(emitter),
        borders_(borders),
        in_(windowed),
        def_(*find_op(windowed.node.op)),
        base_(windowed.step[windowed.node.results.front()].name) {}

  std::vector<ValueId> run() {
    exchanges_.resize(in_.operands.size());
    results_.resize(in_.node.results.size(), ValueId::None);
    const std::optional<InputGradient>& gradient = def_.input_gradient;
    if (gradient && !halo(true, 0).is_whole() &&
        !halo(false, gradient->operand).is_whole()) {
      run_gradient(*gradient);
    } else {
      start_operands();
      const std::vector<Pieces> boxes = inner_and_outer();
      if (boxes.empty()) {
        results_ = call(in_.node, in_.pieces);
        fold_results();
      } else {
        run_boxes(boxes);
      }
    }
    for (const ValueId sent : sent_) {
      emitter_.block.instructions.emplace_back(Wait{sent});
    }
    WEFT_CHECK(pending_.empty(), "a border that nobody reads");
    for (size_t i = 0; i < results_.size(); ++i) {
      emitter_.block.layouts[index(results_[i])] = in_.made[i];
      emitter_.block.function.values[index(results_[i])].name =
          in_.step[in_.node.results[i]].name;
    }
    return results_;
  }

 private:
  const TensorType& type(ValueId value) const {
    return emitter_.block.function[value].type;
  }

  Halo halo(bool in_result, int tensor) const {
    const auto i = static_cast<size_t>(tensor);
    const ValueId value =
        in_result ? in_.node.results[i] : operands(in_.node)[i];
    return {
        emitter_.mesh,
        in_.rule,
        in_.assignment,
        {.in_result = in_result, .tensor = tensor},
        in_.step[value].type};
  }

  // --- The exchange.

  void send(ValueId value, int64_t to) {
    sent_.push_back(emitter_.start_send(value, to, base_));
  }

  ValueId receive(const TensorType& like, int64_t from) {
    const ValueId result = emitter_.start_receive(
        like,
        replicated(static_cast<int>(like.sizes.size())),
        from,
        cat(base_, ".border"));
    pending_.insert(result);
    return result;
  }

  void wait_for(ValueId value) {
    if (pending_.erase(value) > 0) {
      emitter_.wait(value);
    }
  }

  // Sends to each member what it lacks of `mine`, and gives what arrives here.
  // `given` and `taken`: what a rank has for others, and what it wants of them.
  template <typename Given, typename Taken>
  std::vector<BoxPart> exchange(
      const Halo& halo, const BoxPart& mine, Given&& given, Taken&& taken) {
    const std::vector<int64_t> group = halo.group(emitter_.rank);
    for (const int64_t other : group) {
      const Box box = intersection(mine.box, taken(other));
      if (other != emitter_.rank && !is_empty(box)) {
        const ValueId part = cut_part(emitter_, mine, box, base_);
        send(emitter_.row_major(part, base_), other);
      }
    }
    std::vector<BoxPart> arrived;
    for (const int64_t other : group) {
      const Box box = intersection(given(other), taken(emitter_.rank));
      if (other != emitter_.rank && !is_empty(box)) {
        arrived.push_back(
            {box,
             receive(make_type(type(mine.value).dtype, sizes_of(box)), other)});
      }
    }
    return arrived;
  }

  // All ranks find the same borders there already, or none.
  std::string key(int tensor) const {
    const ValueId value = operands(in_.node)[static_cast<size_t>(tensor)];
    std::string out = in_.step[value].name;
    for (const HaloDim& halo : in_.rule.halos) {
      if (!halo.in_result && halo.tensor == tensor) {
        const auto factor = static_cast<size_t>(halo.factor);
        const Window& window = in_.rule.factors[factor].window;
        out +=
            cat(" ",
                halo.dim,
                ":",
                in_.rule.factors[factor].size,
                "/",
                join(axes_of(in_.assignment.factors[factor]), "*"),
                ":",
                window.stride,
                ",",
                window.before,
                ",",
                window.after);
      }
    }
    const Layout& layout =
        emitter_.block
            .layouts[index(in_.operands[static_cast<size_t>(tensor)])];
    return cat(out, " ", print(layout));
  }

  void start_operand(size_t i) {
    Halo windows = halo(false, static_cast<int>(i));
    if (windows.is_whole()) {
      return;
    }
    const BoxPart mine = {
        windows.own(emitter_.rank), emitter_.row_major(in_.operands[i], base_)};
    std::vector<BoxPart> parts = {mine};
    const auto [found, is_new] = borders_.try_emplace(key(static_cast<int>(i)));
    if (is_new) {
      found->second = exchange(
          windows,
          mine,
          [&](int64_t rank) { return windows.own(rank); },
          [&](int64_t rank) {
            return intersection(windows.reach(rank), windows.whole(rank));
          });
    }
    parts.insert(parts.end(), found->second.begin(), found->second.end());
    exchanges_[i].emplace(Exchange{std::move(windows), std::move(parts)});
  }

  void start_operands() {
    for (size_t i = 0; i < in_.operands.size(); ++i) {
      start_operand(i);
    }
  }

  // --- Calls.

  // What the steps of the pieces touch of an operand.
  ValueId operand(size_t i, const Pieces& pieces) {
    const std::optional<Exchange>& exchange = exchanges_[i];
    if (!exchange) {
      return in_.operands[i];
    }
    const Box box = exchange->halo.reach(pieces, emitter_.rank);
    for (const BoxPart& part : exchange->parts) {
      if (!is_empty(intersection(part.box, box))) {
        wait_for(part.value);
      }
    }
    return join_parts(
        emitter_, exchange->parts, box, exchange->halo.fill(), base_);
  }

  std::vector<ValueId> call(const Node& node, const Pieces& pieces) {
    std::vector<ValueId> read;
    for (size_t i = 0; i < in_.operands.size(); ++i) {
      read.push_back(operand(i, pieces));
    }
    return call(node, pieces, read);
  }

  std::vector<ValueId> call(
      const Node& whole,
      const Pieces& pieces,
      const std::vector<ValueId>& read) {
    Node node = localize(def_, in_.step, whole, in_.rule, pieces);
    node.releases.clear();
    node.overwrites = ValueId::None;
    node.results.clear();
    set_operands(node, read);
    WEFT_CHECK(def_.types != nullptr, "no types for ", node.op);
    const std::vector<TensorType> types =
        def_.types(emitter_.block.function, node);
    if (cuts_plane(def_, in_.rule, pieces)) {
      return emitter_.build(base_, [&](NodeBuilder& builder) {
        return append_plane_call(
            builder,
            def_,
            std::move(node),
            types,
            in_.rule,
            pieces,
            plane_sizes(in_.step, in_.node, in_.rule));
      });
    }
    if (needs_frame(def_, in_.rule, pieces)) {
      return emitter_.build(base_, [&](NodeBuilder& builder) {
        return def_.framed(builder, std::move(node), in_.rule, pieces);
      });
    }
    Block& block = emitter_.block;
    for (const TensorType& made : types) {
      node.results.push_back(add_value(
          block,
          emitter_.names.unique("", cat(base_, ".part")),
          made,
          replicated(static_cast<int>(made.sizes.size()))));
    }
    std::vector<ValueId> results = node.results;
    block.instructions.emplace_back(
        Call{static_cast<NodeId>(block.function.nodes.size())});
    block.function.nodes.push_back(std::move(node));
    return results;
  }

  // --- The inner steps first.

  // The dim of a result that is made of the factor alone, or -1.
  int dim_of(size_t result, int factor) const {
    const std::vector<DimFactors>& dims = in_.rule.results[result];
    for (size_t d = 0; d < dims.size(); ++d) {
      if (dims[d] == DimFactors{factor} &&
          find_halo(
              in_.rule,
              {.in_result = true, .tensor = static_cast<int>(result)},
              d) == nullptr) {
        return static_cast<int>(d);
      }
    }
    return -1;
  }

  std::vector<int> split_factors() const {
    std::vector<int> out;
    for (size_t i = 0; i < in_.rule.factors.size(); ++i) {
      if (in_.rule.factors[i].kind == FactorKind::Halo &&
          !in_.assignment.factors[i].empty()) {
        out.push_back(static_cast<int>(i));
      }
    }
    return out;
  }

  // Whether all results are pieces along the windows' steps, and of operands
  // only `~` dims are: then steps can be done one after the other.
  bool can_part() const {
    for (const int factor : split_factors()) {
      for (size_t i = 0; i < results_.size(); ++i) {
        if (dim_of(i, factor) < 0) {
          return false;
        }
      }
      for (size_t i = 0; i < in_.rule.operands.size(); ++i) {
        const auto& dims = in_.rule.operands[i];
        for (size_t d = 0; d < dims.size(); ++d) {
          const bool holds =
              std::find(dims[d].begin(), dims[d].end(), factor) !=
              dims[d].end();
          if (holds && find_halo(
                           in_.rule,
                           {.in_result = false, .tensor = static_cast<int>(i)},
                           d) == nullptr) {
            return false;
          }
        }
      }
    }
    return true;
  }

  // Of the rank's steps those that touch nothing but its own elements.
  Piece inner_steps(int factor) const {
    const auto f = static_cast<size_t>(factor);
    const Window& window = in_.rule.factors[f].window;
    int64_t first = in_.pieces[f].start;
    int64_t end = first + in_.pieces[f].size;
    for (const HaloDim& one : in_.rule.halos) {
      if (one.factor != factor) {
        continue;
      }
      const Piece own = halo(one.in_result, one.tensor)
                            .own(emitter_.rank)[static_cast<size_t>(one.dim)];
      while (first < end && first * window.stride - window.before < own.start) {
        ++first;
      }
      while (end > first &&
             (end - 1) * window.stride + window.after >= own.start + own.size) {
        --end;
      }
    }
    return {first, end - first, in_.pieces[f].whole};
  }

  // The inner steps, then, one dim after the other, those before and those
  // behind them; nothing where it is better done at once.
  std::vector<Pieces> inner_and_outer() const {
    if (pending_.empty() || !can_part()) {
      return {};
    }
    Pieces inner = in_.pieces;
    double share = 1;
    double mine = 1;
    for (const int factor : split_factors()) {
      const auto f = static_cast<size_t>(factor);
      inner[f] = inner_steps(factor);
      share *= static_cast<double>(inner[f].size) /
               static_cast<double>(in_.pieces[f].size);
    }
    for (const Piece& piece : in_.pieces) {
      mine *= static_cast<double>(piece.size) /
              static_cast<double>(std::max<int64_t>(piece.whole, 1));
    }
    const auto flops = static_cast<double>(flops_of(in_.step, in_.node));
    if (share < 0.5 || share * mine * flops < kLeastInnerFlops) {
      return {};
    }
    std::vector<Pieces> out = {inner};
    Pieces rest = in_.pieces;
    for (const int factor : split_factors()) {
      const auto f = static_cast<size_t>(factor);
      Pieces before = rest;
      before[f].size = inner[f].start - rest[f].start;
      Pieces behind = rest;
      behind[f].start = inner[f].start + inner[f].size;
      behind[f].size = rest[f].start + rest[f].size - behind[f].start;
      out.push_back(before);
      out.push_back(behind);
      rest[f] = inner[f];
    }
    return out;
  }

  void run_boxes(const std::vector<Pieces>& boxes) {
    const std::vector<int> factors = split_factors();
    std::vector<std::vector<ValueId>> made(boxes.size());
    for (size_t i = 0; i < boxes.size(); ++i) {
      if (!is_empty(boxes[i])) {
        made[i] = call(in_.node, boxes[i]);
      }
    }
    // From the last dim back, as they were cut.
    for (size_t r = 0; r < results_.size(); ++r) {
      ValueId now = made.front()[r];
      for (size_t k = factors.size(); k-- > 0;) {
        std::vector<ValueId> row;
        for (const size_t box : {2 * k + 1, size_t{0}, 2 * k + 2}) {
          if (box == 0) {
            row.push_back(now);
          } else if (!made[box].empty()) {
            row.push_back(made[box][r]);
          }
        }
        now = join_row(emitter_, row, dim_of(r, factors[k]), base_);
      }
      results_[r] = now;
    }
  }

  // --- Borders of results.

  Exchange start_result(int result, ValueId value) {
    Halo windows = halo(true, result);
    const BoxPart mine = {
        windows.reach(emitter_.rank), emitter_.row_major(value, base_)};
    std::vector<BoxPart> parts = {mine};
    for (BoxPart& part : exchange(
             windows,
             mine,
             [&](int64_t rank) { return windows.reach(rank); },
             [&](int64_t rank) { return windows.own(rank); })) {
      parts.push_back(std::move(part));
    }
    return {std::move(windows), std::move(parts)};
  }

  ValueId finish_result(const Exchange& exchange) {
    for (const BoxPart& part : exchange.parts) {
      wait_for(part.value);
    }
    return join_parts(
        emitter_, exchange.parts, exchange.halo.own(emitter_.rank), 0, base_);
  }

  void fold_results() {
    for (size_t i = 0; i < results_.size(); ++i) {
      const auto result = static_cast<int>(i);
      if (!halo(true, result).is_whole()) {
        results_[i] = finish_result(start_result(result, results_[i]));
      }
    }
  }

  // --- Backward: the input's gradient reads no borders, the others' do.

  void run_gradient(const InputGradient& gradient) {
    const auto input = static_cast<size_t>(gradient.operand);
    const Halo windows = halo(false, gradient.operand);
    std::vector<bool> wanted(results_.size(), true);
    for (size_t i = 0; gradient.mask_arg >= 0 && i < wanted.size(); ++i) {
      wanted[i] = flag_at(in_.node, static_cast<size_t>(gradient.mask_arg), i);
    }
    const bool has_more =
        std::find(wanted.begin() + 1, wanted.end(), true) != wanted.end();
    for (size_t i = 0; i < in_.operands.size(); ++i) {
      if (has_more || i != input) {
        start_operand(i);
      }
    }
    WEFT_CHECK(wanted.front(), "a window of a gradient that nobody wants");
    std::vector<ValueId> read;
    for (size_t i = 0; i < in_.operands.size(); ++i) {
      read.push_back(
          i == input ? empty_like_reach(windows, in_.operands[i])
                     : operand(i, in_.pieces));
    }
    results_ = call(
        has_more ? with_mask(gradient, [](size_t i, bool) { return i == 0; })
                 : in_.node,
        in_.pieces,
        read);
    const Exchange borders = start_result(0, results_.front());
    if (has_more) {
      read[input] = operand(input, in_.pieces);
      const ValueId first = results_.front();
      results_ = call(
          with_mask(
              gradient, [](size_t i, bool flag) { return i > 0 && flag; }),
          in_.pieces,
          read);
      results_.front() = first;
    }
    results_.front() = finish_result(borders);
  }

  ValueId empty_like_reach(const Halo& windows, ValueId model) {
    const Dims sizes = sizes_of(windows.reach(emitter_.rank));
    return emitter_.call(
        "aten.new_empty",
        {{model}, to_arg(sizes)},
        make_type(type(model).dtype, sizes),
        replicated(static_cast<int>(sizes.size())),
        base_);
  }

  template <typename Choose>
  Node with_mask(const InputGradient& gradient, Choose&& choose) const {
    Node node = in_.node;
    const auto position = static_cast<size_t>(gradient.mask_arg);
    Arg::List flags;
    for (size_t i = 0; i < results_.size(); ++i) {
      flags.push_back({choose(i, flag_at(in_.node, position, i))});
    }
    set_arg(node, position, {flags});
    return node;
  }

  Emitter& emitter_;
  Borders& borders_;
  const WindowedNode& in_;
  const OpDef& def_;
  const std::string base_;
  // One an operand that has windows.
  std::vector<std::optional<Exchange>> exchanges_;
  std::vector<ValueId> results_;
  std::vector<ValueId> sent_;
  // What was asked for and is not waited for yet.
  std::set<ValueId> pending_;
};

}  // namespace

std::vector<ValueId> emit_windowed(
    Emitter& emitter, Borders& borders, const WindowedNode& windowed) {
  return WindowEmitter(emitter, borders, windowed).run();
}

}  // namespace weft
