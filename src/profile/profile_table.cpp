// SPDX-License-Identifier: Apache-2.0
#include "base/text.h"
#include "profile/layer_names.h"
#include "profile/profile_print.h"

#include <algorithm>

namespace weft {
namespace {

constexpr int kBarWidth = 16;

double share_of(const Costs& part, const Costs& whole) {
  const int64_t all = total(whole.flops);
  return all == 0 ? 0.0
                  : static_cast<double>(total(part.flops)) /
                        static_cast<double>(all);
}

void add(Costs& sum, const Costs& costs) {
  sum.nodes += costs.nodes;
  sum.parameters += costs.parameters;
  sum.moved_bytes += costs.moved_bytes;
  sum.flops.forward += costs.flops.forward;
  sum.flops.backward += costs.flops.backward;
  sum.flops.recompute += costs.flops.recompute;
  sum.flops.optimizer += costs.flops.optimizer;
  sum.bytes.activations += costs.bytes.activations;
}

// The rows of the module table: modules in their order, equal siblings in one.
class ModuleRows {
 public:
  ModuleRows(const Profile& profile, const ProfileView& view)
      : profile_(profile), view_(view), children_(profile.modules.size()) {
    std::vector<size_t> above;
    for (size_t i = 0; i < profile.modules.size(); ++i) {
      above.resize(static_cast<size_t>(profile.modules[i].depth));
      if (!above.empty()) {
        children_[above.back()].push_back(i);
      }
      above.push_back(i);
    }
    table_.column("module", Align::Left).column("", Align::Left);
    table_.column("parameters").column("forward").column("backward");
    table_.column("activations").column("share of flops");
    table_.column("", Align::Left);
  }

  std::string print() {
    add_row({0}, profile_.model);
    add_below({0});
    return table_.print(view_.style);
  }

 private:
  // `group`: modules that share a row, and so do their children in turn.
  void add_below(const std::vector<size_t>& group) {
    if (profile_.modules[group.front()].depth >= view_.depth) {
      return;
    }
    const std::vector<size_t>& first = children_[group.front()];
    for (size_t at = 0; at < first.size();) {
      size_t end = at + 1;
      while (end < first.size() && are_alike(first[at], first[end])) {
        ++end;
      }
      std::vector<size_t> below;
      std::vector<std::string> parts;
      for (; at < end; ++at) {
        parts.push_back(last_part(first[at]));
        for (const size_t parent : group) {
          below.push_back(children_[parent][at]);
        }
      }
      add_row(
          below,
          parts.size() == 1 ? parts.front()
                            : weft::print(PathPattern{"", parts}));
      add_below(below);
    }
  }

  bool are_alike(size_t a, size_t b) const {
    const ModuleCosts& first = profile_.modules[a];
    const ModuleCosts& second = profile_.modules[b];
    if (first.type != second.type ||
        first.costs.parameters != second.costs.parameters ||
        first.costs.flops != second.costs.flops ||
        children_[a].size() != children_[b].size()) {
      return false;
    }
    for (size_t i = 0; i < children_[a].size(); ++i) {
      if (!are_alike(children_[a][i], children_[b][i])) {
        return false;
      }
    }
    return true;
  }

  std::string last_part(size_t module) const {
    const std::string& path = profile_.modules[module].path;
    return path.substr(path.rfind('.') + 1);
  }

  void add_row(const std::vector<size_t>& group, const std::string& label) {
    const ModuleCosts& first = profile_.modules[group.front()];
    Costs costs;
    for (const size_t module : group) {
      add(costs, profile_.modules[module].costs);
    }
    const double share = share_of(costs, profile_.whole);
    const std::string indent(2 * static_cast<size_t>(first.depth), ' ');
    table_.row(
        {indent + label,
         dim(group.size() > 1 ? cat(group.size(), " x ", first.type)
                              : first.type,
             view_.style),
         count_text(costs.parameters),
         count_text(costs.flops.forward),
         count_text(costs.flops.backward + costs.flops.recompute),
         bytes_text(costs.bytes.activations),
         percent(share),
         bar(share, kBarWidth, view_.style)});
  }

  const Profile& profile_;
  const ProfileView& view_;
  std::vector<std::vector<size_t>> children_;
  TextTable table_;
};

std::string print_ops(const Profile& profile, const ProfileView& view) {
  TextTable table;
  table.column("operator", Align::Left).column("nodes").column("flops");
  table.column("share of flops").column("", Align::Left).column("moved");
  table.column("intensity").column("activations").column("temporaries");
  for (const OpCosts& op : profile.ops) {
    const double share = share_of(op.costs, profile.whole);
    table.row(
        {op.is_unruled ? op.op + " *" : op.op,
         with_commas(op.costs.nodes),
         count_text(total(op.costs.flops)),
         percent(share),
         bar(share, kBarWidth, view.style),
         bytes_text(op.costs.moved_bytes),
         decimals(arithmetic_intensity(op.costs), 1),
         bytes_text(op.costs.bytes.activations),
         bytes_text(op.costs.bytes.temporaries)});
  }
  const bool has_unruled = std::any_of(
      profile.ops.begin(), profile.ops.end(), [](const OpCosts& op) {
        return op.is_unruled;
      });
  return table.print(view.style) +
         (has_unruled ? "* no entry in the op table\n" : "");
}

std::string print_phases(const Profile& profile, const ProfileView& view) {
  TextTable table;
  table.column("phase", Align::Left).column("nodes").column("flops");
  table.column("share of flops").column("", Align::Left).column("moved");
  table.column("intensity").column("peak");
  for (const PhaseCosts& phase : profile.phases) {
    const double share = share_of(phase.costs, profile.whole);
    table.row(
        {std::string(name(phase.phase)),
         with_commas(phase.costs.nodes),
         count_text(total(phase.costs.flops)),
         percent(share),
         bar(share, kBarWidth, view.style),
         bytes_text(phase.costs.moved_bytes),
         decimals(arithmetic_intensity(phase.costs), 1),
         bytes_text(phase.peak_bytes)});
  }
  return table.print(view.style);
}

}  // namespace

std::string print_table(const Profile& profile, const ProfileView& view) {
  switch (view.by) {
    case ProfileBy::Module:
      return ModuleRows(profile, view).print();
    case ProfileBy::Op:
      return print_ops(profile, view);
    case ProfileBy::Phase:
      return print_phases(profile, view);
  }
  return "";
}

}  // namespace weft
