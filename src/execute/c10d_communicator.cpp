// SPDX-License-Identifier: Apache-2.0
#include "execute/c10d_communicator.h"

#include "base/error.h"
#include "execute/shared_sum.h"
#include "program/transfer.h"

#include <ATen/ops/cat.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/view_as_real.h>

#include <algorithm>
#include <array>
#include <functional>
#include <future>
#include <iterator>
#include <thread>
#include <utility>

namespace weft {
namespace {

using Clock = std::chrono::steady_clock;
using Work = c10::intrusive_ptr<c10d::Work>;

std::vector<int64_t> others(const std::vector<int64_t>& ranks, int64_t rank) {
  std::vector<int64_t> out = ranks;
  std::erase(out, rank);
  return out;
}

// The time at which the work ends, or why it does not.
std::future<Clock::time_point> end_of(const Work& work, bool tells) {
  auto promise = std::make_shared<std::promise<Clock::time_point>>();
  std::future<Clock::time_point> end = promise->get_future();
  if (tells) {
    work->getFuture()->addCallback([promise](c10::ivalue::Future& future) {
      if (future.hasError()) {
        promise->set_exception(future.exception_ptr());
      } else {
        promise->set_value(Clock::now());
      }
    });
    return end;
  }
  // A wait cannot be given up: the thread is left behind when a rank is gone.
  std::thread([promise, work] {
    try {
      work->wait();
      promise->set_value(Clock::now());
    } catch (...) {
      promise->set_exception(std::current_exception());
    }
  }).detach();
  return end;
}

class C10dPending : public Pending {
 public:
  // `tensors` are kept alive until the work is done, and `after` it comes what
  // is left to do here.
  C10dPending(
      Work work,
      bool tells,
      std::vector<at::Tensor> tensors,
      std::function<void()> after,
      std::vector<int64_t> missing,
      Watch& watch)
      : work_(std::move(work)),
        tells_(tells),
        tensors_(std::move(tensors)),
        after_(std::move(after)),
        missing_(std::move(missing)),
        watch_(watch),
        end_(end_of(work_, tells)) {}

  Clock::time_point wait() override {
    watch_.wait(
        [this](std::chrono::milliseconds limit) {
          return end_.wait_for(limit) == std::future_status::ready;
        },
        [this] { return missing_; });
    try {
      const Clock::time_point end = end_.get();
      if (tells_) {
        // Lets what the caller does next see the result, on any device.
        work_->wait();
      }
      if (!after_) {
        return end;
      }
    } catch (const c10::Error& error) {
      watch_.fail(error.what_without_backtrace());
    } catch (const std::exception& error) {
      watch_.fail(error.what());
    }
    after_();
    return Clock::now();
  }

 private:
  Work work_;
  const bool tells_;
  std::vector<at::Tensor> tensors_;
  const std::function<void()> after_;
  const std::vector<int64_t> missing_;
  Watch& watch_;
  std::future<Clock::time_point> end_;
};

// Nothing to move.
class NothingPending : public Pending {
 public:
  Clock::time_point wait() override { return Clock::now(); }
};

class C10dCommunicator : public Communicator {
 public:
  C10dCommunicator(
      C10dBackend backend,
      std::vector<int64_t> ranks,
      int64_t rank,
      Watch& watch)
      : backend_(std::move(backend)),
        ranks_(std::move(ranks)),
        missing_(others(ranks_, rank)),
        watch_(watch) {}

  ~C10dCommunicator() override {
    if (watch_.has_failed()) {
      // Its end would wait for what never comes.
      static_cast<void>(backend_.backend.release());
    }
  }
  C10dCommunicator(const C10dCommunicator&) = delete;
  C10dCommunicator& operator=(const C10dCommunicator&) = delete;

  std::unique_ptr<Pending> all_reduce(const at::Tensor& tensor) override {
    std::vector<at::Tensor> tensors = {terms_of(tensor)};
    c10d::AllreduceOptions options;
    options.reduceOp = c10d::ReduceOp::SUM;
    count(TransferKind::AllReduce, tensor, tensor);
    return pending(
        begin([&](c10d::Backend& group) {
          return group.allreduce(tensors, options);
        }),
        tensors);
  }

  std::unique_ptr<Pending> broadcast(
      const at::Tensor& tensor, int64_t root) override {
    const auto found = std::find(ranks_.begin(), ranks_.end(), root);
    WEFT_CHECK(found != ranks_.end(), "rank ", root, " is not in the group");
    std::vector<at::Tensor> tensors = {bytes_of(tensor)};
    c10d::BroadcastOptions options;
    options.rootRank = found - ranks_.begin();
    return pending(
        begin([&](c10d::Backend& group) {
          return group.broadcast(tensors, options);
        }),
        tensors);
  }

