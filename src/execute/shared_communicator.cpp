// SPDX-License-Identifier: Apache-2.0
#include "execute/shared_communicator.h"

#include "base/error.h"
#include "execute/shared_group.h"

#include <array>
#include <atomic>
#include <condition_variable>
#include <deque>
#include <iterator>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>

namespace weft {
namespace {

using Clock = std::chrono::steady_clock;

struct Job {
  std::function<void(SharedGroup&)> work;
  bool is_done = false;
  Clock::time_point end;
  // Why it was not done.
  std::string error;
};

// The thread and what it has to do.
class Worker {
 public:
  explicit Worker(SharedGroup& group)
      : group_(group), thread_([this] { run(); }) {}

  ~Worker() {
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      is_ending_ = true;
    }
    group_.abandon();
    changed_.notify_all();
    thread_.join();
  }
  Worker(const Worker&) = delete;
  Worker& operator=(const Worker&) = delete;

  void add(const std::shared_ptr<Job>& job) {
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      jobs_.push_back(job);
    }
    changed_.notify_all();
  }

  bool wait(const Job& job, std::chrono::milliseconds limit) {
    std::unique_lock<std::mutex> lock(mutex_);
    return changed_.wait_for(lock, limit, [&] { return job.is_done; });
  }

  // Returns when the thread has let go of the job's tensors.
  void abandon(const Job& job) {
    group_.abandon();
    std::unique_lock<std::mutex> lock(mutex_);
    changed_.wait(lock, [&] { return job.is_done; });
  }

  std::vector<int64_t> missing() const { return group_.missing(); }

 private:
  void run() {
    std::unique_lock<std::mutex> lock(mutex_);
    while (true) {
      changed_.wait(lock, [&] { return is_ending_ || !jobs_.empty(); });
      if (jobs_.empty()) {
        return;
      }
      const std::shared_ptr<Job> job = std::move(jobs_.front());
      jobs_.pop_front();
      lock.unlock();
      std::string error;
      try {
        job->work(group_);
      } catch (const std::exception& thrown) {
        error = thrown.what();
        // The group has lost count.
        group_.abandon();
      }
      lock.lock();
      job->error = std::move(error);
      job->end = Clock::now();
      job->is_done = true;
      changed_.notify_all();
    }
  }

  SharedGroup& group_;
  std::mutex mutex_;
  std::condition_variable changed_;
  bool is_ending_ = false;
  std::deque<std::shared_ptr<Job>> jobs_;
  std::thread thread_;
};

class SharedPending : public Pending {
 public:
  // Holds the tensors until the job is done.
  SharedPending(
      Worker& worker,
      Watch& watch,
      std::vector<at::Tensor> tensors,
      std::function<void(SharedGroup&)> work)
      : worker_(worker),
        watch_(watch),
        tensors_(std::move(tensors)),
        job_(std::make_shared<Job>()) {
    job_->work = std::move(work);
    worker_.add(job_);
  }

  ~SharedPending() override {
    if (!has_waited_) {
      worker_.abandon(*job_);
    }
  }
  SharedPending(const SharedPending&) = delete;
  SharedPending& operator=(const SharedPending&) = delete;

  Clock::time_point wait() override {
    try {
      watch_.wait(
          [this](std::chrono::milliseconds limit) {
            return worker_.wait(*job_, limit);
          },
          [this] { return worker_.missing(); });
    } catch (const UserError&) {
      worker_.abandon(*job_);
      has_waited_ = true;
      throw;
    }
    has_waited_ = true;
    if (!job_->error.empty()) {
      watch_.fail(job_->error);
    }
    return job_->end;
  }

 private:
  Worker& worker_;
  Watch& watch_;
  std::vector<at::Tensor> tensors_;
  std::shared_ptr<Job> job_;
  bool has_waited_ = false;
};

// A group with its thread.
struct Lane {
  Lane(
      std::byte* memory,
      const std::vector<SharedGroup::Member>& members,
      size_t here,
      Watch& watch,
      bool may_read)
      : group(
            memory,
            members,
            here,
            may_read,
            [&watch](int64_t rank) { return watch.is_gone(rank); }),
        worker(group) {}

