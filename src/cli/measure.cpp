// SPDX-License-Identifier: Apache-2.0
// Every figure is that of the fastest of several rounds, for whatever else runs
// on the machine makes them slower only, and the median of all ranks. A round
// goes on until it is long enough for the clock, all ranks beginning together.
// Rates come from the large sizes; a smaller size then has its share of them,
// without what any call costs.
#include "cli/measure.h"

#include "base/error.h"
#include "base/text.h"
#include "execute/communicator.h"

#include <ATen/Parallel.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/_scaled_dot_product_flash_attention_for_cpu.h>
#include <ATen/ops/_softmax.h>
#include <ATen/ops/add.h>
#include <ATen/ops/convolution.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/mm.h>
#include <ATen/ops/ones.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <fcntl.h>
#include <filesystem>
#include <numeric>
#include <unistd.h>

namespace weft {
namespace {

using Clock = std::chrono::steady_clock;

constexpr double kRoundSeconds = 0.015;
// On a busy machine a transfer can take far longer than the one before.
constexpr int64_t kMostCalls = 200;

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

// One size of something, and how long it took.
struct Point {
  double size = 0;
  double seconds = 0;
};

class Measurement {
 public:
  Measurement(
      const Rendezvous& rendezvous,
      const MeasureOptions& options,
      const MeasureProgress& progress)
      : rendezvous_(rendezvous), options_(options), progress_(progress) {
    if (rendezvous.size > 1) {
      world_ = connect(rendezvous);
      std::vector<int64_t> ranks(static_cast<size_t>(rendezvous.size));
      std::iota(ranks.begin(), ranks.end(), 0);
      all_ = world_->group(ranks);
    }
  }

  std::optional<Cluster> run() {
    Cluster cluster;
    cluster.name = "measured";
    cluster.device = device();
    cluster.tiers = {host_tier(), disk_tier()};
    if (rendezvous_.size > 1) {
      cluster.groups.push_back({"machine", rendezvous_.size, links()});
    }
    say("done", 1);
    if (rendezvous_.rank != 0) {
      return std::nullopt;
    }
    verify(cluster);
    return cluster;
  }

 private:
  void say(const std::string& what, double share) const {
    if (rendezvous_.rank == 0) {
      progress_(what, share);
    }
  }

  void together() {
    if (all_) {
      all_->barrier()->wait();
    }
  }

  // The median of all ranks; on rank 0 only, 0 elsewhere.
  double of_all(double mine) {
    if (!world_) {
      return mine;
    }
    std::vector<double> values;
    for (const std::string& text : world_->gather(print_double(mine))) {
      values.push_back(std::stod(text));
    }
    return values.empty() ? 0 : median(values);
  }

  // All ranks must make as many transfers.
  int64_t as_rank_0(int64_t mine) {
    return world_ ? std::stoll(world_->tell_all(cat(mine))) : mine;
  }

  // Of one call.
  template <typename Call>
  double call_time(const Call& call) {
    call();
    const Clock::time_point once = Clock::now();
    call();
    const double estimate = std::max(seconds_since(once), 1e-7);
    const int64_t calls = as_rank_0(std::clamp<int64_t>(
        static_cast<int64_t>(kRoundSeconds / estimate), 1, kMostCalls));
    std::vector<double> rounds;
    for (int round = 0; round < options_.rounds; ++round) {
      together();
      const Clock::time_point start = Clock::now();
      for (int64_t i = 0; i < calls; ++i) {
        call();
      }
      rounds.push_back(seconds_since(start) / static_cast<double>(calls));
    }
    return of_all(*std::min_element(rounds.begin(), rounds.end()));
  }

  Device device() {
    say("calls", 0);
    Device device;
    device.name = "core";
    device.memory_bytes = memory_bytes() / rendezvous_.size;
    const at::Tensor one = at::ones({1});
    at::Tensor sum = at::empty({1});
    device.call_seconds =
        rounded(call_time([&] { at::add_out(sum, one, one); }));

    say("products", 0.05);
    const std::vector<Point> products = product_points(at::kFloat);
    device.rates = {{DType::F32, best_rate(products)}};
    device.rates.push_back({DType::F64, single_rate(at::kDouble)});
    device.rates.push_back({DType::BF16, single_rate(at::kBFloat16)});
    const double rate = device.rates.front().flops_per_second;
    add_curve(device, Work::Product, products, rate);
    say("attention", 0.3);
    add_curve(device, Work::Attention, attention_points(), rate);
    say("convolutions", 0.4);
    add_curve(device, Work::Convolution, convolution_points(), rate);
    say("functions", 0.5);
    add_curve(device, Work::Elementwise, function_points(), rate);
    say("memory", 0.6);
    const std::vector<Point> memory = memory_points();
    device.memory_bytes_per_second =
        rounded(memory.back().size / std::max(memory.back().seconds, 1e-12));
    add_curve(device, Work::Memory, memory, device.memory_bytes_per_second);
    return device;
  }

