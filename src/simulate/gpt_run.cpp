// SPDX-License-Identifier: Apache-2.0
#include "simulate/gpt_run.h"

#include "base/error.h"
#include "plan/schedule.h"
#include "program/transfer.h"
#include "simulate/costs.h"
#include "simulate/gpt_calls.h"

#include <algorithm>

namespace weft {
namespace {

// A call of eager PyTorch from Python, with all that the training code does
// between two calls; and how far that host got ahead of its device.
constexpr double kLaunchSeconds = 4.6e-5;
constexpr int64_t kRunAheadCalls = 32;

void append(Calls& calls, const Calls& more) {
  calls.insert(calls.end(), more.begin(), more.end());
}

// From an idle device and host.
double seconds_of(const Calls& calls, const Device& device) {
  HostClock host;
  double now = 0;
  for (const double seconds : calls) {
    now = std::max(now, host.issue(device)) + seconds;
    host.ends_at(device, now);
  }
  return now;
}

// What each stage takes for one micro-batch.
struct StageSeconds {
  double forward = 0;
  double backward = 0;
};

class GptStep {
 public:
  GptStep(const GptRun& run, const Cluster& cluster)
      : run_(run),
        cluster_(cluster),
        calls_(run, cluster),
        device_(cluster.device) {
    device_.launch_seconds = kLaunchSeconds;
    device_.run_ahead_calls = kRunAheadCalls;
  }

  GptSeconds seconds() {
    GptSeconds found;
    const std::vector<StageSeconds> stages = stage_seconds();
    double busy = 0;
    const double compute = pipeline_seconds(stages, busy);
    found.bubble = compute - busy;
    found.ends = ends_;
    found.gradients = gradient_seconds();
    found.optimizer = optimizer_seconds();
    found.step = compute + found.gradients + found.optimizer;
    return found;
  }

 private:
  int64_t micro_batches() const {
    return run_.global_batch / run_.data / run_.micro_batch;
  }
  int64_t stage_count() const {
    return run_.pipeline * run_.stages_per_position;
  }

  std::vector<StageSeconds> stage_seconds() {
    const Calls forward = calls_.layer_forward();
    // Recomputed, then differentiated.
    Calls backward = forward;
    append(backward, calls_.layer_backward());
    const int64_t layers = run_.layers / stage_count();
    std::vector<StageSeconds> all;
    double plain = 0;
    for (int64_t stage = 0; stage < stage_count(); ++stage) {
      const bool is_first = stage == 0;
      const bool is_last = stage + 1 == stage_count();
      if (stage > 1 && !is_last) {
        all.push_back(all.back());
        continue;
      }
      Calls there;
      Calls back;
      append(there, is_first ? calls_.embedding_forward() : Calls{});
      append(back, is_last ? calls_.head_backward() : Calls{});
      for (int64_t i = 0; i < layers; ++i) {
        append(there, forward);
        append(back, backward);
      }
      append(there, is_last ? calls_.head_forward() : Calls{});
      append(back, is_first ? calls_.embedding_backward() : Calls{});
      all.push_back({seconds_of(there, device_), seconds_of(back, device_)});
    }
    for (const Calls& calls : {forward, backward}) {
      Calls of_stage;
      for (int64_t i = 0; i < layers; ++i) {
        append(of_stage, calls);
      }
      plain += seconds_of(of_stage, device_);
    }
    ends_ = static_cast<double>(micro_batches()) *
            std::max(0.0, all.back().forward + all.back().backward - plain);
    return all;
  }

  // From one position to the next.
  double send_seconds() const {
    if (run_.pipeline == 1) {
      return 0;
    }
    return transfer_seconds(
        TransferKind::Send,
        2,
        calls_.stage_bytes(),
        link_between(cluster_, {0, run_.tensor * run_.data}));
  }