  SharedGroup group;
  Worker worker;
};

class SharedCommunicator : public Communicator {
 public:
  SharedCommunicator(
      SharedSegment segment,
      std::vector<SharedGroup::Member> members,
      size_t here,
      Watch& watch,
      bool may_read)
      : segment_(std::move(segment)),
        members_(std::move(members)),
        here_(here),
        watch_(watch),
        may_read_(may_read),
        lanes_(lane_count(members_.size())) {
    WEFT_CHECK(segment_.bytes() >= shared_communicator_bytes(members_.size()));
  }

  // The collectives, and for two ranks what the first sends and what the second
  // does.
  static size_t lane_count(size_t ranks) { return ranks == 2 ? 3 : 1; }

  std::unique_ptr<Pending> all_reduce(const at::Tensor& tensor) override {
    check_dense(tensor);
    return start(
        TransferKind::AllReduce,
        {tensor},
        [data = tensor.data_ptr(),
         count = tensor.numel(),
         type = tensor.scalar_type()](SharedGroup& group) {
          group.all_reduce(data, count, type);
        });
  }

  std::unique_ptr<Pending> broadcast(
      const at::Tensor& tensor, int64_t root) override {
    check_dense(tensor);
    size_t member = 0;
    while (member < members_.size() && members_[member].rank != root) {
      ++member;
    }
    WEFT_CHECK(member < members_.size(), "rank ", root, " is not in the group");
    return start(
        std::nullopt,
        {tensor},
        [data = tensor.data_ptr(), bytes = tensor.nbytes(), member](
            SharedGroup& group) { group.broadcast(data, bytes, member); });
  }

  std::unique_ptr<Pending> all_gather(
      at::TensorList wholes, at::TensorList pieces) override {
    return start(
        TransferKind::AllGather,
        both(wholes, pieces),
        [tensors = cut(wholes, pieces)](SharedGroup& group) {
          group.all_gather(tensors);
        });
  }

  std::unique_ptr<Pending> reduce_scatter(
      at::TensorList pieces, at::TensorList wholes) override {
    const c10::ScalarType type = wholes.front().scalar_type();
    for (const at::Tensor& tensor : both(wholes, pieces)) {
      WEFT_CHECK(
          tensor.scalar_type() == type, "reduce_scatter of several types");
    }
    return start(
        TransferKind::ReduceScatter,
        both(wholes, pieces),
        [tensors = cut(wholes, pieces), type](SharedGroup& group) {
          group.reduce_scatter(tensors, type);
        });
  }

  std::unique_ptr<Pending> all_to_all(
      const at::Tensor& to, const at::Tensor& from) override {
    check_dense(to);
    check_dense(from);
    WEFT_CHECK(
        to.nbytes() == from.nbytes() && to.nbytes() % members_.size() == 0,
        "all_to_all into a tensor of another size");
    return start(
        TransferKind::AllToAll,
        {to, from},
        [to = to.data_ptr(),
         from = from.data_ptr(),
         bytes = from.nbytes() / members_.size()](SharedGroup& group) {
          group.all_to_all(to, from, bytes);
        });
  }

  std::unique_ptr<Pending> send(const at::Tensor& tensor) override {
    return pass(TransferKind::Send, tensor, here_);
  }

  std::unique_ptr<Pending> receive(const at::Tensor& tensor) override {
    return pass(TransferKind::Receive, tensor, 1 - here_);
  }

  std::unique_ptr<Pending> barrier() override {
    return start(std::nullopt, {}, [](SharedGroup& group) { group.barrier(); });
  }

  int64_t taken_bytes(TransferKind kind) const override {
    return taken_bytes_[static_cast<size_t>(kind)];
  }

