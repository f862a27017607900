// SPDX-License-Identifier: Apache-2.0
// As an integer programme: one variable an option, of which each choice takes
// one; and where two choices meet, one variable for each pair of an option and
// a need, whose sums are the variables of the two sides. So a linear programme
// cannot have half of one option and half of another meet for nothing, which is
// what makes it come out whole nearly always.
#include "search/choice_problem.h"

#include "base/error.h"

#include <algorithm>
#include <cmath>
#include <set>

namespace weft {
namespace {

using Meeting = ChoiceProblem::Meeting;
using Party = ChoiceProblem::Party;

// Costs are told in so many parts of the largest: what a solver takes for zero
// is far below what counts.
constexpr double kLargestCost = 1e4;

class ChoiceProgramme {
 public:
  ChoiceProgramme(const ChoiceProblem& problem, double most_bytes)
      : problem_(problem) {
    find_scale();
    add_choices();
    for (const Meeting& meeting : problem_.meetings) {
      add_meeting(meeting);
    }
    add_budget(most_bytes);
  }

  const Ilp& ilp() const { return ilp_; }

  std::vector<size_t> options(const std::vector<double>& values) const {
    std::vector<size_t> out;
    for (const std::vector<int32_t>& mine : variables_) {
      size_t best = 0;
      for (size_t i = 1; i < mine.size(); ++i) {
        if (values[static_cast<size_t>(mine[i])] >
            values[static_cast<size_t>(mine[best])]) {
          best = i;
        }
      }
      out.push_back(best);
    }
    return out;
  }

 private:
  void find_scale() {
    double largest = 0;
    const auto look_at = [&](const std::vector<double>& all) {
      for (const double one : all) {
        if (one != kImpossible) {
          largest = std::max(largest, one);
        }
      }
    };
    for (const ChoiceProblem::Choice& choice : problem_.choices) {
      look_at(choice.seconds);
    }
    for (const Meeting& meeting : problem_.meetings) {
      for (const std::vector<double>& row : meeting.seconds) {
        look_at(row);
      }
    }
    scale_ = largest > 0 ? kLargestCost / largest : 1;
  }

  int32_t add_variable(double seconds, bool is_integer) {
    return ilp_.add(
        {.cost = scale_ * seconds,
         .lower = 0,
         .upper = 1,
         .is_integer = is_integer});
  }

  void add_choices() {
    for (const ChoiceProblem::Choice& choice : problem_.choices) {
      std::vector<int32_t>& mine = variables_.emplace_back();
      Ilp::Row one = {.lower = 1, .upper = 1, .terms = {}};
      for (const double seconds : choice.seconds) {
        mine.push_back(add_variable(seconds, true));
        one.terms.push_back({mine.back(), 1});
      }
      ilp_.rows.push_back(std::move(one));
    }
  }

  // Whether who meets makes no difference.
  static bool is_idle(const Meeting& meeting) {
    return std::all_of(
        meeting.seconds.begin(),
        meeting.seconds.end(),
        [](const std::vector<double>& row) {
          return std::all_of(
              row.begin(), row.end(), [](double one) { return one == 0; });
        });
  }

  // The pairs of one party; by option and need, -1 where there is none.
  using Pairs = std::vector<std::vector<int32_t>>;

