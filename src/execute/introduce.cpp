// SPDX-License-Identifier: Apache-2.0
#include "execute/introduce.h"

#include "base/error.h"

#include <thread>

namespace weft {
namespace {

using Clock = std::chrono::steady_clock;
using Store = c10::intrusive_ptr<c10d::Store>;

// How long to look again and again for a key before looking less often.
constexpr auto kEagerLook = std::chrono::milliseconds(20);
// How often to ask whether another rank has given up waiting.
constexpr auto kLookForMissing = std::chrono::milliseconds(200);
constexpr const char* kMissingKey = "missing";

std::string store_text(const std::vector<uint8_t>& bytes) {
  return {bytes.begin(), bytes.end()};
}

std::vector<uint8_t> store_bytes(const std::string& text) {
  return {text.begin(), text.end()};
}

class Introductions {
 public:
  Introductions(
      const Store& store,
      const Store& root,
      const Rendezvous& rendezvous,
      bool is_store_here)
      : store_(store),
        root_(root),
        rendezvous_(rendezvous),
        is_store_here_(is_store_here),
        deadline_(
            Clock::now() + std::chrono::seconds(rendezvous.timeout_seconds)) {}

  std::vector<ProcessId> run() {
    store_->set(
        cat("process.", rendezvous_.rank), store_bytes(print(this_process())));
    for (int64_t rank = 0; rank < rendezvous_.size; ++rank) {
      const std::string key = cat("process.", rank);
      while (!comes(store_, key, kLookForMissing)) {
        look_around(rank);
      }
      processes_.push_back(parse_process_id(store_text(store_->get(key))));
    }
    return std::move(processes_);
  }

 private:
  // Throws when the rank that is waited for will not come, or another that has
  // come is gone.
  void look_around(int64_t awaited) const {
    if (store_->check({kMissingKey}) || Clock::now() > deadline_) {
      give_up(
          cat(rank_name(rendezvous_, awaited),
              " did not come to ",
              meeting_place(rendezvous_),
              " within ",
              rendezvous_.timeout_seconds,
              " s: see what it says, or start it"));
    }
    const std::string& ended = rendezvous_.ended_key;
    if (!ended.empty() && root_->check({ended})) {
      give_up(
          cat(store_text(root_->get(ended)),
              " before the ranks of the run had met"));
    }
    const std::string machine = this_process().machine;
    for (size_t rank = 0; rank < processes_.size(); ++rank) {
      if (processes_[rank].machine == machine &&
          process_state(processes_[rank]) == ProcessState::Gone) {
        give_up(
            cat(rank_name(rendezvous_, static_cast<int64_t>(rank)),
                " is gone, and the ranks of the run had not yet met"));
      }
    }
  }

  // All say what the first has said.
  [[noreturn]] void give_up(const std::string& message) const {
    const std::vector<uint8_t> first =
        store_->compareSet(kMissingKey, {}, store_bytes(message));
    if (is_store_here_) {
      // The store ends with this process, and the others are to read it.
      std::this_thread::sleep_for(4 * kLookForMissing);
    }
    throw UserError(store_text(first));
  }

  const Store& store_;
  const Store& root_;
  const Rendezvous& rendezvous_;
  const bool is_store_here_;
  const Clock::time_point deadline_;
  std::vector<ProcessId> processes_;
};

}  // namespace

bool comes(
    const Store& store,
    const std::string& key,
    std::chrono::milliseconds limit) {
  const Clock::time_point begin = Clock::now();
  while (!store->check({key})) {
    const auto waited = Clock::now() - begin;
    if (waited >= limit) {
      return false;
    }
    std::this_thread::sleep_for(
        waited < kEagerLook ? std::chrono::milliseconds(1)
                            : std::chrono::milliseconds(10));
  }
  return true;
}

std::vector<ProcessId> introduce(
    const Store& store,
    const Store& root,
    const Rendezvous& rendezvous,
    bool is_store_here) {
  return Introductions(store, root, rendezvous, is_store_here).run();
}

}  // namespace weft