  static int64_t memory_bytes() {
    return static_cast<int64_t>(::sysconf(_SC_PHYS_PAGES)) *
           static_cast<int64_t>(::sysconf(_SC_PAGE_SIZE));
  }

  static double best_rate(const std::vector<Point>& points) {
    double best = 0;
    for (const Point& point : points) {
      best = std::max(best, point.size / std::max(point.seconds, 1e-12));
    }
    return rounded(best);
  }

  static void add_curve(
      Device& device,
      Work work,
      const std::vector<Point>& points,
      double rate) {
    Efficiency curve = {work, {}};
    for (const Point& point : points) {
      const double seconds =
          std::max(point.seconds - device.call_seconds, 0.5 * point.seconds);
      curve.points.emplace_back(
          point.size, rounded(point.size / std::max(seconds, 1e-12) / rate));
    }
    device.efficiencies.push_back(std::move(curve));
  }

  // To three figures: more than a measurement holds.
  static double rounded(double value) {
    char text[32];
    std::snprintf(text, sizeof(text), "%.3g", value);
    return std::stod(text);
  }

  std::vector<Point> product_points(at::ScalarType type) {
    std::vector<Point> points;
    for (const int64_t n : {16, 32, 64, 128, 256, 512, 1024}) {
      const at::Tensor a = at::ones({n, n}, type);
      at::Tensor c = at::empty({n, n}, type);
      points.push_back({2.0 * static_cast<double>(n * n * n), call_time([&] {
                          at::mm_out(c, a, a);
                        })});
      say("products", 0.05 + 0.02 * static_cast<double>(points.size()));
    }
    return points;
  }

  double single_rate(at::ScalarType type) {
    constexpr int64_t kSize = 256;
    const at::Tensor a = at::ones({kSize, kSize}, type);
    at::Tensor c = at::empty({kSize, kSize}, type);
    const double seconds = call_time([&] { at::mm_out(c, a, a); });
    return rounded(2.0 * kSize * kSize * kSize / std::max(seconds, 1e-12));
  }

  std::vector<Point> attention_points() {
    std::vector<Point> points;
    for (const int64_t tokens : {32, 128, 512}) {
      constexpr int64_t kHeads = 4;
      constexpr int64_t kWidth = 64;
      const at::Tensor q = at::ones({1, kHeads, tokens, kWidth});
      points.push_back(
          {4.0 * static_cast<double>(kHeads * tokens * tokens * kWidth),
           call_time([&] {
             at::_scaled_dot_product_flash_attention_for_cpu(q, q, q, 0, true);
           })});
    }
    return points;
  }

  std::vector<Point> convolution_points() {
    std::vector<Point> points;
    for (const int64_t side : {8, 16, 32}) {
      constexpr int64_t kChannels = 64;
      const at::Tensor image = at::ones({1, kChannels, side, side});
      const at::Tensor weight = at::ones({kChannels, kChannels, 3, 3});
      const std::vector<int64_t> one = {1, 1};
      const std::vector<int64_t> zero = {0, 0};
      points.push_back(
          {2.0 * static_cast<double>(kChannels * kChannels * 9 * side * side),
           call_time([&] {
             at::convolution(image, weight, {}, one, one, one, false, zero, 1);
           })});
    }
    return points;
  }

  // A softmax: so many flops an element by the op table.
  std::vector<Point> function_points() {
    constexpr int64_t kFlops = 5;
    constexpr int64_t kColumns = 256;
    std::vector<Point> points;
    for (const int64_t rows : {16, 256, 4096}) {
      const at::Tensor x = at::ones({rows, kColumns});
      at::Tensor y = at::empty({rows, kColumns});
      points.push_back(
          {static_cast<double>(kFlops * rows * kColumns),
           call_time([&] { at::_softmax_out(y, x, 1, false); })});
    }
    return points;
  }

  std::vector<Point> memory_points() {
    std::vector<Point> points;
    for (int64_t count = 1 << 10; count <= 1 << 24; count *= 4) {
      const at::Tensor a = at::ones({count});
      at::Tensor c = at::empty({count});
      points.push_back({12.0 * static_cast<double>(count), call_time([&] {
                          at::add_out(c, a, a);
                        })});
      say("memory", 0.6 + 0.02 * static_cast<double>(points.size()));
    }
    return points;
  }