  Pairs add_pairs(const Meeting& meeting, const Party& party, bool has_costs) {
    const std::vector<int32_t>& mine = variables_[meeting.at];
    const std::set<size_t> needs(party.needs.begin(), party.needs.end());
    const size_t all_needs = meeting.seconds.front().size();
    Pairs pairs(mine.size(), std::vector<int32_t>(all_needs, -1));
    std::vector<Ilp::Row> by_need(all_needs);
    for (size_t option = 0; option < mine.size(); ++option) {
      Ilp::Row row = {.lower = 0, .upper = 0, .terms = {{mine[option], -1}}};
      for (const size_t need : needs) {
        const double seconds = meeting.seconds[option][need];
        if (seconds == kImpossible) {
          continue;
        }
        const int32_t pair = add_variable(has_costs ? seconds : 0, false);
        pairs[option][need] = pair;
        row.terms.push_back({pair, 1});
        by_need[need].terms.push_back({pair, 1});
      }
      ilp_.rows.push_back(std::move(row));
    }
    for (const size_t need : needs) {
      Ilp::Row& row = by_need[need];
      row.lower = row.upper = 0;
      for (size_t i = 0; i < party.needs.size(); ++i) {
        if (party.needs[i] == need) {
          row.terms.push_back({variables_[party.choice][i], -1});
        }
      }
      ilp_.rows.push_back(std::move(row));
    }
    return pairs;
  }

  void add_meeting(const Meeting& meeting) {
    if (is_idle(meeting)) {
      return;
    }
    if (meeting.parties.size() == 1) {
      add_pairs(meeting, meeting.parties.front(), true);
      return;
    }
    std::vector<Pairs> all;
    for (const Party& party : meeting.parties) {
      all.push_back(add_pairs(meeting, party, false));
    }
    for (size_t option = 0; option < meeting.seconds.size(); ++option) {
      for (size_t need = 0; need < meeting.seconds[option].size(); ++need) {
        const double seconds = meeting.seconds[option][need];
        if (seconds == 0 || seconds == kImpossible) {
          continue;
        }
        // Paid as soon as one of them needs it.
        const int32_t paid = add_variable(seconds, false);
        for (const Pairs& pairs : all) {
          if (pairs[option][need] >= 0) {
            ilp_.rows.push_back(
                {.lower = 0,
                 .upper = kNoBound,
                 .terms = {{paid, 1}, {pairs[option][need], -1}}});
          }
        }
      }
    }
  }

  void add_budget(double most_bytes) {
    if (most_bytes == kNoBound) {
      return;
    }
    Ilp::Row row = {.upper = most_bytes, .terms = {}};
    for (size_t i = 0; i < variables_.size(); ++i) {
      for (size_t k = 0; k < variables_[i].size(); ++k) {
        if (problem_.choices[i].bytes[k] > 0) {
          row.terms.push_back({variables_[i][k], problem_.choices[i].bytes[k]});
        }
      }
    }
    ilp_.rows.push_back(std::move(row));
  }

  const ChoiceProblem& problem_;
  double scale_ = 1;
  Ilp ilp_;
  // By choice and option.
  std::vector<std::vector<int32_t>> variables_;
};

}  // namespace

Chosen cost_of(const ChoiceProblem& problem, std::vector<size_t> options) {
  WEFT_CHECK(options.size() == problem.choices.size(), "one option a choice");
  Chosen out;
  for (size_t i = 0; i < options.size(); ++i) {
    out.seconds += problem.choices[i].seconds[options[i]];
    out.bytes += problem.choices[i].bytes[options[i]];
  }
  for (const Meeting& meeting : problem.meetings) {
    std::set<size_t> needs;
    for (const Party& party : meeting.parties) {
      needs.insert(party.needs[options[party.choice]]);
    }
    for (const size_t need : needs) {
      out.seconds += meeting.seconds[options[meeting.at]][need];
    }
  }
  out.options = std::move(options);
  return out;
}

std::optional<Chosen> choose(
    const ChoiceProblem& problem,
    double most_bytes,
    double time_limit_seconds) {
  const ChoiceProgramme programme(problem, most_bytes);
  const IlpResult result = solve(
      programme.ilp(),
      {.time_limit_seconds = time_limit_seconds, .relax_first = true});
  if (!result.has_values()) {
    return std::nullopt;
  }
  Chosen chosen = cost_of(problem, programme.options(result.values));
  chosen.is_proved = result.status == IlpStatus::Optimal;
  chosen.is_relaxed = result.is_relaxed;
  return chosen;
}

}  // namespace weft
