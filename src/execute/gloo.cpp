// SPDX-License-Identifier: Apache-2.0
// c10d's Gloo. The headers of the system's libgloo only lend their names: every
// function called here is one that LibTorch exports.
#include "base/error.h"
#include "execute/communicator.h"

#include <torch/csrc/distributed/c10d/PrefixStore.hpp>
#include <torch/csrc/distributed/c10d/ProcessGroupGloo.hpp>
#include <torch/csrc/distributed/c10d/TCPStore.hpp>

#include <algorithm>
#include <future>
#include <utility>

namespace weft {
namespace {

using Clock = std::chrono::steady_clock;

class GlooPending : public Pending {
 public:
  // `tensor` is kept alive until the work is done.
  GlooPending(c10::intrusive_ptr<c10d::Work> work, at::Tensor tensor)
      : work_(std::move(work)),
        tensor_(std::move(tensor)),
        done_(std::make_shared<std::promise<Clock::time_point>>()) {
    work_->getFuture()->addCallback([done = done_](c10::ivalue::Future&) {
      done->set_value(Clock::now());
    });
  }

  Clock::time_point wait() override {
    work_->wait();
    return done_->get_future().get();
  }

 private:
  c10::intrusive_ptr<c10d::Work> work_;
  at::Tensor tensor_;
  std::shared_ptr<std::promise<Clock::time_point>> done_;
};

class GlooCommunicator : public Communicator {
 public:
  explicit GlooCommunicator(c10::intrusive_ptr<c10d::ProcessGroupGloo> group)
      : group_(std::move(group)) {}

  std::unique_ptr<Pending> all_reduce(const at::Tensor& tensor) override {
    WEFT_CHECK(
        tensor.is_non_overlapping_and_dense(),
        "all_reduce of a tensor with gaps");
    // Gloo adds up elements in the order of memory, whatever the strides. All
    // ranks have the same strides.
    at::Tensor flat = tensor.as_strided({tensor.numel()}, {1});
    std::vector<at::Tensor> tensors = {flat};
    c10d::AllreduceOptions options;
    options.reduceOp = c10d::ReduceOp::SUM;
    return std::make_unique<GlooPending>(
        group_->allreduce(tensors, options), std::move(flat));
  }

 private:
  c10::intrusive_ptr<c10d::ProcessGroupGloo> group_;
};

bool is_this_machine(const std::string& host) {
  return host == "localhost" || host.rfind("127.", 0) == 0;
}

class GlooWorld : public World {
 public:
  explicit GlooWorld(const Rendezvous& rendezvous)
      : rendezvous_(rendezvous),
        timeout_(std::chrono::seconds(rendezvous.timeout_seconds)) {
    c10d::TCPStoreOptions options;
    options.port = static_cast<uint16_t>(rendezvous.port);
    options.isServer = rendezvous.rank == 0 && !rendezvous.has_agent;
    options.numWorkers = static_cast<size_t>(rendezvous.size);
    options.timeout = timeout_;
    if (options.isServer && rendezvous.listen_fd >= 0) {
      options.masterListenFd = rendezvous.listen_fd;
    }
    store_ = c10::make_intrusive<c10d::TCPStore>(rendezvous.host, options);
  }

  std::unique_ptr<Communicator> group(
      const std::vector<int64_t>& ranks) override {
    const auto here = std::find(ranks.begin(), ranks.end(), rendezvous_.rank);
    WEFT_CHECK(here != ranks.end(), "a group without this rank");
    std::string prefix = cat("group", groups_++);
    for (const int64_t rank : ranks) {
      prefix += cat(".", rank);
    }
    auto options = c10d::ProcessGroupGloo::Options::create_default(timeout_);
    if (is_this_machine(rendezvous_.host)) {
      options->devices = {
          c10d::ProcessGroupGloo::createDeviceForHostname("127.0.0.1")};
    }
    return std::make_unique<GlooCommunicator>(
        c10::make_intrusive<c10d::ProcessGroupGloo>(
            c10::make_intrusive<c10d::PrefixStore>(prefix, store_),
            static_cast<int>(here - ranks.begin()),
            static_cast<int>(ranks.size()),
            options));
  }

  std::vector<std::string> gather(const std::string& text) override {
    const std::string prefix = cat("gather", gathers_++, ".");
    store_->set(
        cat(prefix, rendezvous_.rank),
        std::vector<uint8_t>(text.begin(), text.end()));
    std::vector<std::string> texts;
    for (int64_t rank = 0; rendezvous_.rank == 0 && rank < rendezvous_.size;
         ++rank) {
      const std::vector<uint8_t> bytes = store_->get(cat(prefix, rank));
      texts.emplace_back(bytes.begin(), bytes.end());
    }
    // Rank 0 keeps the store; the others may leave once it has everything.
    const std::string done = cat(prefix, "done");
    if (rendezvous_.rank == 0) {
      store_->set(done, std::vector<uint8_t>{1});
    } else {
      store_->wait({done});
    }
    return texts;
  }

 private:
  const Rendezvous rendezvous_;
  const std::chrono::milliseconds timeout_;
  c10::intrusive_ptr<c10d::Store> store_;
  // Names in the store are used once.
  int64_t groups_ = 0;
  int64_t gathers_ = 0;
};

}  // namespace

std::unique_ptr<World> connect_gloo(const Rendezvous& rendezvous) {
  try {
    return std::make_unique<GlooWorld>(rendezvous);
  } catch (const c10::Error& error) {
    throw UserError(
        cat("rank ",
            rendezvous.rank,
            " did not find the other ranks at ",
            rendezvous.host,
            ":",
            rendezvous.port,
            ": ",
            error.what_without_backtrace()));
  }
}

}  // namespace weft
