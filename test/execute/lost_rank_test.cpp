// SPDX-License-Identifier: Apache-2.0
// Real processes, really killed. A test starts this program again as ranks that
// run a DISABLED_ test below.
#include "base/error.h"
#include "execute/communicator.h"
#include "execute/launch.h"

#include <ATen/ops/full.h>
#include <ATen/ops/full_like.h>

#include <atomic>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <gtest/gtest.h>
#include <iostream>
#include <numeric>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>
#include <utility>

namespace weft {
namespace {

constexpr int kSaidWhy = 3;

struct Ended {
  int status = 0;
  std::string said;
};

// Three ranks; what happens to the last one in its sixth step is `what`.
Ended run_with(const std::string& what, int64_t grace_seconds = 30) {
  ::setenv("WEFT_TEST_LOSS", what.c_str(), 1);
  ::setenv("WEFT_STALL_SECONDS", "4", 1);
  ::setenv("WEFT_TIMEOUT_SECONDS", "8", 1);
  testing::internal::CaptureStderr();
  StartOptions options;
  options.grace_seconds = grace_seconds;
  Ended ended;
  ended.status = start_ranks(
      3,
      {"--gtest_filter=LosingProgram.DISABLED_Steps",
       "--gtest_also_run_disabled_tests",
       "--gtest_brief=1"},
      options);
  ended.said = testing::internal::GetCapturedStderr();
  ::unsetenv("WEFT_STALL_SECONDS");
  ::unsetenv("WEFT_TIMEOUT_SECONDS");
  return ended;
}

size_t times(const std::string& text, const std::string& part) {
  size_t count = 0;
  for (size_t at = text.find(part); at != std::string::npos;
       at = text.find(part, at + 1)) {
    ++count;
  }
  return count;
}

// What rank `rank` said before it left.
std::string message_of(const Ended& ended, int rank) {
  const std::string mark = cat("\nrank ", rank, " says: ");
  const std::string text = "\n" + ended.said;
  const size_t begin = text.find(mark);
  if (begin == std::string::npos) {
    return "";
  }
  const size_t end = text.find('\n', begin + 1);
  return text.substr(begin + mark.size(), end - begin - mark.size());
}

class LostRank : public testing::TestWithParam<const char*> {
 protected:
  void SetUp() override { ::setenv("WEFT_COMMUNICATION", GetParam(), 1); }
  void TearDown() override { ::unsetenv("WEFT_COMMUNICATION"); }
};

INSTANTIATE_TEST_SUITE_P(
    Both, LostRank, testing::Values("shared", "gloo"), [](const auto& kind) {
      return std::string(kind.param);
    });

TEST_P(LostRank, KilledIsNamedByAll) {
  const Ended ended = run_with("kill");
  EXPECT_EQ(ended.status, 128 + SIGKILL);
  EXPECT_EQ(times(ended.said, "weft: rank 2 was killed by signal 9"), 1)
      << ended.said;
  for (const int rank : {0, 1}) {
    EXPECT_EQ(message_of(ended, rank).find("rank 2 is gone (last seen "), 0)
        << ended.said;
    EXPECT_NE(message_of(ended, rank).find("doing step 5"), std::string::npos);
  }
  EXPECT_EQ(message_of(ended, 0), message_of(ended, 1));
}

TEST_P(LostRank, KilledBeforeTheGroupIsThere) {
  const Ended ended = run_with("kill early");
  EXPECT_EQ(ended.status, 128 + SIGKILL);
  for (const int rank : {0, 1}) {
    EXPECT_EQ(message_of(ended, rank).find("rank 2 is gone"), 0) << ended.said;
  }
}

TEST_P(LostRank, StoppedDoesNotAnswer) {
  const Ended ended = run_with("stop", 1);
  EXPECT_EQ(ended.status, kSaidWhy);
  for (const int rank : {0, 1}) {
    const std::string message = message_of(ended, rank);
    EXPECT_EQ(message.find("rank 2 does not answer: no sign of life for "), 0)
        << ended.said;
    EXPECT_NE(message.find("its process is stopped"), std::string::npos);
    EXPECT_NE(message.find("last doing: step 5"), std::string::npos);
  }
}

TEST_P(LostRank, StandingStillIsSlow) {
  const Ended ended = run_with("stand still", 1);
  EXPECT_EQ(ended.status, kSaidWhy);
  for (const int rank : {0, 1}) {
    EXPECT_EQ(
        message_of(ended, rank)
            .find("rank 2 is slow: it is still in step 5, instruction 1"),
        0)
        << ended.said;
    EXPECT_NE(
        message_of(ended, rank).find("the others wait in step 5, instruction"),
        std::string::npos);
  }
}

TEST_P(LostRank, SlowThatMovesIsWarnedOfAndWaitedFor) {
  const Ended ended = run_with("move 6");
  EXPECT_EQ(ended.status, 0) << ended.said;
  EXPECT_EQ(times(ended.said, "weft: warning: rank 2 is slow"), 1)
      << ended.said;
}

TEST_P(LostRank, SlowThatMovesIsNotWaitedForForEver) {
  const Ended ended = run_with("move 60", 1);
  EXPECT_EQ(ended.status, kSaidWhy);
  for (const int rank : {0, 1}) {
    EXPECT_EQ(message_of(ended, rank).find("rank 2 is slow"), 0) << ended.said;
  }
}

TEST_P(LostRank, OneThatFailsByItselfHasLeft) {
  const Ended ended = run_with("fail");
  EXPECT_EQ(ended.status, kSaidWhy);
  EXPECT_EQ(message_of(ended, 2), "out of luck");
  EXPECT_EQ(message_of(ended, 0).find("rank 2 has left"), 0) << ended.said;
  EXPECT_EQ(message_of(ended, 1).find("rank 2 has left"), 0) << ended.said;
}

// Inside a transfer of each kind, of which this names one.
class LostInTransfer : public LostRank {
 protected:
  void TearDown() override {
    ::unsetenv("WEFT_TEST_TRANSFER");
    LostRank::TearDown();
  }
  static Ended run(
      const char* transfer, const std::string& what, int64_t grace_seconds) {
    ::setenv("WEFT_TEST_TRANSFER", transfer, 1);
    return run_with(what, grace_seconds);
  }
};

INSTANTIATE_TEST_SUITE_P(
    Both,
    LostInTransfer,
    testing::Values("shared", "gloo"),
    [](const auto& kind) { return std::string(kind.param); });

TEST_P(LostInTransfer, KilledIsNamedByAll) {
  for (const char* transfer :
       {"all_gather", "reduce_scatter", "all_to_all", "send", "receive"}) {
    const Ended ended = run(transfer, "kill", 30);
    EXPECT_EQ(ended.status, 128 + SIGKILL);
    for (const int rank : {0, 1}) {
      EXPECT_EQ(message_of(ended, rank).find("rank 2 is gone (last seen "), 0)
          << transfer << "\n"
          << ended.said;
    }
  }
}

TEST_P(LostInTransfer, StoppedDoesNotAnswer) {
  const Ended ended = run("receive", "stop", 1);
  EXPECT_EQ(ended.status, kSaidWhy);
  for (const int rank : {0, 1}) {
    EXPECT_EQ(
        message_of(ended, rank)
            .find("rank 2 does not answer: no sign of life for "),
        0)
        << ended.said;
  }
}

TEST_P(LostInTransfer, StandingStillIsSlow) {
  const Ended ended = run("reduce_scatter", "stand still", 1);
  EXPECT_EQ(ended.status, kSaidWhy);
  for (const int rank : {0, 1}) {
    EXPECT_EQ(
        message_of(ended, rank)
            .find("rank 2 is slow: it is still in step 5, instruction 1"),
        0)
        << ended.said;
  }
}

// The groups of a rank, and one transfer of each kind with the last rank.
class Transfers {
 public:
  Transfers(World& world, const Rendezvous& rendezvous)
      : rank_(rendezvous.rank), size_(rendezvous.size) {
    const char* kind = std::getenv("WEFT_TEST_TRANSFER");
    kind_ = kind == nullptr ? "all_reduce" : kind;
    std::vector<int64_t> ranks(static_cast<size_t>(size_));
    std::iota(ranks.begin(), ranks.end(), 0);
    all_ = world.group(ranks);
    for (int64_t other = 0; is_pairwise() && other + 1 < size_; ++other) {
      if (rank_ == other || rank_ == size_ - 1) {
        pairs_.push_back(world.group({other, size_ - 1}));
      }
    }
  }

