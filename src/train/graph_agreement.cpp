// SPDX-License-Identifier: Apache-2.0
#include "train/graph_agreement.h"

#include "base/error.h"
#include "base/json.h"
#include "graph/structure_hash.h"
#include "train/batch_hash.h"

#include <ATen/ops/empty.h>

#include <algorithm>
#include <cstring>
#include <nlohmann/json.hpp>
#include <string_view>

namespace weft {
namespace {

// Rank 0's text, on every rank.
std::string text_of_first(
    const std::string& text, int64_t rank, Communicator& everybody) {
  const at::Tensor size = at::empty({1}, at::kLong);
  size.fill_(static_cast<int64_t>(text.size()));
  everybody.broadcast(size, 0)->wait();
  const auto bytes = size.const_data_ptr<int64_t>()[0];
  const at::Tensor tensor = at::empty({bytes}, at::kByte);
  if (rank == 0) {
    std::memcpy(tensor.mutable_data_ptr(), text.data(), text.size());
  }
  everybody.broadcast(tensor, 0)->wait();
  const auto* data = static_cast<const char*>(tensor.const_data_ptr());
  return {data, data + bytes};
}

// The line of the text in which the place is, without its beginning.
std::string line_at(const std::string& text, size_t place) {
  constexpr size_t kMost = 200;
  const size_t before =
      place == 0 ? std::string::npos : text.rfind('\n', place - 1);
  const size_t begin = before == std::string::npos ? 0 : before + 1;
  const size_t end = text.find('\n', place);
  std::string line =
      text.substr(begin, end == std::string::npos ? end : end - begin);
  line.erase(0, line.find_first_not_of(' '));
  return line.size() > kMost ? line.substr(0, kMost) + "..." : line;
}

// By rank.
std::vector<int64_t> numbers_of_all(
    uint64_t number, Communicator& everybody, int64_t ranks) {
  const at::Tensor mine = at::empty({1}, at::kLong);
  mine.fill_(static_cast<int64_t>(number));
  const at::Tensor all = at::empty({ranks}, at::kLong);
  everybody.all_gather(all, mine)->wait();
  const auto* data = all.const_data_ptr<int64_t>();
  return {data, data + ranks};
}

bool are_equal(const std::vector<int64_t>& numbers) {
  return std::all_of(numbers.begin(), numbers.end(), [&](int64_t number) {
    return number == numbers.front();
  });
}

// On rank 0, the first line in which a rank's text differs from its own.
std::string explain_difference(
    const std::string& text, const std::string& first, World& world) {
  size_t same = 0;
  while (same < std::min(text.size(), first.size()) &&
         text[same] == first[same]) {
    ++same;
  }
  const std::vector<std::string> told = world.gather(
      text == first
          ? ""
          : nlohmann::json({line_at(first, same), line_at(text, same)}).dump());
  for (size_t i = 1; i < told.size(); ++i) {
    if (!told[i].empty()) {
      const nlohmann::json lines = parse_json<nlohmann::json>(told[i]);
      return cat(
          "the ranks captured different steps: ",
          world.rank_name(0),
          " has \"",
          lines[0].get<std::string>(),
          "\" where ",
          world.rank_name(static_cast<int64_t>(i)),
          " has \"",
          lines[1].get<std::string>(),
          "\". The model must be the same on all ranks, with the same "
          "constants and settings, and take the same path: it may depend "
          "neither on the rank nor on random numbers of Python");
    }
  }
  return "";
}

}  // namespace

void verify_same_step(
    uint64_t step, World& world, Communicator& everybody, int64_t ranks) {
  const std::vector<int64_t> steps = numbers_of_all(step, everybody, ranks);
  if (are_equal(steps)) {
    return;
  }
  const auto other =
      std::find_if(steps.begin(), steps.end(), [&](int64_t each) {
        return each != steps.front();
      });
  const auto does = [](int64_t each) {
    return each == 0 ? " captures its step anew"
                     : " runs a step that it has captured";
  };
  // The same words on all ranks, which none may leave before it has them.
  const std::string words = world.tell_all(
      cat(world.rank_name(0),
          does(steps.front()),
          " and ",
          world.rank_name(other - steps.begin()),
          does(*other),
          steps.front() != 0 && *other != 0 ? ", which is another one" : "",
          ": what the model reads of the script (attributes, flags, numbers of "
          "the batch, tensors that are no buffers) has changed on one of them "
          "alone. Change it on all ranks, in the same step"));
  everybody.barrier()->wait();
  throw UserError(words);
}

Graph agree_on_graph(
    Graph graph,
    World& world,
    Communicator& everybody,
    int64_t rank,
    int64_t ranks) {
  const std::string text = print(graph);
  if (are_equal(numbers_of_all(hash_of(text), everybody, ranks))) {
    return graph;
  }
  const std::string first = text_of_first(text, rank, everybody);
  if (are_equal(numbers_of_all(structure_hash(graph), everybody, ranks))) {
    return rank == 0 ? std::move(graph)
                     : parse_graph(first, "the graph of rank 0");
  }
  throw UserError(world.tell_all(explain_difference(text, first, world)));
}

}  // namespace weft
