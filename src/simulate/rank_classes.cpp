// SPDX-License-Identifier: Apache-2.0
// Ranks begin in one class when their actions are the same, and are parted as
// long as two of a class meet others of different classes.
#include "simulate/rank_classes.h"

#include "base/error.h"
#include "base/text.h"
#include "profile/call_seconds.h"
#include "profile/signatures.h"
#include "program/live_bytes.h"
#include "program/transfer.h"
#include "simulate/costs.h"
#include "simulate/reuse.h"

#include <algorithm>
#include <map>
#include <set>
#include <tuple>

namespace weft {
namespace {

class BlockActions {
 public:
  BlockActions(const Program& program, const Block& block)
      : program_(program), block_(block), live_(live_bytes(block)) {
    const Function& function = block.function;
    costs_ = node_costs(function, signatures(function));
  }

  std::vector<Action> on(const Device& device, int64_t rank) {
    std::vector<Action> actions;
    if (uses_.empty() && has_caches(device)) {
      uses_ = uses_of(block_, costs_);
    }
    started_.assign(block_.function.values.size(), 0);
    for (size_t i = 0; i < block_.instructions.size(); ++i) {
      Action action = action_of(block_.instructions[i], device, rank, i);
      action.live_bytes = live_[i];
      actions.push_back(std::move(action));
    }
    return actions;
  }

 private:
  Action action_of(
      const Instruction& instruction,
      const Device& device,
      int64_t rank,
      size_t number) {
    Action action;
    if (const auto* call = std::get_if<Call>(&instruction)) {
      const Node& node = block_.function.nodes[index(call->node)];
      if (costs_[index(call->node)].is_free) {
        return action;
      }
      action.kind = Action::Kind::Call;
      action.seconds = call_seconds(
          costs_[index(call->node)],
          block_.function[node.results.front()].type.dtype,
          device,
          has_caches(device) ? uses_[number] : std::vector<Use>());
      action.is_recompute = node.phase == Phase::Recompute;
    } else if (const auto* start = std::get_if<Start>(&instruction)) {
      action.kind = Action::Kind::Start;
      action.transfer = start->kind;
      action.bytes =
          is_collective(start->kind)
              ? wire_bytes(team_of(program_, rank).mesh, block_, *start)
              : transfer_bytes(block_, *start);
      for (const std::string& axis : start->axes) {
        action.axes += axis + " ";
      }
      if (start->kind == TransferKind::Send ||
          start->kind == TransferKind::Receive) {
        action.peer_offset = start->peer - rank;
      }
      for (const ValueId result : start->results) {
        started_[index(result)] = number;
      }
    } else if (const auto* wait = std::get_if<Wait>(&instruction)) {
      action.kind = Action::Kind::Wait;
      action.start = started_[index(wait->value)];
    }
    return action;
  }

  const Program& program_;
  const Block& block_;
  const std::vector<int64_t> live_;
  std::vector<NodeCosts> costs_;
  // By instruction; empty as long as no device has caches.
  std::vector<std::vector<Use>> uses_;
  std::vector<size_t> started_;
};

bool has_peers(const Block& block) {
  return std::any_of(
      block.instructions.begin(),
      block.instructions.end(),
      [](const Instruction& instruction) {
        const auto* start = std::get_if<Start>(&instruction);
        return start != nullptr && start->peer >= 0;
      });
}

// A number for each different key, from 0 on.
template <typename Key>
class Numbers {
 public:
  size_t of(const Key& key) {
    return numbers_.try_emplace(key, numbers_.size()).first->second;
  }
  size_t count() const { return numbers_.size(); }

 private:
  std::map<Key, size_t> numbers_;
};

using Meets = std::tuple<
    std::string,          // axes
    int64_t,              // peer_offset
    std::vector<size_t>,  // the classes of those it meets
    size_t>;              // the link

class Classes {
 public:
  Classes(const Program& program, const Cluster& cluster)
      : program_(program), cluster_(cluster) {
    of_rank_.resize(static_cast<size_t>(rank_count(program)));
    begin();
    for (size_t before = 0; before != count_;) {
      before = count_;
      part();
    }
  }

  RankClasses take() {
    RankClasses found;
    found.classes.resize(count_);
    for (size_t rank = 0; rank < of_rank_.size(); ++rank) {
      RankClass& mine = found.classes[of_rank_[rank]];
      if (mine.ranks.empty()) {
        mine.actions = kinds_[kind_[rank]];
      }
      mine.ranks.push_back(static_cast<int64_t>(rank));
    }
    found.of_rank = of_rank_;
    return found;
  }

