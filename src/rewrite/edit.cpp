// SPDX-License-Identifier: Apache-2.0
#include "rewrite/edit.h"

#include "base/error.h"
#include "ops/op_def.h"

#include <algorithm>
#include <limits>
#include <optional>
#include <utility>

namespace weft {

namespace {

// Positions among the nodes; kNever is after all of them.
constexpr int64_t kBefore = -1;
constexpr int64_t kNever = std::numeric_limits<int64_t>::max();

// The value in whose storage a result lies, or None for a storage of its own.
ValueId lies_with(const Node& node, size_t result) {
  if (result == 0 && node.overwrites != ValueId::None) {
    return node.overwrites;
  }
  if (is_view(node)) {
    const std::vector<ValueId> read = operands(node);
    return read.empty() ? ValueId::None : read[0];
  }
  return ValueId::None;
}

// One application of an edit. Values keep their numbers until the end.
class Application {
 public:
  Application(const Edit& edit, Function& function)
      : edit_(edit), function_(function) {}

  void run() {
    resolve_stand_ins();
    remember_releases();
    const Reads before = find_reads(edit_.removed);
    rewrite_nodes();
    reads_ = find_reads(std::vector<bool>(function_.nodes.size()));
    find_new_reads(before);
    place_storages();
    release_storages();
    renumber(function_);
  }

 private:
  // A storage as it was: when it was released, and what named it there.
  struct Release {
    int64_t at = kNever;
    ValueId value = ValueId::None;
    size_t order = 0;
  };

  // By value: the last node that reads it, and the same with kNever for an
  // output.
  struct Reads {
    std::vector<int64_t> by_node;
    std::vector<int64_t> by_any;
  };

  size_t count() const { return function_.values.size(); }

  bool is_removed(ValueId id) const {
    const NodeId node = function_[id].node;
    return node != NodeId::None && edit_.removed[index(node)];
  }

  // Stand-ins are earlier than what they stand for, so one sweep follows
  // chains.
  void resolve_stand_ins() {
    stand_in_ = edit_.stand_in;
    for (size_t i = 0; i < count(); ++i) {
      const ValueId other = stand_in_[i];
      WEFT_CHECK(
          index(other) <= i,
          "%",
          function_.values[i].name,
          " has a later stand-in");
      stand_in_[i] = stand_in_[index(other)];
    }
  }

  // Positions count the nodes that stay: what was released after a node that
  // goes is released after the one before it.
  void remember_releases() {
    old_storage_ = storages(function_);
    releases_.resize(count());
    int64_t position = kBefore;
    size_t order = 0;
    for (size_t i = 0; i < function_.nodes.size(); ++i) {
      position += edit_.removed[i] ? 0 : 1;
      for (const ValueId id : function_.nodes[i].releases) {
        releases_[index(old_storage_[index(id)])] = {position, id, order++};
      }
    }
    release_count_ = order;
  }

  void rewrite_nodes() {
    // By storage: the last value in it that stays, so far.
    std::vector<ValueId> latest(count(), ValueId::None);
    const auto see = [&](ValueId id) {
      if (!is_removed(id)) {
        latest[index(old_storage_[index(id)])] = id;
      }
    };
    is_still_read_.assign(count(), false);
    const auto read = [&](ValueId id) {
      is_still_read_[index(old_storage_[index(id)])] = true;
    };
    for (const Input& input : function_.inputs) {
      see(input.value);
    }
    std::vector<Node> kept;
    for (size_t i = 0; i < function_.nodes.size(); ++i) {
      Node& node = function_.nodes[i];
      const ValueId old = node.overwrites;
      if (old != ValueId::None) {
        node.overwrites = new_name_of(old, latest);
      }
      std::for_each(node.results.begin(), node.results.end(), see);
      if (!edit_.removed[i]) {
        for_each_operand(node, read);
        replace_operands(node, stand_in_);
        node.releases.clear();
        overwritten_.push_back(old);
        kept.push_back(std::move(node));
      }
    }
    function_.nodes = std::move(kept);
    for (Output& output : function_.outputs) {
      read(output.value);
      output.value = stand_in_[index(output.value)];
    }
  }

  // What names the storage of an overwritten value now; None when nothing that
  // stays lies in it.
  ValueId new_name_of(
      ValueId overwritten, const std::vector<ValueId>& latest) const {
    const ValueId other = stand_in_[index(overwritten)];
    return is_removed(other) ? latest[index(old_storage_[index(overwritten)])]
                             : other;
  }

  // In positions that count the nodes that stay.
  Reads find_reads(const std::vector<bool>& removed) const {
    Reads reads;
    reads.by_node.assign(count(), kBefore);
    int64_t position = kBefore;
    for (size_t i = 0; i < function_.nodes.size(); ++i) {
      position += removed[i] ? 0 : 1;
      for_each_operand(function_.nodes[i], [&](ValueId id) {
        reads.by_node[index(id)] = position;
      });
    }
    reads.by_any = reads.by_node;
    for (const Output& output : function_.outputs) {
      reads.by_any[index(output.value)] = kNever;
    }
    return reads;
  }

  void find_new_reads(const Reads& before) {
    new_read_.assign(count(), kBefore);
    for (size_t i = 0; i < count(); ++i) {
      if (reads_.by_any[i] > before.by_any[i]) {
        new_read_[i] = reads_.by_any[i];
      }
    }
  }

