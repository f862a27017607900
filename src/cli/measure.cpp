// SPDX-License-Identifier: Apache-2.0
// Rates are those of the sizes that reach most; a smaller size then has its
// share of them, without what any call costs. What a kernel does is counted as
// the simulator counts it (MeasuredCall), so both mean the same by a share.
#include "cli/measure.h"

#include "base/error.h"
#include "base/text.h"
#include "cli/figures.h"
#include "cli/lap_timer.h"
#include "cli/measure_links.h"
#include "cli/measured_call.h"

#include <ATen/Parallel.h>
#include <ATen/core/LegacyTypeDispatch.h>

#include <algorithm>
#include <fcntl.h>
#include <filesystem>
#include <unistd.h>

namespace weft {
namespace {

// One kind of work at several sizes: an operator, and its examples. Several of
// one size are ways to do as much.
struct MeasuredWork {
  Work work = Work::Product;
  std::string_view op;
  std::vector<std::string> examples;
};

std::vector<MeasuredWork> measured_works() {
  MeasuredWork product = {Work::Product, "aten.mm", {}};
  // As in forward and, of both gradients, in backward.
  for (const int n : {16, 32, 64, 128, 256, 512, 1024}) {
    const std::string rows = cat("f32[", n, ", ", n, "]");
    const std::string columns = cat(rows, "{1, ", n, "}");
    product.examples.push_back(cat("(", rows, ", ", columns, ")"));
    product.examples.push_back(cat("(", rows, ", ", rows, ")"));
    product.examples.push_back(cat("(", columns, ", ", rows, ")"));
  }
  MeasuredWork attention = {
      Work::Attention, "aten._scaled_dot_product_flash_attention_for_cpu", {}};
  MeasuredWork attention_backward = {
      Work::AttentionBackward,
      "aten._scaled_dot_product_flash_attention_for_cpu_backward",
      {}};
  for (const int tokens : {16, 32, 64, 128, 256, 512}) {
    const std::string rows = cat("f32[1, 4, ", tokens);
    const std::string heads = cat(rows, ", 64]");
    attention.examples.push_back(
        cat("(", heads, ", ", heads, ", ", heads, ", 0.0, true)"));
    const std::string all = join(std::vector<std::string>(5, heads), ", ");
    attention_backward.examples.push_back(
        cat("(", all, ", ", rows, "], 0.0, true)"));
  }
  MeasuredWork convolution = {Work::Convolution, "aten.convolution", {}};
  MeasuredWork convolution_backward = {
      Work::ConvolutionBackward, "aten.convolution_backward", {}};
  for (const int side : {8, 16, 32}) {
    const std::string image = cat("f32[1, 64, ", side, ", ", side, "]");
    constexpr const char* kWeight = "f32[64, 64, 3, 3], none";
    constexpr const char* kWindow =
        ", [1, 1], [1, 1], [1, 1], false, [0, 0], 1";
    convolution.examples.push_back(
        cat("(", image, ", ", kWeight, kWindow, ")"));
    convolution_backward.examples.push_back(
        cat("(",
            image,
            ", ",
            image,
            ", ",
            kWeight,
            kWindow,
            ", [true, true, false])"));
  }
  MeasuredWork elementwise = {Work::Elementwise, "aten.native_layer_norm", {}};
  MeasuredWork exponential = {Work::Exponential, "aten._softmax", {}};
  MeasuredWork tangent = {Work::Tangent, "aten.tanh", {}};
  for (const int rows : {16, 256, 4096}) {
    const std::string x = cat("f32[", rows, ", 512]");
    elementwise.examples.push_back(
        cat("(", x, ", [512], f32[512], f32[512], 1e-05)"));
    exponential.examples.push_back(cat("(", x, ", 1, false)"));
    tangent.examples.push_back(cat("(", x, ")"));
  }
  MeasuredWork memory = {Work::Memory, "aten.add.Tensor", {}};
  for (int count = 1 << 10; count <= 1 << 24; count *= 2) {
    memory.examples.push_back(cat("(f32[", count, "], f32[", count, "])"));
  }
  return {
      product,
      attention,
      attention_backward,
      convolution,
      convolution_backward,
      elementwise,
      exponential,
      tangent,
      memory};
}

// The size that a curve is read at, and how many of it a call does.
struct Amount {
  double size = 0;
  double parts = 1;
};

Amount amount_of(Work work, const NodeCosts& costs) {
  if (work == Work::Memory) {
    return {static_cast<double>(costs.read_bytes + costs.written_bytes), 1};
  }
  const auto parts = static_cast<double>(costs.parts);
  const auto all = static_cast<double>(
      costs.functions > 0 ? costs.functions : costs.flops - costs.hidden_flops);
  return {all / parts, parts};
}

// One size of something, and how long it took.
struct MeasuredPoint {
  Amount amount;
  double seconds = 0;

