// SPDX-License-Identifier: Apache-2.0
// A choice played through: every storage is there from its making to its last
// use, once in forward and perhaps once more after it.
#include "base/error.h"
#include "search/again_choice.h"

#include <algorithm>
#include <utility>

namespace weft {
namespace {

// Calls are numbered within a moment; what a moment itself does comes last. The
// moment of forward is -1.
using Time = std::pair<int32_t, int32_t>;

class Playing {
 public:
  Playing(const AgainStep& step, const std::vector<bool>& keeps)
      : step_(step),
        count_(static_cast<int32_t>(step.calls.size())),
        keeps_(keeps),
        consumers_(step.storages.size()) {
    for (int32_t c = 0; c < count_; ++c) {
      for (const int32_t read : step.calls[static_cast<size_t>(c)].reads) {
        consumers_[static_cast<size_t>(read)].push_back(c);
      }
    }
  }

  AgainChoice run() {
    find_moments();
    for (size_t i = 0; i < step_.storages.size(); ++i) {
      lay_out(i);
    }
    out_.peak_bytes = std::max(forward_peak(), later_peak());
    return std::move(out_);
  }

 private:
  bool is_kept(size_t storage) const {
    return step_.storages[storage].is_once || keeps_[storage];
  }

  void find_moments() {
    const auto never = static_cast<int32_t>(step_.moments.size());
    std::vector<int32_t> at(step_.calls.size(), never);
    for (size_t i = 0; i < step_.storages.size(); ++i) {
      const AgainStep::Storage& storage = step_.storages[i];
      if (storage.first_read >= 0 && !is_kept(i)) {
        int32_t& first = at[static_cast<size_t>(storage.call)];
        first = std::min(first, storage.first_read);
      }
    }
    // Readers come later than what they read, so theirs are known.
    for (int32_t c = count_ - 1; c >= 0; --c) {
      const auto i = static_cast<size_t>(c);
      if (at[i] == never) {
        continue;
      }
      out_.extra_seconds += step_.calls[i].seconds;
      for (const int32_t read : step_.calls[i].reads) {
        const auto storage = static_cast<size_t>(read);
        if (!is_kept(storage)) {
          int32_t& first =
              at[static_cast<size_t>(step_.storages[storage].call)];
          first = std::min(first, at[i]);
        }
      }
    }
    for (const int32_t moment : at) {
      out_.again_at.push_back(moment < never ? moment : -1);
    }
  }

  void lay_out(size_t number) {
    const AgainStep::Storage& storage = step_.storages[number];
    const int32_t again = out_.again_at[static_cast<size_t>(storage.call)];
    Time last_in_forward = {-1, storage.call};
    Time last = {-1, -1};
    if (storage.last_read >= 0) {
      last = {storage.last_read, count_};
    }
    for (const int32_t c : consumers_[number]) {
      last_in_forward = std::max(last_in_forward, Time(-1, c));
      if (const int32_t at = out_.again_at[static_cast<size_t>(c)]; at >= 0) {
        last = std::max(last, Time(at, c));
      }
    }
    const bool stays = is_kept(number) || again < 0;
    lives_.push_back(
        {{-1, storage.call},
         stays ? std::max(last, last_in_forward) : last_in_forward,
         storage.bytes});
    out_.is_again.push_back(!stays);
    if (again >= 0) {
      // Of one that is kept nobody reads the second.
      const Time made = {again, storage.call};
      lives_.push_back(
          {made, stays ? made : std::max(last, made), storage.bytes});
    }
  }

  int64_t live_at(Time time) const {
    int64_t bytes = 0;
    for (const Life& life : lives_) {
      bytes += life.from <= time && time <= life.to ? life.bytes : 0;
    }
    return bytes;
  }

  int64_t forward_peak() const {
    int64_t most = INT64_MIN;
    for (int32_t c = 0; c < count_; ++c) {
      most = std::max(
          most, live_at({-1, c}) + step_.call_bytes[static_cast<size_t>(c)]);
    }
    return most;
  }

  int64_t later_peak() const {
    int64_t most = INT64_MIN;
    for (size_t t = 0; t < step_.moments.size(); ++t) {
      const auto moment = static_cast<int32_t>(t);
      most = std::max(most, live_at({moment, count_}) + step_.moments[t].bytes);
      for (int32_t c = 0; c < count_; ++c) {
        if (out_.again_at[static_cast<size_t>(c)] == moment) {
          most = std::max(
              most, live_at({moment, c}) + step_.moments[t].before_bytes);
        }
      }
    }
    return most;
  }

  struct Life {
    Time from;
    Time to;
    int64_t bytes = 0;
  };

  const AgainStep& step_;
  const int32_t count_;
  const std::vector<bool>& keeps_;
  // By storage, the calls that read it.
  std::vector<std::vector<int32_t>> consumers_;
  std::vector<Life> lives_;
  AgainChoice out_;
};

}  // namespace

std::vector<bool> AgainStep::choices() const {
  std::vector<bool> out;
  for (const Storage& storage : storages) {
    out.push_back(storage.first_read >= 0 && !storage.is_once);
  }
  return out;
}

AgainChoice play_again(const AgainStep& step, const std::vector<bool>& keeps) {
  WEFT_CHECK(
      keeps.size() == step.storages.size() &&
          step.call_bytes.size() == step.calls.size(),
      "one a storage, one a call");
  return Playing(step, keeps).run();
}

}  // namespace weft
