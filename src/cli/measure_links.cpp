// SPDX-License-Identifier: Apache-2.0
#include "cli/measure_links.h"

#include "base/text.h"
#include "cli/figures.h"
#include "cli/measured_call.h"

#include <ATen/ops/ones.h>

#include <algorithm>
#include <functional>
#include <numeric>

namespace weft {
namespace {

constexpr int64_t kSmallElements = 64;
constexpr int64_t kLargeElements[] = {1 << 14, 1 << 17, 1 << 20, 1 << 22};
// How much faster a group must be than the next larger one to be one.
constexpr double kWorthAGroup = 1.25;
// How long devices compute beside a transfer, as a multiple of its time.
constexpr double kBeside = 2;

// One kind of transfer of so many elements: how many messages it is, and which
// share of the elements a rank takes from the others.
struct Exchange {
  std::string transfer;
  double messages = 1;
  double taken = 1;
  std::function<std::unique_ptr<Pending>(int64_t elements)> start;
  // So many, one after the other.
  int transfers = 1;
};

// How long one took whose rank took so many bytes.
struct Transferred {
  double taken_bytes = 0;
  double seconds = 0;
};

class LinkMeasurement {
 public:
  LinkMeasurement(LapTimer& timer, int64_t size)
      : timer_(timer),
        size_(size),
        first_(timer.rendezvous().rank / size * size),
        whole_(at::ones({kLargeElements[std::size(kLargeElements) - 1]})),
        piece_(at::ones({whole_.numel()})) {
    std::vector<int64_t> ranks(static_cast<size_t>(size));
    std::iota(ranks.begin(), ranks.end(), first_);
    group_ = timer.world()->group(ranks);
    if (size % 2 == 0) {
      const int64_t half = size / 2;
      const int64_t lower = first_ + (timer.rendezvous().rank - first_) % half;
      is_lower_ = lower == timer.rendezvous().rank;
      pair_ = timer.world()->group({lower, lower + half});
    }
  }

  Link run(const MeasureProgress& progress) {
    const std::vector<Exchange> all = exchanges();
    std::vector<double> latencies;
    std::vector<double> shares;
    std::vector<std::vector<Transferred>> curves;
    for (size_t i = 0; i < all.size(); ++i) {
      progress(
          cat(all[i].transfer, " among ", size_, " ranks"),
          static_cast<double>(i) / static_cast<double>(all.size()));
      latencies.push_back(
          seconds(all[i], kSmallElements * size_).seconds / all[i].messages);
      std::vector<Transferred> curve;
      for (const int64_t elements : kLargeElements) {
        curve.push_back(seconds(all[i], elements / size_ * size_));
      }
      curves.push_back(std::move(curve));
      if (all[i].transfers == 1) {
        shares.push_back(device_share(all[i]));
      }
    }
    Link link = {
        .latency_seconds = three_figures(median(latencies)),
        .device_share = three_figures(median(shares))};
    double best = 0;
    for (size_t i = 0; i < all.size(); ++i) {
      for (Transferred& each : curves[i]) {
        each.seconds = std::max(
            each.seconds - all[i].messages * link.latency_seconds,
            0.2 * each.seconds);
        best = std::max(best, per_second(each.taken_bytes, each.seconds));
      }
    }
    link.bytes_per_second = three_figures(best);
    for (size_t i = 0; i < all.size(); ++i) {
      LinkEfficiency curve = {all[i].transfer, {}};
      for (const Transferred& each : curves[i]) {
        curve.points.emplace_back(
            each.taken_bytes / all[i].transfers,
            three_figures(
                per_second(each.taken_bytes, each.seconds) /
                link.bytes_per_second));
      }
      link.efficiencies.push_back(std::move(curve));
    }
    return link;
  }

