// SPDX-License-Identifier: Apache-2.0
// The integer programme of a choice. Only whether a storage is kept is a whole
// number of its own; the rest follows from it:
//
//   need(s, t)   storage s has been asked for at moment t or before, and is not
//                kept. From its first read on that is 1 - keep(s); earlier it
//                is so if some call that reads it has been run again.
//   again(c, t)  call c has been run again then: some storage of it is needed.
//   alive(s, .)  storage s is there, kept or made again, and something will use
//                it: a moment that reads it, or a call yet to be run again.
//
// For every call of forward, every moment, and every call that may be run again
// at it, what is alive is within the budget.
#include "search/again_choice.h"

#include "base/error.h"
#include "search/ilp.h"

#include <algorithm>
#include <map>
#include <utility>

namespace weft {
namespace {

// A sum of variables and a number.
struct Sum {
  double constant = 0;
  std::map<int32_t, double> terms = {};

  bool operator==(const Sum&) const = default;
  auto operator<=>(const Sum&) const = default;
  bool is(double number) const { return terms.empty() && constant == number; }
  Sum& add(const Sum& other, double factor = 1) {
    constant += factor * other.constant;
    for (const auto& [variable, each] : other.terms) {
      double& mine = terms[variable];
      mine += factor * each;
      if (mine == 0) {
        terms.erase(variable);
      }
    }
    return *this;
  }
};

Sum operator+(Sum a, const Sum& b) { return a.add(b); }
Sum operator-(Sum a, const Sum& b) { return a.add(b, -1); }

class KeepProgramme {
 public:
  KeepProgramme(const AgainStep& step, int64_t budget)
      : step_(step),
        budget_(budget),
        count_(static_cast<int32_t>(step.calls.size())),
        moments_(static_cast<int32_t>(step.moments.size())),
        again_(step.calls.size()),
        made_(step.calls.size()),
        consumers_(step.storages.size()) {
    for (size_t i = 0; i < step.storages.size(); ++i) {
      const AgainStep::Storage& storage = step.storages[i];
      made_[at(storage.call)].push_back(static_cast<int32_t>(i));
    }
    for (int32_t c = 0; c < count_; ++c) {
      for (const int32_t read : step.calls[at(c)].reads) {
        consumers_[at(read)].push_back(c);
      }
    }
  }

  Ilp run() {
    add_choices();
    for (int32_t c = count_ - 1; c >= 0; --c) {
      add_again(c);
    }
    for (int32_t c = 0; c < count_; ++c) {
      add_forward_row(c);
    }
    for (int32_t t = 0; t < moments_; ++t) {
      add_moment_rows(t);
    }
    return std::move(ilp_);
  }

  std::vector<bool> keeps(const std::vector<double>& values) const {
    std::vector<bool> out;
    for (const Sum& keep : keep_) {
      out.push_back(
          !keep.terms.empty() && values[at(keep.terms.begin()->first)] > 0.5);
    }
    return out;
  }

 private:
  static size_t at(int32_t number) { return static_cast<size_t>(number); }

  Sum variable(bool is_integer) {
    return {0, {{ilp_.add({.is_integer = is_integer}), 1.0}}};
  }

  // What a row asks for may hold by itself.
  void at_least_zero(const Sum& sum) {
    double least = sum.constant;
    Ilp::Row row = {.lower = -sum.constant};
    for (const auto& [variable, factor] : sum.terms) {
      least += std::min(factor, 0.0);
      row.terms.push_back({variable, factor});
    }
    if (least < 0) {
      ilp_.rows.push_back(std::move(row));
    }
  }

  void add_choices() {
    const std::vector<bool> choices = step_.choices();
    for (size_t i = 0; i < choices.size(); ++i) {
      const double number = step_.storages[i].is_once ? 1 : 0;
      keep_.push_back(choices[i] ? variable(true) : Sum{number, {}});
    }
  }

