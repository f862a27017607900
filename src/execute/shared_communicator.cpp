// SPDX-License-Identifier: Apache-2.0
#include "execute/shared_communicator.h"

#include "base/error.h"
#include "execute/shared_group.h"

#include <condition_variable>
#include <deque>
#include <mutex>
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

class SharedCommunicator : public Communicator {
 public:
  SharedCommunicator(
      SharedSegment segment,
      std::vector<SharedGroup::Member> members,
      size_t here,
      Watch& watch,
      const SharedArenas& arenas)
      : members_(members),
        group_(
            std::move(segment),
            std::move(members),
            here,
            arenas,
            [&watch](int64_t rank) { return watch.is_gone(rank); }),
        watch_(watch),
        worker_(group_) {}

  std::unique_ptr<Pending> all_reduce(const at::Tensor& tensor) override {
    check_dense(tensor);
    return start(
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
        {tensor},
        [data = tensor.data_ptr(), bytes = tensor.nbytes(), member](
            SharedGroup& group) { group.broadcast(data, bytes, member); });
  }

  std::unique_ptr<Pending> all_gather(
      const at::Tensor& whole, const at::Tensor& piece) override {
    check_dense(whole);
    check_dense(piece);
    WEFT_CHECK(
        whole.nbytes() == piece.nbytes() * members_.size(),
        "all_gather into a tensor of another size");
    return start(
        {whole, piece},
        [to = whole.data_ptr(),
         from = piece.data_ptr(),
         bytes = piece.nbytes()](SharedGroup& group) {
          group.all_gather(to, from, bytes);
        });
  }

  std::unique_ptr<Pending> barrier() override {
    return start({}, [](SharedGroup& group) { group.barrier(); });
  }

 private:
  static void check_dense(const at::Tensor& tensor) {
    WEFT_CHECK(
        tensor.device().is_cpu(),
        "shared memory holds tensors of the CPU only");
    WEFT_CHECK(
        tensor.is_non_overlapping_and_dense(),
        "a collective of a tensor with gaps");
  }

  std::unique_ptr<Pending> start(
      std::vector<at::Tensor> tensors, std::function<void(SharedGroup&)> work) {
    return std::make_unique<SharedPending>(
        worker_, watch_, std::move(tensors), std::move(work));
  }

  const std::vector<SharedGroup::Member> members_;
  SharedGroup group_;
  Watch& watch_;
  Worker worker_;
};

}  // namespace

std::unique_ptr<Communicator> make_shared_communicator(
    SharedSegment segment,
    const std::vector<int64_t>& ranks,
    const std::vector<ProcessId>& processes,
    int64_t rank,
    Watch& watch,
    const SharedArenas& arenas) {
  std::vector<SharedGroup::Member> members;
  size_t here = 0;
  for (const int64_t member : ranks) {
    if (member == rank) {
      here = members.size();
    }
    members.push_back({member, processes[static_cast<size_t>(member)].pid});
  }
  return std::make_unique<SharedCommunicator>(
      std::move(segment), std::move(members), here, watch, arenas);
}

}  // namespace weft
