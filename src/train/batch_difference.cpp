// SPDX-License-Identifier: Apache-2.0
#include "train/batch_difference.h"

#include "base/json.h"
#include "base/text.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>

namespace weft {
namespace {

using Entry = ToldBatch::Entry;

// "rank 1", "rank 1, rank 2 and 3 more".
std::string list_ranks(
    const ToldByRanks& told, const std::vector<size_t>& ranks) {
  constexpr size_t kMost = 8;
  std::vector<std::string> names;
  for (size_t i = 0; i < std::min(ranks.size(), kMost); ++i) {
    names.push_back(told.names[ranks[i]]);
  }
  std::string text = join(names, ", ");
  if (ranks.size() > kMost) {
    text += cat(" and ", ranks.size() - kMost, " more");
  }
  return text;
}

const Entry& entry(const ToldByRanks& told, size_t rank, size_t number) {
  return told.batches[rank].entries[number];
}

// "i64[4, 16] on rank 0 and i64[3, 16] on rank 1, rank 2".
std::string types_on(
    const ToldByRanks& told,
    size_t number,
    size_t first,
    const std::vector<size_t>& others) {
  std::vector<std::string> words = {
      cat(print(entry(told, first, number).type), " on ", told.names[first])};
  std::vector<size_t> left = others;
  while (!left.empty()) {
    const TensorType type = entry(told, left.front(), number).type;
    std::vector<size_t> same;
    std::copy_if(
        left.begin(), left.end(), std::back_inserter(same), [&](size_t rank) {
          return entry(told, rank, number).type == type;
        });
    std::erase_if(left, [&](size_t rank) {
      return entry(told, rank, number).type == type;
    });
    words.push_back(cat(print(type), " on ", list_ranks(told, same)));
  }
  return join(words, " and ");
}

std::string keys_of(const ToldBatch& batch) {
  std::vector<std::string> keys;
  for (const Entry& each : batch.entries) {
    keys.push_back(each.key);
  }
  return keys.empty() ? "nothing" : join(keys, ", ");
}

// Other calls, or batches of other structures.
std::string difference_of_steps(const ToldByRanks& told) {
  const ToldBatch& first = told.batches.front();
  for (size_t rank = 1; rank < told.batches.size(); ++rank) {
    const ToldBatch& other = told.batches[rank];
    if (other.step != first.step) {
      return cat(
          told.names.front(),
          " is at ",
          first.step,
          " and ",
          told.names[rank],
          " at ",
          other.step,
          ": every rank has to make the same calls of the trainer, in the same "
          "order. A rank whose loader has fewer batches than the others' is "
          "ahead of them: let all have as many, or give batches without rows "
          "with batch=\"local\"");
    }
    if (keys_of(other) != keys_of(first)) {
      return cat(
          "the ranks give batches of different structures: ",
          told.names.front(),
          " has ",
          keys_of(first),
          " and ",
          told.names[rank],
          " has ",
          keys_of(other));
    }
  }
  return "";
}

// An entry that should have the rows of the others and has not.
std::string difference_in_rows(const ToldByRanks& told) {
  for (size_t rank = 0; rank < told.batches.size(); ++rank) {
    const Entry* first = nullptr;
    for (const Entry& each : told.batches[rank].entries) {
      if (!each.is_split) {
        continue;
      }
      if (first == nullptr) {
        first = &each;
      }
      if (each.type.sizes.front() != first->type.sizes.front()) {
        return cat(
            "on ",
            told.names[rank],
            ", ",
            each.key,
            " is ",
            print(each.type),
            " and ",
            first->key,
            " is ",
            print(first->type),
            ": they had as many rows in the example batch, so that the ranks "
            "share them by rows. If ",
            each.key,
            " has no rows, give an example batch of another number of rows");
      }
    }
  }
  return "";
}

// Whether types of two ranks go together; `same_rows`: the two give the same.
bool fit(const Entry& a, const Entry& b, bool same_rows) {
  if (a.is_split != b.is_split || a.type.dtype != b.type.dtype ||
      a.type.sizes.size() != b.type.sizes.size()) {
    return false;
  }
  if (!a.is_split || same_rows) {
    return a.type.sizes == b.type.sizes;
  }
  return a.is_padded || std::equal(
                            a.type.sizes.begin() + 1,
                            a.type.sizes.end(),
                            b.type.sizes.begin() + 1);
}

std::string what_to_do_about_types(
    const ToldByRanks& told, const Entry& mine, const Entry& other) {
  if (!told.is_local) {
    return "";
  }
  if (mine.type.dtype != other.type.dtype ||
      mine.type.sizes.size() != other.type.sizes.size()) {
    return ". All parts of a batch have one type";
  }
  if (!mine.is_split || !other.is_split) {
    return ". Its first dim was not the number of rows in the example batch, "
           "so that it is not split, and every rank has to give the same";
  }
  return cat(
      ". But for the number of rows, all parts of a batch have the same "
      "sizes: pad them to one length, or let weft.parallelize(..., pad={",
      quote(mine.key),
      ": 0}) do so, with the value that your model takes for padding");
}

std::string same_part_advice(const ToldByRanks& told, size_t rank) {
  return cat(
      ". These ranks work on one part of the batch (part ",
      told.part_of_rank[rank],
      " of ",
      *std::max_element(told.part_of_rank.begin(), told.part_of_rank.end()) + 1,
      ", counted from 0) and have to give the same rows: make the sampler with "
      "num_replicas=trainer.data_ranks and rank=trainer.data_rank");
}

size_t first_of_part(const ToldByRanks& told, size_t rank) {
  const auto found = std::find(
      told.part_of_rank.begin(),
      told.part_of_rank.end(),
      told.part_of_rank[rank]);
  return static_cast<size_t>(found - told.part_of_rank.begin());
}

std::string difference_of_types(const ToldByRanks& told, size_t number) {
  std::vector<size_t> others;
  for (size_t rank = 1; rank < told.batches.size(); ++rank) {
    if (!fit(entry(told, 0, number), entry(told, rank, number), false)) {
      others.push_back(rank);
    }
  }
  const std::string& key = entry(told, 0, number).key;
  if (!others.empty()) {
    return cat(
        key,
        " is ",
        types_on(told, number, 0, others),
        what_to_do_about_types(
            told, entry(told, 0, number), entry(told, others.front(), number)));
  }
  for (size_t rank = 1; rank < told.batches.size(); ++rank) {
    const size_t first = first_of_part(told, rank);
    if (!fit(entry(told, first, number), entry(told, rank, number), true)) {
      return cat(
          key,
          " is ",
          types_on(told, number, first, {rank}),
          same_part_advice(told, rank));
    }
  }
  return "";
}

std::string difference_of_values(const ToldByRanks& told) {
  for (size_t rank = 1; rank < told.batches.size(); ++rank) {
    std::vector<std::string> keys;
    size_t first = 0;
    bool is_split = false;
    for (size_t i = 0; i < told.batches[rank].entries.size(); ++i) {
      const bool splits = entry(told, rank, i).is_split;
      const size_t like = splits ? first_of_part(told, rank) : 0;
      if (entry(told, like, i).hash == entry(told, rank, i).hash ||
          (!keys.empty() && splits != is_split)) {
        continue;
      }
      keys.push_back(entry(told, rank, i).key);
      first = like;
      is_split = splits;
    }
    if (keys.empty()) {
      continue;
    }
    const std::string words =
        cat("the values of ",
            join(keys, ", "),
            " on ",
            told.names[rank],
            " are not those on ",
            told.names[first]);
    if (is_split) {
      return words + same_part_advice(told, rank);
    }
    return told.is_local
               ? cat(words,
                     ". The first dim of ",
                     keys.front(),
                     " was not the number of rows in the example batch, so "
                     "that it is not split, and every rank has to give the "
                     "same")
               : words;
  }
  return "";
}

}  // namespace

std::string batch_difference(const ToldByRanks& told) {
  if (std::string steps = difference_of_steps(told); !steps.empty()) {
    return steps;
  }
  std::string what = difference_in_rows(told);
  for (size_t i = 0; what.empty() && i < told.batches.front().entries.size();
       ++i) {
    what = difference_of_types(told, i);
  }
  if (what.empty() && !told.is_example) {
    what = difference_of_values(told);
  }
  if (what.empty()) {
    return "";
  }
  if (told.is_local) {
    return cat("the ranks give batches that are not parts of one: ", what);
  }
  return cat(
      "the ranks give different batches: ",
      what,
      ". Every rank has to give the whole batch, of which it takes its part. "
      "If each rank reads a part of its own, as with a DistributedSampler, "
      "call weft.parallelize(..., batch=\"local\")");
}

std::string print_json(const ToldBatch& told) {
  nlohmann::json entries = nlohmann::json::array();
  for (const Entry& each : told.entries) {
    entries.push_back(
        {{"key", each.key},
         {"type", print(each.type)},
         {"hash", each.hash},
         {"is_split", each.is_split},
         {"is_padded", each.is_padded}});
  }
  return nlohmann::json({{"step", told.step}, {"entries", entries}}).dump();
}

ToldBatch parse_told_batch(const std::string& json) {
  const nlohmann::json told = parse_json<nlohmann::json>(json);
  ToldBatch batch;
  batch.step = told["step"];
  for (const nlohmann::json& each : told["entries"]) {
    batch.entries.push_back(
        {each["key"],
         parse_type(each["type"].get<std::string>()),
         each["hash"],
         each["is_split"],
         each["is_padded"]});
  }
  return batch;
}

}  // namespace weft
