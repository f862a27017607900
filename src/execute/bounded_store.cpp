// SPDX-License-Identifier: Apache-2.0
#include "execute/bounded_store.h"

#include <c10/util/Exception.h>

#include <algorithm>
#include <condition_variable>
#include <deque>
#include <exception>
#include <mutex>
#include <optional>
#include <type_traits>
#include <utility>

namespace weft {

namespace {

using Clock = std::chrono::steady_clock;
using Milliseconds = std::chrono::milliseconds;

// A look that took longer than two of these was none: the process was stopped.
constexpr Milliseconds kStoreLook{100};

}  // namespace

struct BoundedStore::Job {
  std::function<void(c10::intrusive_ptr<c10d::Store>&)> work;
  std::exception_ptr error;
  bool is_done = false;
};

// Outlives the store when a call does not end.
struct BoundedStore::Line {
  std::mutex mutex;
  std::condition_variable changed;
  std::deque<std::shared_ptr<Job>> jobs;
  bool is_busy = false;
  bool is_ending = false;
};

// `call` may run after its caller has given up: it holds copies.
template <typename Call>
auto BoundedStore::ask(Milliseconds limit, Call call) const {
  using Answer = std::invoke_result_t<Call, c10d::Store&>;
  const auto job = std::make_shared<Job>();
  if constexpr (std::is_void_v<Answer>) {
    job->work = [call](c10::intrusive_ptr<c10d::Store>& store) {
      call(*store);
    };
    finish(job, limit);
  } else {
    const auto answer = std::make_shared<std::optional<Answer>>();
    job->work = [call, answer](c10::intrusive_ptr<c10d::Store>& store) {
      *answer = call(*store);
    };
    finish(job, limit);
    return std::move(**answer);
  }
}

BoundedStore::BoundedStore(
    Open open, Milliseconds open_limit, Milliseconds limit, Waiting waiting)
    : limit_(limit),
      waiting_(std::move(waiting)),
      line_(std::make_shared<Line>()) {
  thread_ = std::thread([line = line_] { run(line); });
  const auto job = std::make_shared<Job>();
  job->work = [open = std::move(open)](c10::intrusive_ptr<c10d::Store>& store) {
    store = open();
  };
  try {
    finish(job, open_limit);
    timeout_ = ask(limit_, [](Store& store) { return store.getTimeout(); });
  } catch (...) {
    end();
    throw;
  }
}

BoundedStore::~BoundedStore() { end(); }

void BoundedStore::end() {
  bool is_busy = false;
  {
    const std::lock_guard<std::mutex> lock(line_->mutex);
    line_->is_ending = true;
    is_busy = line_->is_busy;
  }
  line_->changed.notify_all();
  if (is_busy) {
    thread_.detach();
  } else {
    thread_.join();
  }
}

void BoundedStore::run(const std::shared_ptr<Line>& line) {
  c10::intrusive_ptr<c10d::Store> store;
  std::unique_lock<std::mutex> lock(line->mutex);
  while (true) {
    line->changed.wait(
        lock, [&] { return line->is_ending || !line->jobs.empty(); });
    if (line->is_ending) {
      return;
    }
    const std::shared_ptr<Job> job = std::move(line->jobs.front());
    line->jobs.pop_front();
    line->is_busy = true;
    lock.unlock();
    try {
      job->work(store);
    } catch (...) {
      job->error = std::current_exception();
    }
    lock.lock();
    line->is_busy = false;
    job->is_done = true;
    line->changed.notify_all();
  }
}

void BoundedStore::finish(
    const std::shared_ptr<Job>& job, Milliseconds limit) const {
  std::unique_lock<std::mutex> lock(line_->mutex);
  line_->jobs.push_back(job);
  line_->changed.notify_all();
  Clock::duration left = limit;
  while (!job->is_done && left > Clock::duration::zero()) {
    const Clock::time_point begin = Clock::now();
    line_->changed.wait_for(
        lock, std::min<Clock::duration>(left, kStoreLook), [&] {
          return job->is_done;
        });
    left -= std::min<Clock::duration>(Clock::now() - begin, 2 * kStoreLook);
    if (!job->is_done && waiting_) {
      lock.unlock();
      waiting_(std::chrono::duration_cast<Milliseconds>(limit - left));
      lock.lock();
    }
  }
  if (!job->is_done) {
    // One that was not begun is not made later, when nobody expects it.
    std::erase(line_->jobs, job);
    TORCH_CHECK_WITH(
        DistStoreError,
        false,
        "no answer within ",
        std::chrono::duration<double>(limit).count(),
        " s");
  }
  if (job->error) {
    std::rethrow_exception(job->error);
  }
}

c10::intrusive_ptr<c10d::Store> BoundedStore::clone() {
  auto copy =
      ask(limit_ + timeout_, [](Store& store) { return store.clone(); });
  return c10::make_intrusive<BoundedStore>(
      [copy] { return copy; }, limit_, limit_, waiting_);
}

void BoundedStore::set(
    const std::string& key, const std::vector<uint8_t>& value) {
  ask(limit_, [key, value](Store& store) { store.set(key, value); });
}

std::vector<uint8_t> BoundedStore::compareSet(
    const std::string& key,
    const std::vector<uint8_t>& expected,
    const std::vector<uint8_t>& desired) {
  return ask(limit_, [key, expected, desired](Store& store) {
    return store.compareSet(key, expected, desired);
  });
}

std::vector<uint8_t> BoundedStore::get(const std::string& key) {
  return ask(limit_ + timeout_, [key](Store& store) { return store.get(key); });
}

int64_t BoundedStore::add(const std::string& key, int64_t value) {
  return ask(
      limit_, [key, value](Store& store) { return store.add(key, value); });
}

bool BoundedStore::deleteKey(const std::string& key) {
  return ask(limit_, [key](Store& store) { return store.deleteKey(key); });
}

bool BoundedStore::check(const std::vector<std::string>& keys) {
  return ask(limit_, [keys](Store& store) { return store.check(keys); });
}

int64_t BoundedStore::getNumKeys() {
  return ask(limit_, [](Store& store) { return store.getNumKeys(); });
}

void BoundedStore::wait(const std::vector<std::string>& keys) {
  wait(keys, timeout_);
}

void BoundedStore::wait(
    const std::vector<std::string>& keys, const Milliseconds& timeout) {
  ask(limit_ + timeout,
      [keys, timeout](Store& store) { store.wait(keys, timeout); });
}

void BoundedStore::setTimeout(const Milliseconds& timeout) {
  timeout_ = timeout;
  ask(limit_, [timeout](Store& store) { store.setTimeout(timeout); });
}

void BoundedStore::append(
    const std::string& key, const std::vector<uint8_t>& value) {
  ask(limit_, [key, value](Store& store) { store.append(key, value); });
}

std::vector<std::vector<uint8_t>> BoundedStore::multiGet(
    const std::vector<std::string>& keys) {
  return ask(
      limit_ + timeout_, [keys](Store& store) { return store.multiGet(keys); });
}

void BoundedStore::multiSet(
    const std::vector<std::string>& keys,
    const std::vector<std::vector<uint8_t>>& values) {
  ask(limit_, [keys, values](Store& store) { store.multiSet(keys, values); });
}

}  // namespace weft