  MemoryTier host_tier() {
    say("host memory", 0.78);
    constexpr int64_t kBytes = 64 << 20;
    const at::Tensor from = at::ones({kBytes}, at::kByte);
    at::Tensor to = at::empty({kBytes}, at::kByte);
    const double seconds = call_time([&] { to.copy_(from); });
    return {
        "host",
        memory_bytes() / rendezvous_.size,
        {.latency_seconds = 0,
         .bytes_per_second = rounded(kBytes / std::max(seconds, 1e-12))}};
  }

  // Written through to the device and read back, by all ranks at a time.
  MemoryTier disk_tier() {
    say("disk", 0.8);
    constexpr size_t kBytes = 32 << 20;
    const std::string path = cat(
        options_.folder, "/weft.measure.", ::getpid(), ".", rendezvous_.rank);
    std::vector<char> bytes(kBytes, 'w');
    const int file = ::open(path.c_str(), O_RDWR | O_CREAT | O_TRUNC, 0600);
    WEFT_CHECK_USER(file >= 0, "cannot write ", path, " to measure the disk");
    together();
    const Clock::time_point start = Clock::now();
    const bool is_written =
        ::write(file, bytes.data(), kBytes) == static_cast<ssize_t>(kBytes) &&
        ::fsync(file) == 0;
    const double seconds = of_all(seconds_since(start));
    const auto space = std::filesystem::space(options_.folder);
    ::close(file);
    std::filesystem::remove(path);
    WEFT_CHECK_USER(
        is_written, "cannot write ", kBytes, " bytes into ", options_.folder);
    return {
        "disk",
        std::max<int64_t>(
            1, static_cast<int64_t>(space.available) / rendezvous_.size),
        {.latency_seconds = 1e-4,
         .bytes_per_second =
             rounded(static_cast<double>(kBytes) / std::max(seconds, 1e-12))}};
  }

  // Each kind of transfer among all ranks, small and large. A link has one
  // latency and one rate: the medians over the kinds.
  Link links() {
    std::vector<double> latencies;
    std::vector<double> rates;
    constexpr int64_t kSmall = 64;
    const auto ranks = static_cast<double>(rendezvous_.size);
    int done = 0;
    const auto take = [&](double messages, double share, const auto& transfer) {
      say("transfers", 0.85 + 0.03 * done++);
      const double small =
          call_time([&] { transfer(kSmall * rendezvous_.size); });
      latencies.push_back(small / messages);
      for (const int64_t count : {int64_t{1} << 17, int64_t{1} << 20}) {
        const int64_t elements = count / rendezvous_.size * rendezvous_.size;
        const double seconds = call_time([&] { transfer(elements); }) - small;
        rates.push_back(
            share * 4 * static_cast<double>(elements) /
            std::max(seconds, 1e-12));
      }
    };
    const at::Tensor whole = at::ones({1 << 20});
    at::Tensor piece = at::ones({1 << 20});
    const double others = (ranks - 1) / ranks;
    take(2 * (ranks - 1), 2 * others, [&](int64_t count) {
      all_->all_reduce(whole.narrow(0, 0, count).fill_(0))->wait();
    });
    take(ranks - 1, others, [&](int64_t count) {
      all_->all_gather(
              {whole.narrow(0, 0, count)},
              {piece.narrow(0, 0, count / rendezvous_.size)})
          ->wait();
    });
    take(ranks - 1, others, [&](int64_t count) {
      all_->reduce_scatter(
              {piece.narrow(0, 0, count / rendezvous_.size)},
              {whole.narrow(0, 0, count)})
          ->wait();
    });
    take(ranks - 1, others, [&](int64_t count) {
      all_->all_to_all(piece.narrow(0, 0, count), whole.narrow(0, 0, count))
          ->wait();
    });
    return {
        .latency_seconds = rounded(median(latencies)),
        .bytes_per_second = rounded(median(rates))};
  }

  const Rendezvous rendezvous_;
  const MeasureOptions options_;
  const MeasureProgress progress_;
  std::unique_ptr<World> world_;
  std::unique_ptr<Communicator> all_;
};

}  // namespace

std::optional<Cluster> measure_cluster(
    const Rendezvous& rendezvous,
    const MeasureOptions& options,
    const MeasureProgress& progress) {
  at::set_num_threads(options.threads);
  return Measurement(rendezvous, options, progress).run();
}

}  // namespace weft
