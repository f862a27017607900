// SPDX-License-Identifier: Apache-2.0
// All ranks of a run, by the store they meet at (run_store.h).
#include "base/error.h"
#include "base/number.h"
#include "execute/c10d_backends.h"
#include "execute/c10d_communicator.h"
#include "execute/communicator.h"
#include "execute/introduce.h"
#include "execute/open_files.h"
#include "execute/process.h"
#include "execute/run_store.h"
#include "execute/shared_communicator.h"
#include "execute/watch.h"

#include <c10/util/Logging.h>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>

#include <algorithm>
#include <atomic>
#include <csignal>
#include <cstdlib>
#include <limits>
#include <sstream>
#include <type_traits>
#include <utility>

namespace weft {
namespace {

using Store = c10::intrusive_ptr<c10d::Store>;

void put(const Store& store, const std::string& key, const std::string& text) {
  store->set(key, std::vector<uint8_t>(text.begin(), text.end()));
}

std::string take(const Store& store, const std::string& key) {
  const std::vector<uint8_t> bytes = store->get(key);
  return {bytes.begin(), bytes.end()};
}

// c10d warns of a broken connection with a page of stack, in which the one
// message that names the rank at fault would be lost. TORCH_CPP_LOG_LEVEL
// brings it back.
void keep_torch_quiet() {
  constexpr int kErrors = 2;
  if (std::getenv("TORCH_CPP_LOG_LEVEL") == nullptr) {
    FLAGS_caffe2_log_level = std::max(FLAGS_caffe2_log_level, kErrors);
  }
}

// A write to a rank that has gone is an error of that write, which the watch
// explains; the signal would end this process without a word. A handler that
// someone set stays.
void survive_broken_connections() {
  struct sigaction action = {};
  if (::sigaction(SIGPIPE, nullptr, &action) == 0 &&
      action.sa_handler == SIG_DFL) {
    ::signal(SIGPIPE, SIG_IGN);
  }
}

// By WEFT_COMMUNICATION.
enum class Wanted : uint8_t { Shared, Segment, Gloo };

Wanted wanted() {
  const char* word = std::getenv("WEFT_COMMUNICATION");
  if (word == nullptr || std::string(word) == "shared") {
    return Wanted::Shared;
  }
  if (std::string(word) == "segment") {
    return Wanted::Segment;
  }
  WEFT_CHECK_USER(
      std::string(word) == "gloo",
      "WEFT_COMMUNICATION is ",
      quote(word),
      ": it may be \"shared\", \"segment\" or \"gloo\"");
  return Wanted::Gloo;
}

class StoreWorld : public World {
 public:
  explicit StoreWorld(const Rendezvous& rendezvous)
      : rendezvous_(rendezvous),
        wanted_(wanted()),
        run_store_(rendezvous),
        root_(run_store_.open_root(first_limit(rendezvous))),
        store_(behind_prefix(rendezvous, root_)),
        processes_(
            introduce(store_, root_, rendezvous, run_store_.is_kept_here())),
        watch_(
            run_store_.open(std::chrono::seconds(rendezvous.stall_seconds)),
            run_store_.with_keeper(),
            processes_) {}

  std::unique_ptr<Communicator> group(
      const std::vector<int64_t>& ranks, c10::DeviceType device) override {
    WEFT_CHECK(
        std::find(ranks.begin(), ranks.end(), rendezvous_.rank) != ranks.end(),
        "a group without this rank");
    // A name all of them know, though each counts its own groups.
    std::string name = "group";
    for (const int64_t rank : ranks) {
      name += cat(".", rank);
    }
    name += cat("/", groups_[name]++);
    const Store store = c10::make_intrusive<c10d::PrefixStore>(name, store_);
    const bool is_one_machine =
        std::all_of(ranks.begin(), ranks.end(), [&](int64_t rank) {
          return process(rank).machine == process(rendezvous_.rank).machine;
        });
    if (is_one_machine && shared_memory_holds(device)) {
      if (auto shared = shared_group(store, ranks)) {
        return shared;
      }
    }
    return make_c10d_communicator(
        make_backend(device, store, ranks, rendezvous_, watch_),
        ranks,
        rendezvous_.rank,
        watch_);
  }

  std::vector<std::string> gather(const std::string& text) override {
    const std::string prefix = cat("gather", gathers_++, ".");
    tell(store_, cat(prefix, rendezvous_.rank), text);
    std::vector<std::string> texts;
    for (int64_t rank = 0; rendezvous_.rank == 0 && rank < rendezvous_.size;
         ++rank) {
      texts.push_back(wait_for(store_, cat(prefix, rank), {rank}));
      answered([&] { return store_->deleteKey(cat(prefix, rank)); });
    }
    // Rank 0 may keep the store; the others may leave once it has everything.
    const std::string done = cat(prefix, "done");
    if (rendezvous_.rank == 0) {
      tell(store_, done, "1");
    } else {
      wait_for(store_, done, {0});
    }
    return texts;
  }