  void add_again(int32_t call) {
    std::vector<Sum>& again = again_[at(call)];
    for (int32_t t = 0; t < moments_; ++t) {
      std::vector<Sum> needs;
      for (const int32_t storage : made_[at(call)]) {
        needs.push_back(need(storage, t));
      }
      again.push_back(any_of(std::move(needs), {}));
    }
    if (moments_ > 0) {
      for (const auto& [variable, factor] : again.back().terms) {
        ilp_.variables[at(variable)].cost +=
            factor * step_.calls[at(call)].seconds;
      }
    }
  }

  Sum need(int32_t storage, int32_t t) {
    const Sum& keep = keep_[at(storage)];
    const int32_t first = step_.storages[at(storage)].first_read;
    if (keep.is(1) || (first >= 0 && t >= first)) {
      return Sum{1, {}} - keep;
    }
    std::vector<Sum> reasons;
    for (const int32_t c : consumers_[at(storage)]) {
      reasons.push_back(again_[at(c)][at(t)]);
    }
    return any_of(std::move(reasons), keep);
  }

  // Whether any of the reasons is there, and not `unless`.
  Sum any_of(std::vector<Sum> reasons, const Sum& unless) {
    std::sort(reasons.begin(), reasons.end());
    reasons.erase(std::unique(reasons.begin(), reasons.end()), reasons.end());
    std::erase_if(reasons, [](const Sum& reason) { return reason.is(0); });
    if (reasons.empty()) {
      return {};
    }
    if (reasons.size() == 1 && unless.is(0)) {
      return reasons.front();
    }
    // The same reasons have the same outcome.
    const auto [found, is_new] = any_.try_emplace({reasons, unless});
    if (is_new) {
      found->second = variable(false);
      Sum all;
      for (const Sum& reason : reasons) {
        at_least_zero(found->second + unless - reason);
        all.add(reason);
      }
      at_least_zero(Sum{1, {}} - unless - found->second);
      at_least_zero(all - found->second);
    }
    return found->second;
  }

  Sum again_by(int32_t call, int32_t moment) const {
    return moment < 0 ? Sum() : again_[at(call)][at(moment)];
  }

  // Variables that are no less than any of these, nor than 0.
  Sum at_least(std::vector<Sum> least) {
    std::sort(least.begin(), least.end());
    least.erase(std::unique(least.begin(), least.end()), least.end());
    std::erase_if(least, [](const Sum& each) { return each.is(0); });
    if (least.empty()) {
      return {};
    }
    const auto [found, is_new] = least_.try_emplace(least);
    if (is_new) {
      found->second = variable(false);
      for (const Sum& each : least) {
        at_least_zero(found->second - each);
      }
    }
    return found->second;
  }

  // Kept, or made again by then.
  Sum there(int32_t storage, int32_t moment) {
    const int32_t call = step_.storages[at(storage)].call;
    const Sum& keep = keep_[at(storage)];
    const Sum again = again_by(call, moment);
    // The call is run again for this one alone, so then it is not kept.
    const bool is_alone = made_[at(call)].size() == 1;
    return keep + (is_alone || keep.is(0) || again.is(0)
                       ? again
                       : at_least({again - keep}));
  }

  // Of a storage that no moment from this one on reads: it is there, and some
  // call of `next` or after is run again at this moment, or any at a later one.
  Sum alive_for_calls(int32_t storage, int32_t moment, int32_t next) {
    const int32_t call = step_.storages[at(storage)].call;
    const Sum present = there(storage, moment);
    std::vector<Sum> least;
    for (const int32_t c : consumers_[at(storage)]) {
      const Sum yet = again_by(c, moments_ - 1) -
                      again_by(c, c >= next ? moment - 1 : moment);
      if (!yet.is(0)) {
        least.push_back(present + yet - Sum{1, {}});
      }
    }
    if (call == next) {
      // Just made, whoever needs it.
      least.push_back(runs_at(call, moment) - keep_[at(storage)]);
    }
    return at_least(std::move(least));
  }

  Sum runs_at(int32_t call, int32_t moment) const {
    return again_by(call, moment) - again_by(call, moment - 1);
  }