  std::unique_ptr<Pending> all_gather(
      at::TensorList wholes, at::TensorList pieces) override {
    check_pieces(wholes, pieces);
    for (size_t i = 0; i < wholes.size(); ++i) {
      count(TransferKind::AllGather, pieces[i], wholes[i]);
    }
    if (wholes.size() == 1) {
      return gather_flat(
          bytes_of(wholes.front()), bytes_of(pieces.front()), nullptr);
    }
    std::vector<at::Tensor> mine;
    for (const at::Tensor& piece : pieces) {
      mine.push_back(bytes_of(piece));
    }
    const at::Tensor from = at::cat(mine);
    const at::Tensor to = at::empty({ranks() * from.numel()}, from.options());
    return gather_flat(to, from, [this, to, all = wholes.vec()] {
      // [rank][tensor] to [tensor][rank].
      int64_t begin = 0;
      const at::Tensor rows = to.view({ranks(), -1});
      for (const at::Tensor& whole : all) {
        const at::Tensor part = bytes_of(whole).view({ranks(), -1});
        part.copy_(rows.narrow(1, begin, part.size(1)));
        begin += part.size(1);
      }
    });
  }

  std::unique_ptr<Pending> reduce_scatter(
      at::TensorList pieces, at::TensorList wholes) override {
    check_pieces(wholes, pieces);
    for (size_t i = 0; i < wholes.size(); ++i) {
      count(TransferKind::ReduceScatter, wholes[i], pieces[i]);
    }
    if (wholes.size() == 1) {
      return scatter_flat(
          terms_of(pieces.front()), terms_of(wholes.front()), nullptr);
    }
    std::vector<at::Tensor> rows;
    for (const at::Tensor& whole : wholes) {
      rows.push_back(terms_of(whole).view({ranks(), -1}));
    }
    // [tensor][rank] to [rank][tensor].
    const at::Tensor from = at::cat(rows, 1).view({-1});
    const at::Tensor to = at::empty({from.numel() / ranks()}, from.options());
    return scatter_flat(to, from, [to, all = pieces.vec()] {
      int64_t begin = 0;
      for (const at::Tensor& piece : all) {
        const at::Tensor terms = terms_of(piece);
        terms.copy_(to.narrow(0, begin, terms.numel()));
        begin += terms.numel();
      }
    });
  }

  std::unique_ptr<Pending> all_to_all(
      const at::Tensor& to, const at::Tensor& from) override {
    WEFT_CHECK(
        to.nbytes() == from.nbytes() && to.nbytes() % ranks_.size() == 0,
        "all_to_all into a tensor of another size");
    count(TransferKind::AllToAll, from, to);
    return exchange(flat(to), flat(from), nullptr);
  }

  std::unique_ptr<Pending> send(const at::Tensor& tensor) override {
    if (tensor.numel() == 0) {
      return std::make_unique<NothingPending>();
    }
    std::vector<at::Tensor> tensors = {bytes_of(tensor)};
    return pending(
        begin([&](c10d::Backend& group) {
          return group.send(tensors, peer(), 0);
        }),
        tensors,
        backend_.tells_of_sends);
  }

  std::unique_ptr<Pending> receive(const at::Tensor& tensor) override {
    if (tensor.numel() == 0) {
      return std::make_unique<NothingPending>();
    }
    std::vector<at::Tensor> tensors = {bytes_of(tensor)};
    taken_bytes_[static_cast<size_t>(TransferKind::Receive)] +=
        static_cast<int64_t>(tensor.nbytes());
    return pending(
        begin([&](c10d::Backend& group) {
          return group.recv(tensors, peer(), 0);
        }),
        tensors,
        backend_.tells_of_sends);
  }

  std::unique_ptr<Pending> barrier() override {
    return pending(
        begin([&](c10d::Backend& group) {
          return group.barrier(c10d::BarrierOptions());
        }),
        {});
  }

  int64_t taken_bytes(TransferKind kind) const override {
    return taken_bytes_[static_cast<size_t>(kind)];
  }

 private:
  // A call can fail at once, when the connection is broken already.
  template <typename Call>
  Work begin(const Call& call) {
    try {
      return call(*backend_.backend);
    } catch (const c10::Error& error) {
      watch_.fail(error.what_without_backtrace());
    } catch (const std::exception& error) {
      watch_.fail(error.what());
    }
  }

  // In the order of memory, whatever the strides: all ranks have the same.
  static at::Tensor flat(const at::Tensor& tensor) {
    WEFT_CHECK(
        tensor.is_non_overlapping_and_dense(),
        "a collective of a tensor with gaps");
    return tensor.as_strided({tensor.numel()}, {1});
  }