  std::string tell_all(const std::string& text) override {
    const std::string key = cat("tell", tells_++);
    if (rendezvous_.rank != 0) {
      return wait_for(store_, key, {0});
    }
    tell(store_, key, text);
    return text;
  }

  void watch(std::function<std::string()> doing) override {
    watch_.tell(std::move(doing));
  }

  void name_ranks(std::vector<std::string> names) override {
    watch_.name_ranks(std::move(names));
  }

  std::string rank_name(int64_t rank) const override {
    return watch_.rank_name(rank);
  }

 private:
  const ProcessId& process(int64_t rank) const {
    return processes_[static_cast<size_t>(rank)];
  }

  // When the store breaks or does not answer, the watch tells why.
  template <typename Call>
  std::invoke_result_t<Call&> answered(Call call) {
    try {
      return call();
    } catch (const c10::Error& error) {
      watch_.fail(error.what_without_backtrace());
    }
  }

  void tell(
      const Store& store, const std::string& key, const std::string& text) {
    answered([&] { put(store, key, text); });
  }

  std::string wait_for(
      const Store& store,
      const std::string& key,
      const std::vector<int64_t>& missing) {
    return answered([&] {
      watch_.wait(
          [&](std::chrono::milliseconds limit) {
            return comes(store, key, limit);
          },
          [&] { return missing; });
      return take(store, key);
    });
  }

  // nullptr when one of them cannot or may not; then none of them does. The
  // first rank makes the segment, the others find it by its descriptor.
  std::unique_ptr<Communicator> shared_group(
      const Store& store, const std::vector<int64_t>& ranks) {
    SharedSegment segment;
    const size_t bytes = shared_communicator_bytes(ranks.size());
    bool is_mapped = wanted_ != Wanted::Gloo;
    try {
      if (ranks.front() == rendezvous_.rank) {
        segment = SharedSegment::create(bytes);
        tell(store, "segment", cat(segment.fd()));
      } else {
        const int64_t fd = expect_integer(
            wait_for(store, "segment", {ranks.front()}),
            "what the store holds for a shared segment",
            {-1, std::numeric_limits<int>::max()});
        segment = SharedSegment::open(
            process(ranks.front()).pid, static_cast<int>(fd), bytes);
      }
    } catch (const UserError&) {
      if (watch_.has_failed()) {
        throw;
      }
      is_mapped = false;
      if (ranks.front() == rendezvous_.rank) {
        tell(store, "segment", "-1");
      }
    }
    tell(store, cat("mapped.", rendezvous_.rank), is_mapped ? "1" : "0");
    for (const int64_t rank : ranks) {
      is_mapped =
          wait_for(store, cat("mapped.", rank), {rank}) == "1" && is_mapped;
    }
    if (!is_mapped) {
      return nullptr;
    }
    return make_shared_communicator(
        std::move(segment),
        ranks,
        processes_,
        rendezvous_.rank,
        watch_,
        wanted_ == Wanted::Shared);
  }

  const Rendezvous rendezvous_;
  const Wanted wanted_;
  // Before its connections, so that they are closed before it is.
  const RunStore run_store_;
  const Store root_;
  const Store store_;
  const std::vector<ProcessId> processes_;
  Watch watch_;
  // Names in the store are used once.
  std::map<std::string, int64_t> groups_;
  int64_t gathers_ = 0;
  int64_t tells_ = 0;
};

}  // namespace

std::unique_ptr<World> connect(const Rendezvous& rendezvous) {
  need_open_files(open_files_of_run(rendezvous.size));
  keep_torch_quiet();
  survive_broken_connections();
  // A process may connect several times, one world after the other or side by
  // side: each has keys of its own. All ranks connect in the same order.
  static std::atomic<int64_t> worlds = 0;
  Rendezvous own = rendezvous;
  own.prefix = cat(rendezvous.prefix, "/", worlds++);
  try {
    return std::make_unique<StoreWorld>(own);
  } catch (const c10::DistStoreError&) {
    // It was there: one that never was is another error.
    throw UserError(store_does_not_answer(rendezvous));
  } catch (const c10::Error& error) {
    throw UserError(
        cat(rank_name(rendezvous, rendezvous.rank),
            " did not find the other ranks at ",
            meeting_place(rendezvous),
            ": ",
            error.what_without_backtrace()));
  }
}

}  // namespace weft