  // The storages as they are now, in the same walk that finds whether an
  // overwritten storage is free. Where the edit changed nothing, the recorded
  // run knew: what it read after an in-place op lay in another part of the
  // storage. So only new reads count, and old ones of values and nodes that
  // came from another storage.
  void place_storages() {
    storage_.assign(count(), ValueId::None);
    last_use_.assign(count(), kBefore);
    std::vector<int64_t> last_read(count(), kBefore);
    std::vector<int64_t> last_new_read(count(), kBefore);
    const auto raise = [](int64_t& last, int64_t at) {
      last = std::max(last, at);
    };
    const auto place = [&](ValueId id, ValueId beside, int64_t at) {
      const ValueId to = beside == ValueId::None ? id : storage_[index(beside)];
      storage_[index(id)] = to;
      raise(last_use_[index(to)], std::max(at, reads_.by_node[index(id)]));
      raise(last_read[index(to)], reads_.by_any[index(id)]);
      raise(
          last_new_read[index(to)],
          was_in(to, id) ? new_read_[index(id)] : reads_.by_any[index(id)]);
    };
    for (const Input& input : function_.inputs) {
      place(input.value, ValueId::None, kBefore);
    }
    for (size_t i = 0; i < function_.nodes.size(); ++i) {
      Node& node = function_.nodes[i];
      const auto at = static_cast<int64_t>(i);
      if (node.overwrites != ValueId::None) {
        const ValueId to = storage_[index(node.overwrites)];
        const auto& last =
            was_in(to, overwritten_[i]) ? last_new_read : last_read;
        if (last[index(to)] > at) {
          node.overwrites = ValueId::None;
        }
      }
      for (size_t result = 0; result < node.results.size(); ++result) {
        place(node.results[result], lies_with(node, result), at);
      }
    }
  }

  bool was_in(ValueId storage, ValueId id) const {
    return old_storage_[index(storage)] == old_storage_[index(id)];
  }

  // A storage lives as long as all that its values stand for and is still read.
  void release_storages() {
    std::vector<std::optional<Release>> ends(count());
    for (size_t i = 0; i < count(); ++i) {
      const ValueId other = stand_in_[i];
      const size_t before = index(old_storage_[i]);
      if (is_gone(other) || (index(other) != i && !is_still_read_[before])) {
        continue;
      }
      const Release& old = releases_[before];
      std::optional<Release>& end = ends[index(storage_[index(other)])];
      if (!end || old.at > end->at) {
        end = old;
      }
    }
    std::vector<Release> releases;
    for (size_t i = 0; i < count(); ++i) {
      const std::optional<Release>& end = ends[i];
      if (end && end->at != kNever) {
        releases.push_back(new_release(static_cast<ValueId>(i), *end));
      }
    }
    std::sort(
        releases.begin(),
        releases.end(),
        [](const Release& a, const Release& b) { return a.order < b.order; });
    for (const Release& release : releases) {
      if (!function_.nodes.empty()) {
        const auto at = std::max(release.at, int64_t{0});
        function_.nodes[static_cast<size_t>(at)].releases.push_back(
            release.value);
      }
    }
  }

  bool is_gone(ValueId id) const {
    return storage_[index(id)] == ValueId::None;
  }

  // Named as it was, where that value is still there and still in it.
  Release new_release(ValueId storage, const Release& old) const {
    Release out;
    out.at = std::max(old.at, last_use_[index(storage)]);
    const ValueId name = stand_in_[index(old.value)];
    const bool is_named = !is_gone(name) && storage_[index(name)] == storage;
    out.value = is_named ? name : storage;
    out.order = is_named ? old.order : release_count_ + index(storage);
    return out;
  }

  const Edit& edit_;
  Function& function_;
  std::vector<ValueId> stand_in_;
  std::vector<ValueId> old_storage_;
  // By the first value of the old storage.
  std::vector<Release> releases_;
  size_t release_count_ = 0;
  // By the first value of the old storage: a node that stays reads it.
  std::vector<bool> is_still_read_;
  Reads reads_;
  // reads_.by_any where the edit made it later, else kBefore.
  std::vector<int64_t> new_read_;
  // By node that stays: what it overwrote.
  std::vector<ValueId> overwritten_;
  // The storages now; None for values that are gone.
  std::vector<ValueId> storage_;
  // By the first value of the storage.
  std::vector<int64_t> last_use_;
};

}  // namespace

Edit start_edit(const Function& function) {
  Edit edit;
  edit.removed.resize(function.nodes.size());
  edit.stand_in.resize(function.values.size());
  for (size_t i = 0; i < edit.stand_in.size(); ++i) {
    edit.stand_in[i] = static_cast<ValueId>(i);
  }
  return edit;
}

void apply(const Edit& edit, Function& function) {
  WEFT_CHECK(
      edit.removed.size() == function.nodes.size() &&
          edit.stand_in.size() == function.values.size(),
      "the edit is of another function");
  Application(edit, function).run();
}

std::vector<ValueId> storages(const Function& function) {
  std::vector<ValueId> out(function.values.size(), ValueId::None);
  for (const Input& input : function.inputs) {
    out[index(input.value)] = input.value;
  }
  for (const Node& node : function.nodes) {
    for (size_t result = 0; result < node.results.size(); ++result) {
      const ValueId id = node.results[result];
      const ValueId beside = lies_with(node, result);
      out[index(id)] = beside == ValueId::None ? id : out[index(beside)];
    }
  }
  return out;
}

}  // namespace weft
