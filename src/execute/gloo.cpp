// SPDX-License-Identifier: Apache-2.0
// c10d's Gloo. The headers of the system's libgloo only lend their names: every
// function called here is one that LibTorch exports.
#include "execute/gloo.h"

#include "base/error.h"

#include <torch/csrc/distributed/c10d/ProcessGroupGloo.hpp>

#include <algorithm>
#include <future>
#include <thread>
#include <utility>

namespace weft {
namespace {

using Clock = std::chrono::steady_clock;
using Group = c10::intrusive_ptr<c10d::ProcessGroupGloo>;

// Gloo's own limit comes after ours, which can name the rank at fault.
constexpr int64_t kMoreSeconds = 60;

std::vector<int64_t> others(const std::vector<int64_t>& ranks, int64_t rank) {
  std::vector<int64_t> out = ranks;
  std::erase(out, rank);
  return out;
}

class GlooPending : public Pending {
 public:
  // `tensors` are kept alive until the work is done.
  GlooPending(
      c10::intrusive_ptr<c10d::Work> work,
      std::vector<at::Tensor> tensors,
      std::vector<int64_t> missing,
      Watch& watch)
      : work_(std::move(work)),
        tensors_(std::move(tensors)),
        missing_(std::move(missing)),
        watch_(watch) {
    auto promise = std::make_shared<std::promise<Clock::time_point>>();
    end_ = promise->get_future();
    work_->getFuture()->addCallback(
        [promise](c10::ivalue::Future&) { promise->set_value(Clock::now()); });
  }

  Clock::time_point wait() override {
    watch_.wait(
        [this](std::chrono::milliseconds limit) {
          return end_.wait_for(limit) == std::future_status::ready;
        },
        [this] { return missing_; });
    try {
      work_->wait();
    } catch (const c10::Error& error) {
      watch_.fail(error.what_without_backtrace());
    } catch (const std::exception& error) {
      watch_.fail(error.what());
    }
    return end_.get();
  }

 private:
  c10::intrusive_ptr<c10d::Work> work_;
  std::vector<at::Tensor> tensors_;
  const std::vector<int64_t> missing_;
  Watch& watch_;
  std::future<Clock::time_point> end_;
};

class GlooCommunicator : public Communicator {
 public:
  GlooCommunicator(
      Group group, std::vector<int64_t> ranks, int64_t rank, Watch& watch)
      : group_(std::move(group)),
        ranks_(std::move(ranks)),
        missing_(others(ranks_, rank)),
        watch_(watch) {}

  ~GlooCommunicator() override {
    if (watch_.has_failed()) {
      // Its end would wait for what never comes.
      static_cast<void>(group_.release());
    }
  }
  GlooCommunicator(const GlooCommunicator&) = delete;
  GlooCommunicator& operator=(const GlooCommunicator&) = delete;

  std::unique_ptr<Pending> all_reduce(const at::Tensor& tensor) override {
    std::vector<at::Tensor> tensors = {flat(tensor)};
    c10d::AllreduceOptions options;
    options.reduceOp = c10d::ReduceOp::SUM;
    return pending(group_->allreduce(tensors, options), tensors);
  }

  std::unique_ptr<Pending> broadcast(
      const at::Tensor& tensor, int64_t root) override {
    const auto found = std::find(ranks_.begin(), ranks_.end(), root);
    WEFT_CHECK(found != ranks_.end(), "rank ", root, " is not in the group");
    std::vector<at::Tensor> tensors = {flat(tensor)};
    c10d::BroadcastOptions options;
    options.rootRank = found - ranks_.begin();
    return pending(group_->broadcast(tensors, options), tensors);
  }

  std::unique_ptr<Pending> all_gather(
      const at::Tensor& whole, const at::Tensor& piece) override {
    at::Tensor to = flat(whole);
    at::Tensor from = flat(piece);
    return pending(
        group_->_allgather_base(to, from, c10d::AllgatherOptions()),
        {to, from});
  }

  std::unique_ptr<Pending> barrier() override {
    return pending(group_->barrier(c10d::BarrierOptions()), {});
  }

 private:
  // In the order of memory, whatever the strides: all ranks have the same.
  static at::Tensor flat(const at::Tensor& tensor) {
    WEFT_CHECK(
        tensor.is_non_overlapping_and_dense(),
        "a collective of a tensor with gaps");
    return tensor.as_strided({tensor.numel()}, {1});
  }

  std::unique_ptr<Pending> pending(
      c10::intrusive_ptr<c10d::Work> work, std::vector<at::Tensor> tensors) {
    return std::make_unique<GlooPending>(
        std::move(work), std::move(tensors), missing_, watch_);
  }

  Group group_;
  const std::vector<int64_t> ranks_;
  const std::vector<int64_t> missing_;
  Watch& watch_;
};

bool is_this_machine(const std::string& host) {
  return host == "localhost" || host.rfind("127.", 0) == 0;
}

// Meeting the others has no way to be given up: it gets a thread, which is left
// behind when someone is gone.
Group meet(
    const c10::intrusive_ptr<c10d::Store>& store,
    const std::vector<int64_t>& ranks,
    const Rendezvous& rendezvous,
    Watch& watch) {
  auto options = c10d::ProcessGroupGloo::Options::create_default(
      std::chrono::seconds(rendezvous.timeout_seconds + kMoreSeconds));
  if (is_this_machine(rendezvous.host)) {
    options->devices = {
        c10d::ProcessGroupGloo::createDeviceForHostname("127.0.0.1")};
  }
  const auto here = std::find(ranks.begin(), ranks.end(), rendezvous.rank);
  auto promise = std::make_shared<std::promise<Group>>();
  std::future<Group> group = promise->get_future();
  std::thread([promise,
               store,
               options,
               member = static_cast<int>(here - ranks.begin()),
               size = static_cast<int>(ranks.size())] {
    try {
      promise->set_value(c10::make_intrusive<c10d::ProcessGroupGloo>(
          store, member, size, options));
    } catch (...) {
      promise->set_exception(std::current_exception());
    }
  }).detach();
  watch.wait(
      [&group](std::chrono::milliseconds limit) {
        return group.wait_for(limit) == std::future_status::ready;
      },
      [&] { return others(ranks, rendezvous.rank); });
  try {
    return group.get();
  } catch (const c10::Error& error) {
    watch.fail(error.what_without_backtrace());
  } catch (const std::exception& error) {
    watch.fail(error.what());
  }
}

}  // namespace

std::unique_ptr<Communicator> make_gloo_communicator(
    c10::intrusive_ptr<c10d::Store> store,
    const std::vector<int64_t>& ranks,
    const Rendezvous& rendezvous,
    Watch& watch) {
  return std::make_unique<GlooCommunicator>(
      meet(store, ranks, rendezvous, watch), ranks, rendezvous.rank, watch);
}

}  // namespace weft