 private:
  std::vector<Exchange> exchanges() {
    const auto ranks = static_cast<double>(size_);
    const double others = (ranks - 1) / ranks;
    const auto part = [](const at::Tensor& of, int64_t elements) {
      return of.narrow(0, 0, elements);
    };
    std::vector<Exchange> all = {
        {"all_reduce",
         2 * (ranks - 1),
         2 * others,
         [this, part](int64_t elements) {
           return group_->all_reduce(part(whole_, elements));
         }},
        {"all_gather",
         ranks - 1,
         others,
         [this, part](int64_t elements) {
           return group_->all_gather(
               {part(whole_, elements)}, {part(piece_, elements / size_)});
         }},
        {"reduce_scatter",
         ranks - 1,
         others,
         [this, part](int64_t elements) {
           return group_->reduce_scatter(
               {part(piece_, elements / size_)}, {part(whole_, elements)});
         }},
        {"all_to_all",
         ranks - 1,
         others,
         [this, part](int64_t elements) {
           return group_->all_to_all(
               part(piece_, elements), part(whole_, elements));
         }},
    };
    if (pair_) {
      // Half there, then half back.
      const auto there_and_back = [this, part](int64_t elements) {
        const at::Tensor there = part(whole_, elements / 2);
        const at::Tensor back = part(piece_, elements / 2);
        if (is_lower_) {
          pair_->send(there)->wait();
          return pair_->receive(back);
        }
        pair_->receive(there)->wait();
        return pair_->send(back);
      };
      all.push_back({"send", 2, 1, there_and_back, /*transfers=*/2});
    }
    return all;
  }

  Transferred seconds(const Exchange& exchange, int64_t elements) {
    // Sums of sums would be infinite some day.
    whole_.zero_();
    return {
        exchange.taken * 4 * static_cast<double>(elements),
        timer_.seconds([&] { exchange.start(elements)->wait(); })};
  }

  // Products that take longer than the transfer are made while it is under way.
  // How much later they are done is what it takes from the device.
  double device_share(const Exchange& exchange) {
    constexpr int64_t kElements = 1 << 20;
    MeasuredCall product("aten.mm", "(f32[128, 128], f32[128, 128])");
    const int64_t elements = kElements / size_ * size_;
    const double transfer = seconds(exchange, elements).seconds;
    const double call = timer_.seconds([&] { product.run(); });
    const int64_t calls = timer_.as_rank_0(std::max<int64_t>(
        1, static_cast<int64_t>(per_second(kBeside * transfer, call))));
    const auto compute = [&] {
      for (int64_t i = 0; i < calls; ++i) {
        product.run();
      }
    };
    const double alone = timer_.seconds(compute);
    const double beside = timer_.seconds([&] {
      const std::unique_ptr<Pending> pending = exchange.start(elements);
      compute();
      pending->wait();
    });
    return std::clamp(per_second(beside - alone, transfer), 0.0, 1.0);
  }

  LapTimer& timer_;
  const int64_t size_;
  const int64_t first_;
  at::Tensor whole_;
  at::Tensor piece_;
  std::unique_ptr<Communicator> group_;
  // With the rank half the group away; none in a group that has no halves.
  std::unique_ptr<Communicator> pair_;
  bool is_lower_ = false;
};

// 2, 4, 8 and so on as long as they divide all, and all.
std::vector<int64_t> sizes_of_groups(int64_t ranks) {
  std::vector<int64_t> sizes;
  for (int64_t size = 2; size < ranks && ranks % size == 0; size *= 2) {
    sizes.push_back(size);
  }
  if (ranks > 1) {
    sizes.push_back(ranks);
  }
  return sizes;
}

}  // namespace

std::vector<Group> measure_links(
    LapTimer& timer, const MeasureProgress& progress) {
  const int64_t ranks = timer.rendezvous().size;
  const std::vector<int64_t> sizes = sizes_of_groups(ranks);
  const auto count = static_cast<double>(sizes.size());
  double done = 0;
  std::vector<std::pair<int64_t, Link>> links;
  std::vector<Group> groups;
  int64_t inside = 1;
  for (const int64_t size : sizes) {
    const Link link = LinkMeasurement(timer, size)
                          .run([&](const std::string& what, double share) {
                            progress(what, (done + share) / count);
                          });
    done += 1;
    links.emplace_back(size, link);
  }
  for (size_t i = 0; i < links.size(); ++i) {
    const auto& [size, link] = links[i];
    if (i + 1 < links.size() &&
        link.bytes_per_second <
            kWorthAGroup * links[i + 1].second.bytes_per_second) {
      continue;
    }
    groups.push_back(
        {.name = size == ranks ? "machine" : cat("group_of_", size),
         .count = size / inside,
         .link = link});
    inside = size;
  }
  return groups;
}

}  // namespace weft