  // Every position goes through its order as fast as it can; `busy` is what the
  // last one to end works.
  double pipeline_seconds(
      const std::vector<StageSeconds>& stages, double& busy) const {
    const Schedule schedule = make_schedule(
        run_.stages_per_position > 1 ? "interleaved" : "1f1b",
        {run_.pipeline, stage_count(), micro_batches()});
    const double send = send_seconds();
    const auto parts = static_cast<size_t>(micro_batches());
    // By stage and micro-batch, when forward and backward end; -1: not yet.
    std::vector<std::vector<double>> ends[2];
    for (auto& each : ends) {
      each.assign(stages.size(), std::vector<double>(parts, -1));
    }
    const auto end_of = [&](const Unit& unit) -> double& {
      return ends[unit.kind == UnitKind::Forward ? 0 : 1][static_cast<size_t>(
          unit.stage)][static_cast<size_t>(unit.part)];
    };
    std::vector<size_t> next(schedule.order.size(), 0);
    std::vector<double> now(schedule.order.size(), 0);
    std::vector<double> worked(schedule.order.size(), 0);
    for (bool has_moved = true; has_moved;) {
      has_moved = false;
      for (size_t at = 0; at < next.size(); ++at) {
        while (next[at] < schedule.order[at].size()) {
          const Unit& unit = schedule.order[at][next[at]];
          const double ready = ready_seconds(unit, stages, end_of, send);
          if (ready < 0) {
            break;
          }
          const StageSeconds& stage = stages[static_cast<size_t>(unit.stage)];
          const double takes =
              unit.kind == UnitKind::Forward ? stage.forward : stage.backward;
          now[at] = std::max(now[at], ready) + takes;
          worked[at] += takes;
          end_of(unit) = now[at];
          next[at] += 1;
          has_moved = true;
        }
      }
    }
    const size_t last = static_cast<size_t>(
        std::max_element(now.begin(), now.end()) - now.begin());
    busy = worked[last];
    return now[last];
  }

  // When what the unit reads is there; negative: not yet.
  template <typename EndOf>
  double ready_seconds(
      const Unit& unit,
      const std::vector<StageSeconds>& stages,
      const EndOf& end_of,
      double send) const {
    const bool is_forward = unit.kind == UnitKind::Forward;
    const int64_t from = is_forward ? unit.stage - 1 : unit.stage + 1;
    if (from < 0) {
      return 0;
    }
    if (from == static_cast<int64_t>(stages.size())) {
      return end_of({UnitKind::Forward, unit.stage, unit.part});
    }
    const double end = end_of({unit.kind, from, unit.part});
    return end < 0 ? end : end + send;
  }

  int64_t rank_parameters(bool has_words) const {
    return run_.layers / run_.pipeline * calls_.layer_parameters() +
           (has_words ? calls_.words() * run_.hidden : 0);
  }

  std::vector<int64_t> every(int64_t stride, int64_t count) const {
    std::vector<int64_t> ranks;
    for (int64_t i = 0; i < count; ++i) {
      ranks.push_back(i * stride);
    }
    return ranks;
  }

  double all_reduce_seconds(
      const std::vector<int64_t>& ranks, int64_t bytes) const {
    const auto count = static_cast<int64_t>(ranks.size());
    return transfer_seconds(
        TransferKind::AllReduce,
        count,
        collective_bytes(TransferKind::AllReduce, count, bytes, bytes),
        link_between(cluster_, ranks));
  }

  // All gradients of a rank at once when backward is done, divided by the
  // count; and those of words, which the first and the last stage have.
  double gradient_seconds() const {
    double seconds = 0;
    if (run_.data > 1) {
      const int64_t bytes = kHalfBytes * rank_parameters(true);
      seconds += all_reduce_seconds(every(run_.tensor, run_.data), bytes) +
                 calls_.memory_seconds(2 * bytes);
    }
    if (run_.pipeline > 1) {
      const int64_t last = run_.tensor * run_.data * (run_.pipeline - 1);
      seconds += all_reduce_seconds(
          {0, last}, kHalfBytes * calls_.words() * run_.hidden);
    }
    return seconds;
  }

  // Adam in f32: gradients to f32, then weights, two moments and gradients
  // read, the first three written, and weights to 16 bits.
  double optimizer_seconds() const {
    constexpr int64_t kBytes = (kHalfBytes + kSingleBytes) + 7 * kSingleBytes;
    return calls_.memory_seconds(kBytes * rank_parameters(true));
  }

  const GptRun& run_;
  const Cluster& cluster_;
  const GptCalls calls_;
  // With the host of that time.
  Device device_;
  double ends_ = 0;
};

}  // namespace

GptSeconds gpt_seconds(const GptRun& run, const Cluster& cluster) {
  WEFT_CHECK_USER(
      rank_count(run) <= device_count(cluster),
      "a run on ",
      rank_count(run),
      " devices, and cluster @",
      cluster.name,
      " has ",
      device_count(cluster));
  return GptStep(run, cluster).seconds();
}

}  // namespace weft