  double rate() const {
    return per_second(amount.size * amount.parts, seconds);
  }
};

class Measurement {
 public:
  Measurement(
      const Rendezvous& rendezvous,
      const MeasureOptions& options,
      const MeasureProgress& progress)
      : timer_(rendezvous, options.rounds),
        options_(options),
        progress_(progress) {}

  std::optional<Cluster> run() {
    const at::AutoDispatchBelowADInplaceOrView below_autograd;
    Cluster cluster;
    cluster.name = "measured";
    cluster.device = device();
    cluster.tiers = {host_tier(), disk_tier()};
    cluster.groups =
        measure_links(timer_, [this](const std::string& what, double share) {
          say(what, 0.75 + 0.25 * share);
        });
    say("done", 1);
    if (timer_.rendezvous().rank != 0) {
      return std::nullopt;
    }
    verify(cluster);
    return cluster;
  }

 private:
  void say(const std::string& what, double share) const {
    if (timer_.rendezvous().rank == 0) {
      progress_(what, share);
    }
  }

  Device device() {
    say("calls", 0);
    Device device;
    device.name = "core";
    device.memory_bytes = memory_bytes() / timer_.rendezvous().size;
    again_seconds_ =
        call_point(Work::Memory, "aten.add.Tensor", "(f32[1], f32[1])").seconds;
    device.call_seconds = three_figures(small_call_seconds());
    device.rates = {{DType::F32, 1}};
    const std::vector<MeasuredWork> all = measured_works();
    double done = 0;
    for (const MeasuredWork& kernel : all) {
      std::vector<MeasuredPoint> points;
      for (const std::string& example : kernel.examples) {
        say(cat("kernels: ", name(kernel.work)),
            0.65 *
                (done + static_cast<double>(points.size()) /
                            static_cast<double>(kernel.examples.size())) /
                static_cast<double>(all.size()));
        points.push_back(call_point(kernel.work, kernel.op, example));
      }
      done += 1;
      add_curve(device, kernel.work, by_size(points));
    }
    for (const DType dtype : {DType::F64, DType::BF16}) {
      const std::string matrix = cat(name(dtype), "[256, 256]");
      const MeasuredPoint point = call_point(
          Work::Product, "aten.mm", cat("(", matrix, ", ", matrix, ")"));
      device.rates.push_back({dtype, three_figures(point.rate())});
    }
    return device;
  }

  // Of calls that do next to nothing, each of another operator and all of them
  // after a product, as in a step: their code is not at hand.
  double small_call_seconds() {
    MeasuredCall product("aten.mm", "(f32[64, 64], f32[64, 64])");
    std::vector<std::unique_ptr<MeasuredCall>> calls;
    for (const char* op :
         {"aten.add.Tensor", "aten.mul.Tensor", "aten.div.Tensor"}) {
      calls.push_back(std::make_unique<MeasuredCall>(op, "(f32[8], f32[8])"));
    }
    for (const char* op : {"aten.neg", "aten.exp", "aten.rsqrt"}) {
      calls.push_back(std::make_unique<MeasuredCall>(op, "(f32[8])"));
    }
    const double alone = timer_.seconds([&] { product.run(); });
    const double with = timer_.seconds([&] {
      product.run();
      for (const auto& call : calls) {
        call->run();
      }
    });
    return std::max(0.0, with - alone) / static_cast<double>(calls.size());
  }

  MeasuredPoint call_point(
      Work work, std::string_view op, const std::string& example) {
    MeasuredCall call(op, example);
    return {amount_of(work, call.costs()), timer_.seconds([&] { call.run(); })};
  }