 private:
  static void check_dense(const at::Tensor& tensor) {
    WEFT_CHECK(
        shared_memory_holds(tensor.device().type()),
        "shared memory holds no tensors of ",
        c10::DeviceTypeName(tensor.device().type()));
    WEFT_CHECK(
        tensor.is_non_overlapping_and_dense(),
        "a collective of a tensor with gaps");
  }

  static std::vector<at::Tensor> both(at::TensorList a, at::TensorList b) {
    std::vector<at::Tensor> out = a.vec();
    out.insert(out.end(), b.begin(), b.end());
    return out;
  }

  std::vector<SharedGroup::Pieces> cut(
      at::TensorList wholes, at::TensorList pieces) const {
    WEFT_CHECK(
        wholes.size() == pieces.size() && !wholes.empty(),
        "a collective needs a piece of every tensor");
    std::vector<SharedGroup::Pieces> out;
    for (size_t i = 0; i < wholes.size(); ++i) {
      check_dense(wholes[i]);
      check_dense(pieces[i]);
      WEFT_CHECK(
          wholes[i].nbytes() == pieces[i].nbytes() * members_.size(),
          "a whole that is not as large as all pieces");
      out.push_back(
          {static_cast<std::byte*>(wholes[i].data_ptr()),
           static_cast<std::byte*>(pieces[i].data_ptr()),
           pieces[i].nbytes()});
    }
    return out;
  }

  // From the member `sender` to the other.
  std::unique_ptr<Pending> pass(
      TransferKind kind, const at::Tensor& tensor, size_t sender) {
    WEFT_CHECK(members_.size() == 2, "a send in a group that is not of two");
    check_dense(tensor);
    return start(
        kind,
        {tensor},
        [data = tensor.data_ptr(), bytes = tensor.nbytes(), sender](
            SharedGroup& group) { group.broadcast(data, bytes, sender); },
        1 + sender);
  }

  // Lanes that are not used have no thread.
  Worker& worker(size_t number) {
    std::unique_ptr<Lane>& lane = lanes_[number];
    if (!lane) {
      lane = std::make_unique<Lane>(
          segment_.data() + number * SharedGroup::memory_bytes(members_.size()),
          members_,
          here_,
          watch_,
          may_read_);
    }
    return lane->worker;
  }

  // Without a kind: for ourselves, and not counted.
  std::unique_ptr<Pending> start(
      std::optional<TransferKind> kind,
      std::vector<at::Tensor> tensors,
      std::function<void(SharedGroup&)> work,
      size_t lane = 0) {
    return std::make_unique<SharedPending>(
        worker(lane),
        watch_,
        std::move(tensors),
        [this, kind, work = std::move(work)](SharedGroup& group) {
          const int64_t before = group.taken_bytes();
          work(group);
          if (kind) {
            taken_bytes_[static_cast<size_t>(*kind)] +=
                group.taken_bytes() - before;
          }
        });
  }

  const SharedSegment segment_;
  const std::vector<SharedGroup::Member> members_;
  const size_t here_;
  Watch& watch_;
  const bool may_read_;
  std::array<std::atomic<int64_t>, std::size(kTransferKinds)> taken_bytes_ = {};
  std::vector<std::unique_ptr<Lane>> lanes_;
};

}  // namespace

bool shared_memory_holds(c10::DeviceType device) {
  return device == c10::DeviceType::CPU;
}

size_t shared_communicator_bytes(size_t ranks) {
  return SharedCommunicator::lane_count(ranks) *
         SharedGroup::memory_bytes(ranks);
}

std::unique_ptr<Communicator> make_shared_communicator(
    SharedSegment segment,
    const std::vector<int64_t>& ranks,
    const std::vector<ProcessId>& processes,
    int64_t rank,
    Watch& watch,
    bool may_read) {
  std::vector<SharedGroup::Member> members;
  size_t here = 0;
  for (const int64_t member : ranks) {
    if (member == rank) {
      here = members.size();
    }
    members.push_back({member, processes[static_cast<size_t>(member)].pid});
  }
  return std::make_unique<SharedCommunicator>(
      std::move(segment), std::move(members), here, watch, may_read);
}

}  // namespace weft