  // What is added up: of complex numbers the two parts, for no backend adds
  // others than real ones.
  static at::Tensor terms_of(const at::Tensor& tensor) {
    const at::Tensor line = flat(tensor);
    return line.is_complex() ? at::view_as_real(line).view({-1}) : line;
  }

  // What only moves may have any type, also one that the backend does not know.
  static at::Tensor bytes_of(const at::Tensor& tensor) {
    return flat(tensor).view(at::kByte);
  }

  int64_t ranks() const { return static_cast<int64_t>(ranks_.size()); }

  void check_pieces(at::TensorList wholes, at::TensorList pieces) const {
    WEFT_CHECK(
        wholes.size() == pieces.size() && !wholes.empty(),
        "a collective needs a piece of every tensor");
    for (size_t i = 0; i < wholes.size(); ++i) {
      WEFT_CHECK(
          wholes[i].nbytes() == pieces[i].nbytes() * ranks_.size() &&
              wholes[i].scalar_type() == pieces[i].scalar_type(),
          "a whole that is not as large as all pieces");
    }
  }

  std::unique_ptr<Pending> gather_flat(
      at::Tensor to, at::Tensor from, std::function<void()> after) {
    return pending(
        begin([&](c10d::Backend& group) {
          return group._allgather_base(to, from, c10d::AllgatherOptions());
        }),
        {to, from},
        true,
        std::move(after));
  }

  std::unique_ptr<Pending> scatter_flat(
      at::Tensor to, at::Tensor from, std::function<void()> after) {
    if (backend_.scatters_sums) {
      c10d::ReduceScatterOptions options;
      options.reduceOp = c10d::ReduceOp::SUM;
      return pending(
          begin([&](c10d::Backend& group) {
            return group._reduce_scatter_base(to, from, options);
          }),
          {to, from},
          true,
          std::move(after));
    }
    at::Tensor terms = at::empty_like(from);
    return exchange(
        terms,
        from,
        [terms, to, ranks = ranks_.size(), after = std::move(after)] {
          std::vector<std::byte*> pieces;
          for (size_t member = 0; member < ranks; ++member) {
            pieces.push_back(
                static_cast<std::byte*>(terms.data_ptr()) +
                member * to.nbytes());
          }
          add_up(
              pieces,
              static_cast<std::byte*>(to.data_ptr()),
              static_cast<size_t>(to.numel()),
              to.scalar_type());
          if (after) {
            after();
          }
        });
  }

  int peer() const {
    WEFT_CHECK(ranks_.size() == 2, "a send in a group that is not of two");
    return ranks_.front() == missing_.front() ? 0 : 1;
  }

  void count(
      TransferKind kind, const at::Tensor& operand, const at::Tensor& result) {
    taken_bytes_[static_cast<size_t>(kind)] += collective_bytes(
        kind,
        static_cast<int64_t>(ranks_.size()),
        static_cast<int64_t>(operand.nbytes()),
        static_cast<int64_t>(result.nbytes()));
  }

  std::unique_ptr<Pending> exchange(
      const at::Tensor& to_flat,
      const at::Tensor& from_flat,
      std::function<void()> after) {
    if (from_flat.numel() == 0) {
      return std::make_unique<NothingPending>();
    }
    at::Tensor to = bytes_of(to_flat);
    at::Tensor from = bytes_of(from_flat);
    std::vector<int64_t> equal;
    return pending(
        begin([&](c10d::Backend& group) {
          return group.alltoall_base(
              to, from, equal, equal, c10d::AllToAllOptions());
        }),
        {to, from},
        true,
        std::move(after));
  }

  std::unique_ptr<Pending> pending(
      Work work,
      std::vector<at::Tensor> tensors,
      bool tells = true,
      std::function<void()> after = nullptr) {
    return std::make_unique<C10dPending>(
        std::move(work),
        tells,
        std::move(tensors),
        std::move(after),
        missing_,
        watch_);
  }

  C10dBackend backend_;
  const std::vector<int64_t> ranks_;
  const std::vector<int64_t> missing_;
  Watch& watch_;
  std::array<int64_t, std::size(kTransferKinds)> taken_bytes_ = {};
};

}  // namespace

std::unique_ptr<Communicator> make_c10d_communicator(
    C10dBackend backend,
    const std::vector<int64_t>& ranks,
    int64_t rank,
    Watch& watch) {
  return std::make_unique<C10dCommunicator>(
      std::move(backend), ranks, rank, watch);
}

}  // namespace weft