  void run() const {
    constexpr int64_t kCount = 100'000;
    const at::Tensor tensor = at::full({size_ * kCount}, 1.0);
    const at::Tensor piece = at::full({kCount}, 1.0);
    if (kind_ == "all_reduce") {
      all_->all_reduce(tensor)->wait();
      ASSERT_EQ(tensor[99'999].item<double>(), static_cast<double>(size_));
    } else if (kind_ == "all_gather") {
      all_->all_gather(tensor, piece)->wait();
    } else if (kind_ == "reduce_scatter") {
      all_->reduce_scatter(piece, tensor)->wait();
      ASSERT_EQ(piece[99'999].item<double>(), static_cast<double>(size_));
    } else if (kind_ == "all_to_all") {
      all_->all_to_all(at::full_like(tensor, 0.0), tensor)->wait();
    }
    // As the last rank does to the others, so they to it the other way round.
    const bool sends = (kind_ == "send") == (rank_ < size_ - 1);
    for (const auto& pair : pairs_) {
      (sends ? pair->send(piece) : pair->receive(piece))->wait();
    }
  }

 private:
  bool is_pairwise() const { return kind_ == "send" || kind_ == "receive"; }

  const int64_t rank_;
  const int64_t size_;
  std::string kind_;
  std::unique_ptr<Communicator> all_;
  std::vector<std::unique_ptr<Communicator>> pairs_;
};

TEST(LosingProgram, DISABLED_Steps) {
  const Rendezvous rendezvous = rendezvous_from_environment().value();
  const std::string what = std::getenv("WEFT_TEST_LOSS");
  const char* lost = std::getenv("WEFT_TEST_LOST_RANK");
  const bool is_lost = rendezvous.rank == (lost == nullptr ? rendezvous.size - 1
                                                           : std::stoll(lost));
  try {
    const auto world = connect(rendezvous);
    // As a write to a rank that has just gone gives; it is no reason to end.
    std::raise(SIGPIPE);
    std::atomic<int64_t> step = 0;
    std::atomic<int64_t> instruction = 0;
    world->watch([&] {
      return cat("step ", step.load(), ", instruction ", instruction.load());
    });
    if (is_lost && what == "kill early") {
      std::raise(SIGKILL);
    } else if (is_lost && what == "stop early") {
      std::raise(SIGSTOP);
    }
    const Transfers transfers(*world, rendezvous);
    for (; step < 10; ++step) {
      instruction = 1;
      if (step == 5) {
        // So that the others hear of it.
        std::this_thread::sleep_for(std::chrono::milliseconds(2500));
      }
      if (is_lost && step == 5) {
        if (what == "kill") {
          std::raise(SIGKILL);
        } else if (what == "stop") {
          std::raise(SIGSTOP);
        } else if (what == "stand still") {
          std::this_thread::sleep_for(std::chrono::seconds(60));
        } else if (what == "fail") {
          throw UserError("out of luck");
        } else if (what.rfind("move ", 0) == 0) {
          for (int i = 0; i < 10 * std::stoi(what.substr(5)); ++i) {
            ++instruction;
            std::this_thread::sleep_for(std::chrono::milliseconds(100));
          }
        }
      }
      if (step == 5 && what == "stop before telling") {
        if (is_lost) {
          std::raise(SIGSTOP);
        }
        world->tell_all("go on");
      }
      instruction = 1000;
      transfers.run();
    }
    // The function it captures ends here.
    world->watch(nullptr);
  } catch (const UserError& error) {
    std::cerr << cat("rank ", rendezvous.rank, " says: ", error.what(), "\n");
    std::exit(kSaidWhy);
  }
}

// Ranks that someone else starts: rank 0 keeps the store.
class StartedByHand : public LostRank {
 protected:
  static Ended run(const std::string& what, const std::string& lost) {
    ::setenv("WEFT_TEST_LOST_RANK", lost.c_str(), 1);
    ::setenv("WEFT_TEST_LOSS", what.c_str(), 1);
    ::setenv("WEFT_STALL_SECONDS", "4", 1);
    ::setenv("WEFT_TIMEOUT_SECONDS", "30", 1);
    ::setenv("MASTER_ADDR", "127.0.0.1", 1);
    ::setenv("MASTER_PORT", cat(20'000 + ::getpid() % 10'000).c_str(), 1);
    ::setenv("WORLD_SIZE", "3", 1);
    testing::internal::CaptureStderr();
    std::vector<pid_t> children;
    for (int rank = 0; rank < 3; ++rank) {
      ::setenv("RANK", cat(rank).c_str(), 1);
      children.push_back(::fork());
      if (children.back() == 0) {
        ::execl(
            "/proc/self/exe",
            "execute_test",
            "--gtest_filter=LosingProgram.DISABLED_Steps",
            "--gtest_also_run_disabled_tests",
            "--gtest_brief=1",
            nullptr);
        ::_exit(127);
      }
    }
    // One that is stopped does not end by itself.
    const auto last = static_cast<size_t>(std::stoi(lost));
    std::swap(children[last], children.back());
    Ended ended;
    for (const pid_t child : children) {
      if (child == children.back() && what.rfind("stop", 0) == 0) {
        ::kill(child, SIGKILL);
      }
      int status = 0;
      ::waitpid(child, &status, 0);
      ended.status += WIFEXITED(status) && WEXITSTATUS(status) == 0 ? 0 : 1;
    }
    ended.said = testing::internal::GetCapturedStderr();
    for (const char* name :
         {"RANK",
          "WORLD_SIZE",
          "MASTER_ADDR",
          "MASTER_PORT",
          "WEFT_STALL_SECONDS",
          "WEFT_TIMEOUT_SECONDS",
          "WEFT_TEST_LOST_RANK"}) {
      ::unsetenv(name);
    }
    return ended;
  }
};

INSTANTIATE_TEST_SUITE_P(
    Both,
    StartedByHand,
    testing::Values("shared", "gloo"),
    [](const auto& kind) { return std::string(kind.param); });

TEST_P(StartedByHand, NothingLost) {
  const Ended ended = run("nothing", "0");
  EXPECT_EQ(ended.status, 0) << ended.said;
}

TEST_P(StartedByHand, TheKeeperOfTheStoreIsKilled) {
  const Ended ended = run("kill", "0");
  EXPECT_EQ(ended.status, 3);
  for (const int rank : {1, 2}) {
    EXPECT_EQ(message_of(ended, rank).find("rank 0 is gone (last seen "), 0)
        << ended.said;
  }
  EXPECT_EQ(ended.said.find("frame #"), std::string::npos) << ended.said;
}

TEST_P(StartedByHand, TheKeeperOfTheStoreIsStopped) {
  for (const char* when : {"stop", "stop early", "stop before telling"}) {
    const Ended ended = run(when, "0");
    EXPECT_EQ(ended.status, 3) << when;
    for (const int rank : {1, 2}) {
      const std::string message = message_of(ended, rank);
      EXPECT_EQ(message.find("the store at 127.0.0.1:"), 0)
          << when << ": " << ended.said;
      EXPECT_NE(
          message.find("does not answer: rank 0, which keeps it, is gone or "
                       "stopped"),
          std::string::npos)
          << when << ": " << ended.said;
    }
  }
}

// A restart of torchrun finds the same store with the old keys in it.
TEST(Restart, TorchrunsSecondStartReadsNoOldKeys) {
  std::filesystem::path torchrun;
  for (auto folder = std::filesystem::read_symlink("/proc/self/exe");
       folder != folder.root_path() && torchrun.empty();
       folder = folder.parent_path()) {
    if (std::filesystem::exists(folder / ".venv/bin/torchrun")) {
      torchrun = folder / ".venv/bin/torchrun";
    }
  }
  if (torchrun.empty()) {
    GTEST_SKIP() << "there is no torchrun";
  }
  const auto note =
      std::filesystem::temp_directory_path() / cat("weft.restart.", ::getpid());
  ::setenv("WEFT_TEST_NOTE", note.c_str(), 1);
  const int status = std::system(
      cat(torchrun.string(),
          " --standalone --nproc-per-node 2 --max-restarts 2 --no-python ",
          std::filesystem::read_symlink("/proc/self/exe").string(),
          " --gtest_filter=LosingProgram.DISABLED_DiesOnce"
          " --gtest_also_run_disabled_tests --gtest_brief=1")
          .c_str());
  ::unsetenv("WEFT_TEST_NOTE");
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;
  std::ifstream file(note);
  std::string starts;
  std::getline(file, starts);
  EXPECT_EQ(starts, "1");
  std::filesystem::remove(note);
}

TEST(LosingProgram, DISABLED_DiesOnce) {
  const Rendezvous rendezvous = rendezvous_from_environment().value();
  const int64_t restart = std::stoi(std::getenv("TORCHELASTIC_RESTART_COUNT"));
  const auto world = connect(rendezvous);
  const auto all = world->group({0, 1});
  const std::vector<std::string> texts = world->gather(cat(restart));
  if (rendezvous.rank == 0) {
    ASSERT_EQ(texts, std::vector<std::string>(2, cat(restart)));
  }
  at::Tensor tensor = at::full({100'000}, static_cast<double>(restart));
  all->all_reduce(tensor)->wait();
  ASSERT_EQ(tensor[0].item<double>(), 2.0 * static_cast<double>(restart));
  if (restart == 0 && rendezvous.rank == 1) {
    std::raise(SIGKILL);
  }
  all->barrier()->wait();
  if (rendezvous.rank == 0) {
    std::ofstream(std::getenv("WEFT_TEST_NOTE")) << restart << "\n";
  }
}

// Signals to the process that started the ranks. In a process of its own, for
// start_ranks wants a main thread and signals are for whole processes.
int start_and_signal(int signals) {
  const std::filesystem::path ready =
      std::filesystem::temp_directory_path() / cat("weft.ready.", ::getpid());
  std::filesystem::create_directories(ready);
  ::setenv("WEFT_TEST_NOTE", ready.c_str(), 1);
  const pid_t child = ::fork();
  if (child == 0) {
    ::execl(
        "/proc/self/exe",
        "execute_test",
        "--gtest_filter=Starter.DISABLED_Starts",
        "--gtest_also_run_disabled_tests",
        "--gtest_brief=1",
        nullptr);
    ::_exit(127);
  }
  while (!std::filesystem::exists(ready / "0") ||
         !std::filesystem::exists(ready / "1")) {
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  }
  for (int i = 0; i < signals; ++i) {
    ::kill(child, SIGTERM);
    std::this_thread::sleep_for(std::chrono::milliseconds(500));
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  std::filesystem::remove_all(ready);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

TEST(Starter, TheFirstSignalIsPassedOn) {
  ::setenv("WEFT_TEST_LOSS", "heed", 1);
  EXPECT_EQ(start_and_signal(1), 7);
}

TEST(Starter, TheSecondSignalKills) {
  ::setenv("WEFT_TEST_LOSS", "ignore", 1);
  EXPECT_EQ(start_and_signal(2), 128 + SIGKILL);
}

TEST(Starter, DISABLED_Starts) {
  std::_Exit(start_ranks(
      2,
      {"--gtest_filter=LosingProgram.DISABLED_Sleeps",
       "--gtest_also_run_disabled_tests",
       "--gtest_brief=1"}));
}

TEST(LosingProgram, DISABLED_Sleeps) {
  const std::string what = std::getenv("WEFT_TEST_LOSS");
  ::signal(SIGTERM, what == "heed" ? [](int) { ::_exit(7); } : SIG_IGN);
  const std::filesystem::path ready = std::getenv("WEFT_TEST_NOTE");
  if (std::filesystem::is_directory(ready)) {
    std::ofstream(ready / std::getenv("RANK")) << "ready";
  }
  std::this_thread::sleep_for(std::chrono::seconds(60));
}

TEST(Starter, RanksDieWithTheStarter) {
  ::setenv("WEFT_TEST_LOSS", "ignore", 1);
  const auto note =
      std::filesystem::temp_directory_path() / cat("weft.pids.", ::getpid());
  ::setenv("WEFT_TEST_NOTE", note.c_str(), 1);
  const pid_t child = ::fork();
  if (child == 0) {
    ::execl(
        "/proc/self/exe",
        "execute_test",
        "--gtest_filter=Starter.DISABLED_StartsOne",
        "--gtest_also_run_disabled_tests",
        "--gtest_brief=1",
        nullptr);
    ::_exit(127);
  }
  pid_t rank = 0;
  for (int i = 0; i < 200 && rank == 0; ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    std::ifstream(note) >> rank;
  }
  ASSERT_GT(rank, 0);
  ASSERT_EQ(::kill(rank, 0), 0);
  ::kill(child, SIGKILL);
  ::waitpid(child, nullptr, 0);
  int left = 0;
  for (int i = 0; i < 100 && left == 0; ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    std::ifstream stat(cat("/proc/", rank, "/stat"));
    std::string text;
    std::getline(stat, text);
    left = text.empty() || text.find(") Z") != std::string::npos ? 1 : 0;
  }
  EXPECT_EQ(left, 1) << "rank " << rank << " still runs";
  std::filesystem::remove(note);
}

TEST(Starter, DISABLED_StartsOne) {
  std::_Exit(start_ranks(
      1,
      {"--gtest_filter=LosingProgram.DISABLED_SaysItsPid",
       "--gtest_also_run_disabled_tests",
       "--gtest_brief=1"}));
}

TEST(LosingProgram, DISABLED_SaysItsPid) {
  std::ofstream(std::getenv("WEFT_TEST_NOTE")) << ::getpid() << "\n";
  std::this_thread::sleep_for(std::chrono::seconds(60));
}

}  // namespace
}  // namespace weft