  static int64_t memory_bytes() {
    return static_cast<int64_t>(::sysconf(_SC_PHYS_PAGES)) *
           static_cast<int64_t>(::sysconf(_SC_PAGE_SIZE));
  }

  // Of several points of one size, one that takes as long as they do on
  // average.
  static std::vector<MeasuredPoint> by_size(
      const std::vector<MeasuredPoint>& points) {
    std::vector<MeasuredPoint> out;
    double count = 0;
    for (const MeasuredPoint& point : points) {
      if (out.empty() || out.back().amount.size != point.amount.size) {
        out.push_back({point.amount, 0});
        count = 0;
      }
      count += 1;
      out.back().seconds += (point.seconds - out.back().seconds) / count;
    }
    return out;
  }

  // Products say what the rate is, the largest size what the memory's is.
  void add_curve(Device& device, Work work, std::vector<MeasuredPoint> points) {
    for (MeasuredPoint& point : points) {
      point.seconds =
          std::max(point.seconds - again_seconds_, 0.5 * point.seconds);
    }
    if (work == Work::Product) {
      double best = 0;
      for (const MeasuredPoint& point : points) {
        best = std::max(best, point.rate());
      }
      device.rates.front().flops_per_second = three_figures(best);
    }
    if (work == Work::Memory) {
      device.memory_bytes_per_second = three_figures(points.back().rate());
    }
    const double rate = work == Work::Memory
                            ? device.memory_bytes_per_second
                            : device.rates.front().flops_per_second;
    Efficiency curve = {work, {}};
    for (const MeasuredPoint& point : points) {
      curve.points.emplace_back(
          point.amount.size, three_figures(point.rate() / rate));
    }
    device.efficiencies.push_back(std::move(curve));
  }

  // The host's memory is the device's own: the core copies.
  MemoryTier host_tier() {
    say("host memory", 0.65);
    constexpr int64_t kCount = 16 << 20;
    MeasuredCall call("aten.clone", cat("(f32[", kCount, "])"));
    const double seconds = timer_.seconds([&] { call.run(); });
    return {
        .name = "host",
        .memory_bytes = memory_bytes() / timer_.rendezvous().size,
        .link = {
            .latency_seconds = 0,
            .bytes_per_second = three_figures(per_second(4 * kCount, seconds)),
            .device_share = 1}};
  }

  // Written through to the device, forgotten by the system and read back, by
  // all ranks at a time.
  MemoryTier disk_tier() {
    say("disk", 0.7);
    constexpr size_t kBytes = 32 << 20;
    std::string path = cat(options_.folder, "/weft.measure.XXXXXX");
    std::vector<char> bytes(kBytes, 'w');
    const int file = ::mkostemp(path.data(), O_CLOEXEC);
    WEFT_CHECK_USER(file >= 0, "cannot write ", path, " to measure the disk");
    // Gone when it is closed, whatever happens.
    std::filesystem::remove(path);
    bool is_written = false;
    const double write_seconds = timer_.seconds_once([&] {
      is_written = ::pwrite(file, bytes.data(), kBytes, 0) ==
                       static_cast<ssize_t>(kBytes) &&
                   ::fsync(file) == 0;
    });
    ::posix_fadvise(file, 0, 0, POSIX_FADV_DONTNEED);
    bool is_read = false;
    const double read_seconds = timer_.seconds_once([&] {
      is_read = ::pread(file, bytes.data(), kBytes, 0) ==
                static_cast<ssize_t>(kBytes);
    });
    const auto space = std::filesystem::space(options_.folder);
    ::close(file);
    WEFT_CHECK_USER(
        is_written && is_read,
        "cannot write ",
        kBytes,
        " bytes into ",
        options_.folder,
        " and read them to measure the disk: --disk names another folder");
    const auto rate = [](double seconds) {
      return three_figures(per_second(kBytes, seconds));
    };
    return {
        .name = "disk",
        .memory_bytes = std::max<int64_t>(
            1,
            static_cast<int64_t>(space.available) / timer_.rendezvous().size),
        .link =
            {.latency_seconds = 1e-4, .bytes_per_second = rate(write_seconds)},
        .read_bytes_per_second = rate(read_seconds)};
  }

  LapTimer timer_;
  const MeasureOptions options_;
  const MeasureProgress progress_;
  // What a call costs that is made again and again, as curves are measured.
  double again_seconds_ = 0;
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
