// SPDX-License-Identifier: Apache-2.0
#include "execute/watch.h"

#include "base/error.h"
#include "base/number.h"
#include "base/text.h"
#include "execute/heartbeat.h"

#include <algorithm>
#include <iostream>
#include <sstream>
#include <utility>

namespace weft {
namespace {

using namespace std::chrono_literals;

// How long a broken connection may be older than the news of who is gone.
constexpr auto kNews = 2 * kHeartbeat;
constexpr auto kWatchLook = 200ms;
// A look that took so long was no look: this process was stopped for a while.
constexpr auto kStopped = 2s;
constexpr const char* kVerdict = "verdict";

std::string beat_key(int64_t rank) { return cat("beat.", rank); }

double seconds_since(std::chrono::steady_clock::time_point time) {
  const std::chrono::duration<double> passed =
      std::chrono::steady_clock::now() - time;
  return static_cast<double>(static_cast<int64_t>(passed.count() * 10)) / 10;
}

std::vector<uint8_t> bytes(const std::string& text) {
  return {text.begin(), text.end()};
}

std::string named(const std::string& doing) {
  return doing.empty() ? "something it does not tell" : doing;
}

}  // namespace

Watch::Watch(
    c10::intrusive_ptr<c10d::Store> store,
    const Rendezvous& rendezvous,
    std::vector<ProcessId> processes)
    : rendezvous_(rendezvous),
      processes_(std::move(processes)),
      names_(rendezvous.rank_names),
      state_(std::make_shared<State>()) {
  state_->store = std::move(store);
  state_->rank = rendezvous.rank;
  state_->peers.resize(processes_.size());
  state_->last_round = Clock::now();
  for (Peer& peer : state_->peers) {
    peer.heard = peer.moved = Clock::now();
  }
  thread_ = std::thread([state = state_] { run(state); });
}

Watch::~Watch() {
  {
    const std::lock_guard<std::mutex> lock(state_->mutex);
    state_->is_ending = true;
    state_->doing = nullptr;
  }
  state_->changed.notify_all();
  if (store_answers()) {
    thread_.join();
  } else {
    thread_.detach();
  }
}

void Watch::tell(std::function<std::string()> doing) {
  const std::lock_guard<std::mutex> lock(state_->mutex);
  state_->doing = std::move(doing);
}

void Watch::name_ranks(std::vector<std::string> names) {
  const std::lock_guard<std::mutex> lock(state_->mutex);
  names_ = std::move(names);
}

std::string Watch::rank_name(int64_t rank) const {
  const std::lock_guard<std::mutex> lock(state_->mutex);
  return names_.empty() ? cat("rank ", rank)
                        : names_.at(static_cast<size_t>(rank));
}

void Watch::run(const std::shared_ptr<State>& state) {
  while (true) {
    try {
      publish(*state, false);
      read(*state);
      const std::lock_guard<std::mutex> lock(state->mutex);
      state->last_round = Clock::now();
    } catch (const std::exception&) {
      // Seen by the age of the last round.
    }
    std::unique_lock<std::mutex> lock(state->mutex);
    if (state->changed.wait_for(
            lock, kBeatEvery, [&] { return state->is_ending; })) {
      break;
    }
  }
  try {
    publish(*state, true);
  } catch (const std::exception&) {
    // Nobody is left who could read it.
  }
}

void Watch::publish(State& state, bool has_left) {
  std::string doing;
  {
    const std::lock_guard<std::mutex> lock(state.mutex);
    if (state.doing) {
      doing = state.doing();
    }
    doing = doing.empty() ? state.peers[static_cast<size_t>(state.rank)].doing
                          : doing;
    state.peers[static_cast<size_t>(state.rank)].doing = doing;
  }
  state.store->set(
      beat_key(state.rank),
      bytes(cat(
          state.beat++,
          has_left ? " left " : (state.waits > 0 ? " waits " : " computes "),
          doing)));
}

void Watch::read(State& state) {
  std::vector<std::string> keys;
  std::vector<size_t> ranks;
  for (size_t rank = 0; rank < state.peers.size(); ++rank) {
    const std::string key = beat_key(static_cast<int64_t>(rank));
    if (static_cast<int64_t>(rank) != state.rank &&
        (state.peers[rank].beat >= 0 || state.store->check({key}))) {
      keys.push_back(key);
      ranks.push_back(rank);
    }
  }
  if (keys.empty()) {
    return;
  }
  const auto texts = state.store->multiGet(keys);
  const std::lock_guard<std::mutex> lock(state.mutex);
  for (size_t i = 0; i < texts.size(); ++i) {
    std::istringstream in(std::string(texts[i].begin(), texts[i].end()));
    Peer& peer = state.peers[ranks[i]];
    std::string count;
    std::string how;
    std::string doing;
    in >> count >> how;
    in.get();
    std::getline(in, doing, '\0');
    const int64_t beat = read_integer(count).value_or(0);
    if (beat != peer.beat) {
      peer.heard = Clock::now();
    }
    if (doing != peer.doing) {
      peer.moved = Clock::now();
    }
    peer.beat = beat;
    peer.doing = doing;
    peer.waits = how == "waits";
    peer.has_left = how == "left";
  }
}

std::vector<Watch::Peer> Watch::peers() const {
  const std::lock_guard<std::mutex> lock(state_->mutex);
  return state_->peers;
}

std::string Watch::own_doing() const {
  const std::lock_guard<std::mutex> lock(state_->mutex);
  return state_->doing ? state_->doing() : "";
}

bool Watch::store_answers() const {
  const std::lock_guard<std::mutex> lock(state_->mutex);
  return Clock::now() - state_->last_round < kHeartbeat;
}

bool Watch::is_here(int64_t rank) const {
  return processes_[static_cast<size_t>(rank)].machine ==
         processes_[static_cast<size_t>(rendezvous_.rank)].machine;
}

bool Watch::is_gone(int64_t rank) const {
  return is_here(rank) &&
         process_state(processes_[static_cast<size_t>(rank)]) ==
             ProcessState::Gone;
}

void Watch::forgive() {
  const std::lock_guard<std::mutex> lock(state_->mutex);
  state_->last_round = Clock::now();
  for (Peer& peer : state_->peers) {
    peer.heard = peer.moved = Clock::now();
  }
}

void Watch::raise(const std::string& message) {
  has_failed_ = true;
  std::string first = message;
  if (store_answers()) {
    try {
      const auto found =
          state_->store->compareSet(kVerdict, bytes(""), bytes(message));
      first.assign(found.begin(), found.end());
    } catch (const std::exception&) {
      // What this rank has seen must do.
    }
  }
  throw UserError(first);
}

std::string Watch::gone(const std::vector<int64_t>& missing) {
  std::vector<Peer> known = peers();
  for (int64_t rank = 0; rank < rendezvous_.size; ++rank) {
    if (rank == rendezvous_.rank) {
      continue;
    }
    const auto is_missing =
        std::find(missing.begin(), missing.end(), rank) != missing.end();
    const Peer* peer = &known[static_cast<size_t>(rank)];
    if (is_gone(rank) && !peer->has_left && store_answers()) {
      // It may have said so after the last look.
      try {
        read(*state_);
      } catch (const std::exception&) {
        // Then it is gone.
      }
      known = peers();
      peer = &known[static_cast<size_t>(rank)];
    }
    if (peer->has_left && is_missing) {
      return cat(
          rank_name(rank),
          " has left while others wait for it: its own message tells why "
          "(last doing: ",
          named(peer->doing),
          ")");
    }
    if (is_gone(rank) && !peer->has_left) {
      return cat(
          rank_name(rank),
          " is gone (last seen ",
          seconds_since(peer->heard),
          " s ago, doing ",
          named(peer->doing),
          ")");
    }
  }
  return "";
}

std::string Watch::silent() const {
  if (!store_answers()) {
    return store_does_not_answer(rendezvous_);
  }
  const std::vector<Peer> known = peers();
  for (int64_t rank = 0; rank < rendezvous_.size; ++rank) {
    const Peer& peer = known[static_cast<size_t>(rank)];
    if (rank == rendezvous_.rank || peer.has_left) {
      continue;
    }
    const bool is_stopped =
        is_here(rank) && process_state(processes_[static_cast<size_t>(rank)]) ==
                             ProcessState::Stopped;
    // One that was never heard begins to beat, unless it is stopped: all ranks
    // have met.
    const auto patience =
        peer.beat < 0 && !is_stopped
            ? std::max(
                  kHeartbeat, std::chrono::seconds(rendezvous_.stall_seconds))
            : kHeartbeat;
    if (Clock::now() - peer.heard > patience) {
      return cat(
          rank_name(rank),
          " does not answer: no sign of life for ",
          seconds_since(peer.heard),
          " s",
          is_stopped ? " (its process is stopped)" : "",
          "; last doing: ",
          named(peer.doing));
    }
  }
  return "";
}

int64_t Watch::slowest(const std::vector<int64_t>& missing) const {
  const std::vector<Peer> known = peers();
  const auto computes = [&](int64_t rank) {
    const Peer& peer = known[static_cast<size_t>(rank)];
    return rank != rendezvous_.rank && !peer.waits && !peer.has_left;
  };
  for (const int64_t rank : missing) {
    if (computes(rank)) {
      return rank;
    }
  }
  // Those that are missing here wait for someone else.
  for (int64_t rank = 0; rank < rendezvous_.size; ++rank) {
    if (computes(rank)) {
      return rank;
    }
  }
  return -1;
}

std::string Watch::slow(int64_t rank, double waited_seconds) const {
  if (rank < 0) {
    return cat(
        "all ranks have been waiting for each other for ",
        waited_seconds,
        " s, this one in ",
        named(own_doing()),
        ": the transfer is slow, or the ranks run programs that do not fit "
        "together");
  }
  return cat(
      rank_name(rank),
      " is slow: it is still in ",
      named(peers()[static_cast<size_t>(rank)].doing),
      ", the others wait in ",
      named(own_doing()),
      " since ",
      waited_seconds,
      " s");
}

void Watch::warn(const std::string& text) const {
  // One rank speaks for those that wait, as far as it is heard.
  const std::vector<Peer> known = peers();
  bool is_first = true;
  for (int64_t other = 0; other < rendezvous_.rank; ++other) {
    const Peer& peer = known[static_cast<size_t>(other)];
    is_first =
        is_first && !(peer.waits && Clock::now() - peer.heard < kHeartbeat);
  }
  if (is_first) {
    std::cerr << cat("weft: warning: ", text, "\n") << std::flush;
  }
}

void Watch::wait(
    const std::function<bool(std::chrono::milliseconds)>& done,
    const std::function<std::vector<int64_t>()>& missing) {
  struct Waits {
    explicit Waits(std::atomic<int>& waits) : count(waits) { ++count; }
    ~Waits() { --count; }
    std::atomic<int>& count;
  } const counted(state_->waits);
  Clock::time_point begin = Clock::now();
  Clock::time_point looked = begin;
  const auto stall = std::chrono::seconds(rendezvous_.stall_seconds);
  const auto timeout = std::chrono::seconds(rendezvous_.timeout_seconds);
  bool has_warned = false;
  bool has_named = false;
  while (!done(kWatchLook)) {
    const auto look = Clock::now() - looked;
    looked = Clock::now();
    if (look > kStopped) {
      begin += look;
      forgive();
    }
    std::string message = gone(missing());
    const auto waited = Clock::now() - begin;
    if (message.empty() && waited > kHeartbeat) {
      const std::string who = silent();
      if (waited > stall) {
        message = who;
      } else if (!who.empty() && !has_named) {
        has_named = true;
        warn(cat(who, ". The others wait for at most ", stall.count(), " s"));
      }
    }
    if (message.empty() && waited > stall) {
      const int64_t rank = slowest(missing());
      const std::vector<Peer> known = peers();
      const Peer* peer = rank < 0 ? nullptr : &known[static_cast<size_t>(rank)];
      const bool stands_still = peer != nullptr && !peer->doing.empty() &&
                                Clock::now() - peer->moved > stall;
      const std::string text = slow(rank, seconds_since(begin));
      if (stands_still || waited > timeout) {
        message = text;
      } else if (!has_warned) {
        has_warned = true;
        warn(text);
      }
    }
    // What was waited for may have come before the other one left.
    if (!message.empty() && !done(0ms)) {
      raise(message);
    }
  }
}

void Watch::fail(const std::string& reason) {
  std::vector<int64_t> all;
  for (int64_t rank = 0; rank < rendezvous_.size; ++rank) {
    all.push_back(rank);
  }
  const Clock::time_point begin = Clock::now();
  std::string message;
  while (message.empty() && Clock::now() - begin < kNews) {
    message = gone(all);
    if (message.empty()) {
      message = silent();
    }
    if (message.empty()) {
      std::this_thread::sleep_for(kWatchLook);
    }
  }
  raise(message.empty() ? cat("the ranks lost each other: ", reason) : message);
}

}  // namespace weft