  void add_row(Sum live, int64_t besides) {
    Sum room = {static_cast<double>(budget_ - besides), {}};
    at_least_zero(room - live);
  }

  void add_forward_row(int32_t call) {
    Sum live;
    for (size_t i = 0; i < step_.storages.size(); ++i) {
      const AgainStep::Storage& storage = step_.storages[i];
      const auto bytes = static_cast<double>(storage.bytes);
      if (storage.call > call) {
        continue;
      }
      const std::vector<int32_t>& consumers = consumers_[i];
      if (storage.call == call ||
          std::any_of(consumers.begin(), consumers.end(), [&](int32_t c) {
            return c >= call;
          })) {
        live.constant += bytes;
      } else if (storage.last_read >= 0) {
        live.add(keep_[i], bytes);
      } else if (storage.is_once) {
        live.add(alive_for_calls(static_cast<int32_t>(i), -1, count_), bytes);
      }
    }
    add_row(std::move(live), step_.call_bytes[at(call)]);
  }

  void add_moment_rows(int32_t t) {
    for (int32_t c = 0; c < count_; ++c) {
      if (again_by(c, t) != again_by(c, t - 1) && something_ends(c, t)) {
        add_row(live(t, c), step_.moments[at(t)].before_bytes);
      }
    }
    add_row(live(t, count_), step_.moments[at(t)].bytes);
  }

  // Whether a storage may have its last use when the call is run again; if not,
  // more is alive after it.
  bool something_ends(int32_t call, int32_t t) const {
    const auto is_read = [&](int32_t storage) {
      return step_.storages[at(storage)].last_read >= t;
    };
    const std::vector<int32_t>& reads = step_.calls[at(call)].reads;
    const std::vector<int32_t>& made = made_[at(call)];
    return made.size() > 1 ||
           !std::all_of(reads.begin(), reads.end(), is_read) ||
           !std::all_of(made.begin(), made.end(), is_read);
  }

  // While the call is run again at the moment; count_: at the moment itself.
  Sum live(int32_t t, int32_t call) {
    Sum out;
    for (size_t i = 0; i < step_.storages.size(); ++i) {
      const AgainStep::Storage& storage = step_.storages[i];
      const auto bytes = static_cast<double>(storage.bytes);
      const auto number = static_cast<int32_t>(i);
      const bool is_made = storage.call <= call;
      if (storage.last_read >= t) {
        out.add(there(number, is_made ? t : t - 1), bytes);
      } else if (is_made) {
        out.add(alive_for_calls(number, t, call), bytes);
      } else {
        out.add(alive_for_calls(number, t - 1, count_), bytes);
      }
      // A second one of what is kept is given back at once.
      if (storage.call == call && made_[at(call)].size() > 1) {
        out.add(at_least({runs_at(call, t) + keep_[i] - Sum{1, {}}}), bytes);
      }
    }
    return out;
  }

  const AgainStep& step_;
  const int64_t budget_;
  const int32_t count_;
  const int32_t moments_;
  Ilp ilp_;
  // By storage.
  std::vector<Sum> keep_;
  // By call and moment.
  std::vector<std::vector<Sum>> again_;
  // The storages of a call, and the calls that read a storage.
  std::vector<std::vector<int32_t>> made_;
  std::vector<std::vector<int32_t>> consumers_;
  // What any_of and at_least have made.
  std::map<std::pair<std::vector<Sum>, Sum>, Sum> any_;
  std::map<std::vector<Sum>, Sum> least_;
};

}  // namespace

std::optional<AgainChoice> choose_again(
    const AgainStep& step, int64_t budget_bytes, double time_limit_seconds) {
  KeepProgramme programme(step, budget_bytes);
  const Ilp ilp = programme.run();
  const IlpResult result =
      solve(ilp, {.time_limit_seconds = time_limit_seconds});
  if (!result.has_values()) {
    return std::nullopt;
  }
  AgainChoice choice = play_again(step, programme.keeps(result.values));
  choice.is_in_doubt = result.status != IlpStatus::Optimal;
  return choice;
}

}  // namespace weft