 private:
  // By what ranks do, and on what.
  void begin() {
    Numbers<std::vector<Action>> kinds;
    kind_.resize(of_rank_.size());
    for (const Block& block : program_.blocks) {
      BlockActions actions(program_, block);
      std::map<std::string, size_t> by_device;
      for (int64_t rank = block.first_rank; rank <= block.last_rank; ++rank) {
        const Device& device = device_of(cluster_, rank);
        const auto known = by_device.find(device.name);
        // How far a peer is differs from rank to rank.
        if (known != by_device.end() && !has_peers(block)) {
          kind_[static_cast<size_t>(rank)] = known->second;
          continue;
        }
        std::vector<Action> made = actions.on(device, rank);
        const size_t kind = kinds.of(made);
        if (kind == kinds_.size()) {
          kinds_.push_back(std::move(made));
        }
        kind_[static_cast<size_t>(rank)] = by_device[device.name] = kind;
      }
    }
    of_rank_ = kind_;
    count_ = kinds_.size();
    for (const std::vector<Action>& actions : kinds_) {
      std::set<std::pair<std::string, int64_t>> meets;
      for (const Action& action : actions) {
        if (action.kind == Action::Kind::Start &&
            action.transfer != TransferKind::Copy) {
          meets.insert({action.axes, action.peer_offset});
          if (!action.axes.empty() && !groups_.contains(action.axes)) {
            groups_[action.axes] = groups_by_rank(program_, action.axes);
          }
        }
      }
      meets_.emplace_back(meets.begin(), meets.end());
    }
  }

  size_t number_of(const Link& link) {
    const auto known = std::find(links_.begin(), links_.end(), link);
    if (known == links_.end()) {
      links_.push_back(link);
      return links_.size() - 1;
    }
    return static_cast<size_t>(known - links_.begin());
  }

  Meets met_by(int64_t rank, const std::string& axes, int64_t offset) {
    const std::vector<int64_t> ranks =
        axes.empty() ? std::vector<int64_t>{rank, rank + offset}
                     : groups_.at(axes)[static_cast<size_t>(rank)];
    std::set<size_t> classes;
    for (const int64_t other : ranks) {
      classes.insert(of_rank_[static_cast<size_t>(other)]);
    }
    const Link link = ranks.size() > 1 ? link_between(cluster_, ranks) : Link{};
    return {
        axes,
        offset,
        axes.empty()
            ? std::vector<size_t>{of_rank_[static_cast<size_t>(rank + offset)]}
            : std::vector<size_t>(classes.begin(), classes.end()),
        number_of(link)};
  }

  void part() {
    Numbers<std::pair<size_t, std::vector<Meets>>> parted;
    std::vector<size_t> next(of_rank_.size());
    for (size_t rank = 0; rank < of_rank_.size(); ++rank) {
      std::vector<Meets> met;
      for (const auto& [axes, offset] : meets_[kind_[rank]]) {
        met.push_back(met_by(static_cast<int64_t>(rank), axes, offset));
      }
      next[rank] = parted.of({of_rank_[rank], std::move(met)});
    }
    of_rank_ = std::move(next);
    count_ = parted.count();
  }

  const Program& program_;
  const Cluster& cluster_;
  // Different lists of actions, and by rank which it has.
  std::vector<std::vector<Action>> kinds_;
  std::vector<size_t> kind_;
  // By kind, over which axes and with which ranks it meets others.
  std::vector<std::vector<std::pair<std::string, int64_t>>> meets_;
  std::map<std::string, std::vector<std::vector<int64_t>>> groups_;
  // Those between ranks that meet, each once.
  std::vector<Link> links_;
  std::vector<size_t> of_rank_;
  size_t count_ = 0;
};

}  // namespace

std::vector<std::vector<int64_t>> groups_by_rank(
    const Program& program, const std::string& axes) {
  const std::vector<std::string> names = split(axes, ' ');
  std::map<std::vector<int64_t>, std::vector<int64_t>> groups;
  std::vector<std::vector<int64_t>> keys;
  for (int64_t rank = 0; rank < rank_count(program); ++rank) {
    const Team team = team_of(program, rank);
    std::vector<int64_t> key = coordinates(team.mesh, number_in(team, rank));
    for (size_t i = 0; i < key.size(); ++i) {
      if (std::find(names.begin(), names.end(), team.mesh.axes[i].name) !=
          names.end()) {
        key[i] = 0;
      }
    }
    key.push_back(team.first_rank);
    groups[key].push_back(rank);
    keys.push_back(std::move(key));
  }
  std::vector<std::vector<int64_t>> by_rank;
  by_rank.reserve(keys.size());
  for (const std::vector<int64_t>& key : keys) {
    by_rank.push_back(groups[key]);
  }
  return by_rank;
}

RankClasses rank_classes(const Program& program, const Cluster& cluster) {
  return Classes(program, cluster).take();
}

}  // namespace weft
