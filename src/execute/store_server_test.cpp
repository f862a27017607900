// SPDX-License-Identifier: Apache-2.0
#include "execute/store_server.h"

#include "base/error.h"
#include "execute/run_store.h"
#include "execute/socket_store.h"

#include <c10/util/Exception.h>

#include <array>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <gtest/gtest.h>
#include <optional>
#include <string>
#include <sys/socket.h>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>
#include <vector>

namespace weft {
namespace {

using namespace std::chrono_literals;

const std::string kGoodSecret = "what the ranks of a run know";

std::vector<uint8_t> bytes_of_text(const std::string& text) {
  return {text.begin(), text.end()};
}

std::string message_of(const std::function<void()>& call) {
  try {
    call();
  } catch (const UserError& error) {
    return error.what();
  }
  return "";
}

// On a port of this machine, as one between hosts is.
class StoreOnAPort : public testing::Test {
 protected:
  StoreOnAPort() {
    Socket listening = listen_at({.host = "127.0.0.1", .port = 0});
    address_ = {.host = "127.0.0.1", .port = port_of(listening)};
    server_.emplace(std::move(listening), kGoodSecret);
  }

  c10::intrusive_ptr<SocketStore> open(std::optional<std::string> secret) {
    return c10::make_intrusive<SocketStore>(address_, std::move(secret), 2s);
  }

  StoreAddress address_;
  std::optional<StoreServer> server_;
};

TEST_F(StoreOnAPort, GivesWhatWasPut) {
  const auto first = open(kGoodSecret);
  const auto second = open(kGoodSecret);
  std::string all;
  for (int byte = 0; byte < 256; ++byte) {
    all += static_cast<char>(byte);
  }
  first->set("key", all);
  EXPECT_EQ(second->get_to_str("key"), all);
  EXPECT_EQ(first->add("count", 3), 3);
  EXPECT_EQ(second->add("count", -1), 2);
  EXPECT_TRUE(second->check({"key", "count"}));
  EXPECT_FALSE(second->check({"key", "other"}));
  EXPECT_EQ(second->compareSet("new", std::string(), "1"), "1");
  EXPECT_EQ(first->compareSet("new", std::string("2"), "3"), "1");
  EXPECT_EQ(first->compareSet("new", std::string("1"), "3"), "3");
  first->append("key", bytes_of_text("!"));
  EXPECT_EQ(second->get_to_str("key"), all + "!");
  first->multiSet({"a", "b"}, {bytes_of_text("1"), bytes_of_text("")});
  EXPECT_EQ(
      second->multiGet({"b", "a"}),
      (std::vector<std::vector<uint8_t>>{{}, bytes_of_text("1")}));
  EXPECT_TRUE(first->deleteKey("a"));
  EXPECT_FALSE(first->deleteKey("a"));
  EXPECT_EQ(second->getNumKeys(), server_->keys()->getNumKeys());
  EXPECT_EQ(server_->keys()->get_to_str("new"), "3");
  EXPECT_THROW(second->add("key", 1), c10::DistStoreError);
}

TEST_F(StoreOnAPort, GivesWhatIsLargerThanASocketHolds) {
  const auto store = open(kGoodSecret);
  const std::string large(20'000'000, 'x');
  store->set("large", large);
  EXPECT_EQ(store->clone()->get_to_str("large"), large);
}

TEST_F(StoreOnAPort, WaitsForAKeyAndGivesUp) {
  const auto store = open(kGoodSecret);
  std::thread other([&] {
    std::this_thread::sleep_for(100ms);
    open(kGoodSecret)->set("late", "here");
  });
  EXPECT_EQ(store->get_to_str("late"), "here");
  other.join();
  EXPECT_THROW(store->wait({"never"}, 50ms), c10::DistStoreError);
}

TEST_F(StoreOnAPort, AnEndIsAnErrorOfEveryCall) {
  const auto store = open(kGoodSecret);
  store->set("key", "1");
  server_.reset();
  EXPECT_THROW(store->check({"key"}), c10::DistNetworkError);
}

TEST_F(StoreOnAPort, APeerWithoutTheSecretIsRefusedAndNamed) {
  testing::internal::CaptureStderr();
  EXPECT_NE(
      message_of([&] {
        open("another secret of 16 or more");
      }).find("refused this rank: its secret is another"),
      std::string::npos);
  EXPECT_NE(
      message_of([&] { open(std::nullopt); })
          .find("refused this rank: it asks for the run's secret: set "
                "WEFT_SECRET_FILE"),
      std::string::npos);
  server_->keys()->set("key", "1");
  EXPECT_EQ(open(kGoodSecret)->get_to_str("key"), "1");
  server_.reset();
  EXPECT_EQ(
      testing::internal::GetCapturedStderr(),
      "weft: refused 127.0.0.1: it does not know the run's secret\n");
}

// What a peer sends before its proof is not taken for questions.
TEST_F(StoreOnAPort, NothingIsReadBeforeTheProof) {
  testing::internal::CaptureStderr();
  const std::string question = encode({StoreWord::Set, {"key", "planted"}});
  for (const std::string& text :
       {question,
        "GET / HTTP/1.1\r\n\r\n" + question,
        std::string(kStoreGreeting) + std::string(64, '\0') + question,
        std::string(1 << 20, '\xff')}) {
    const Socket peer = connect_to(address_);
    ASSERT_TRUE(peer.is_open());
    // It may be closed before all is sent.
    for (size_t sent = 0; sent < text.size();) {
      const ssize_t count = ::send(
          peer.fd(), text.data() + sent, text.size() - sent, MSG_NOSIGNAL);
      if (count <= 0) {
        break;
      }
      sent += static_cast<size_t>(count);
    }
    std::array<char, 4096> answer;
    std::string answers;
    ssize_t count = 0;
    while ((count = ::recv(peer.fd(), answer.data(), answer.size(), 0)) > 0) {
      answers.append(answer.data(), static_cast<size_t>(count));
    }
    // Its greeting and its refusal, or less.
    EXPECT_LE(answers.size(), kGreetingBytes + sizeof(Proof));
  }
  EXPECT_FALSE(open(kGoodSecret)->check({"key"}));
  testing::internal::GetCapturedStderr();
}

// Another program at the port that was expected to be the store.
TEST_F(StoreOnAPort, AStoreWithoutTheSecretIsNotTalkedTo) {
  Socket listening = listen_at({.host = "127.0.0.1", .port = 0});
  const StoreAddress there = {.host = "127.0.0.1", .port = port_of(listening)};
  const StoreServer other(std::move(listening), "another secret of 16 or more");
  testing::internal::CaptureStderr();
  EXPECT_NE(
      message_of([&] { SocketStore(there, kGoodSecret, 2s); }).find("refused"),
      std::string::npos);
  testing::internal::GetCapturedStderr();
}

TEST(StoreProtocol, AProofIsOfOneRoleAndOneChallenge) {
  const Challenge server = draw_challenge();
  const auto proof = prove_to_store(greeting(server), kGoodSecret).value();
  const auto answer = admit(proof.text, server, kGoodSecret);
  ASSERT_TRUE(answer);
  EXPECT_EQ(
      *answer,
      std::string(
          reinterpret_cast<const char*>(proof.expected.data()),
          proof.expected.size()));
  // Recorded, and sent again to a store that has drawn another number.
  EXPECT_FALSE(admit(proof.text, draw_challenge(), kGoodSecret));
  EXPECT_FALSE(admit(proof.text, server, kGoodSecret + "."));
  // The store's own answer, sent back to it.
  std::string reflected = proof.text;
  reflected.replace(reflected.size() - answer->size(), answer->size(), *answer);
  EXPECT_FALSE(admit(reflected, server, kGoodSecret));
  EXPECT_FALSE(prove_to_store("220 mail.example.org ESMTP", kGoodSecret));
}

TEST(StoreProtocol, MessagesReadBackAndOthersAreFaults) {
  const StoreMessage message = {StoreWord::Get, {"", "key", "k\0y"}};
  const std::string text = encode(message);
  EXPECT_EQ(body_bytes(text), text.size() - kLengthBytes);
  const StoreMessage back = decode(std::string_view(text).substr(kLengthBytes));
  EXPECT_EQ(back.word, message.word);
  EXPECT_EQ(back.fields, message.fields);
  EXPECT_THROW(body_bytes(std::string("\xff\xff\xff\xff")), UserError);
  EXPECT_THROW(body_bytes(std::string(4, '\0')), UserError);
  EXPECT_THROW(decode(""), UserError);
  for (size_t cut = 1; cut + 1 < text.size() - kLengthBytes; ++cut) {
    const std::string body = text.substr(kLengthBytes, cut);
    try {
      EXPECT_LT(decode(body).fields.size(), message.fields.size()) << cut;
    } catch (const UserError&) {
      // The other right answer.
    }
  }
}

TEST(StoreOnASocketWithAName, IsOfThisUserAlone) {
  const StoreAddress address = {.name = "weft/test/" + unguessable_name()};
  const StoreServer server(listen_at(address), std::nullopt);
  SocketStore store(address, std::nullopt, 2s);
  store.set("key", std::string("1"));
  EXPECT_EQ(server.keys()->get_to_str("key"), "1");
  if (::geteuid() != 0) {
    GTEST_SKIP() << "only root can become another user";
  }
  testing::internal::CaptureStderr();
  const pid_t child = ::fork();
  if (child == 0) {
    if (::setuid(12'345) != 0) {
      ::_exit(2);
    }
    const Socket peer = connect_to(address);
    std::array<char, 16> answer;
    const std::string question = encode({StoreWord::Get, {"key"}});
    ::send(peer.fd(), question.data(), question.size(), MSG_NOSIGNAL);
    const bool is_closed =
        ::recv(peer.fd(), answer.data(), answer.size(), 0) <= 0;
    ::_exit(is_closed ? 0 : 1);
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  EXPECT_EQ(status, 0);
  EXPECT_EQ(
      testing::internal::GetCapturedStderr(),
      cat("weft: refused process ",
          child,
          " of user 12345: it is not of the user of this run\n"));
}

// A socket that another user has taken before.
TEST(StoreOnASocketWithAName, OfAnotherUserIsNotTalkedTo) {
  if (::geteuid() != 0) {
    GTEST_SKIP() << "only root can become another user";
  }
  const StoreAddress address = {.name = "weft/test/" + unguessable_name()};
  std::array<int, 2> ready = {};
  ASSERT_EQ(::pipe(ready.data()), 0);
  const pid_t child = ::fork();
  if (child == 0) {
    if (::setuid(12'345) != 0) {
      ::_exit(2);
    }
    const Socket taken = listen_at(address);
    (void)!::write(ready[1], "1", 1);
    ::pause();
    ::_exit(0);
  }
  char one = 0;
  ASSERT_EQ(::read(ready[0], &one, 1), 1);
  // Root believes only root; other users themselves and root.
  EXPECT_NE(
      message_of([&] { connect_to(address); }).find("not the user of this run"),
      std::string::npos);
  EXPECT_NE(
      message_of([&] {
        listen_at(address);
      }).find("choose another MASTER_PORT"),
      std::string::npos);
  ::kill(child, SIGKILL);
  ::waitpid(child, nullptr, 0);
  ::close(ready[0]);
  ::close(ready[1]);
}

class Secrets : public testing::Test {
 protected:
  void SetUp() override {
    std::string pattern =
        (std::filesystem::temp_directory_path() / "weft.secret.XXXXXX")
            .string();
    ASSERT_NE(::mkdtemp(pattern.data()), nullptr);
    folder_ = pattern;
    path_ = folder_ + "/secret";
    std::ofstream(path_) << kGoodSecret << "\n";
    std::filesystem::permissions(
        path_,
        std::filesystem::perms::owner_read |
            std::filesystem::perms::owner_write);
  }
  void TearDown() override {
    ::unsetenv(kSecretVariable);
    ::unsetenv(kSecretFileVariable);
    std::filesystem::remove_all(folder_);
  }

  std::string folder_;
  std::string path_;
};

TEST_F(Secrets, ComeFromAFileOrTheEnvironment) {
  EXPECT_FALSE(secret_from_environment());
  ::setenv(kSecretFileVariable, path_.c_str(), 1);
  EXPECT_EQ(secret_from_environment(), kGoodSecret);
  ::setenv(kSecretVariable, kGoodSecret.c_str(), 1);
  EXPECT_NE(
      message_of([] { secret_from_environment(); }).find("keep one"),
      std::string::npos);
  ::unsetenv(kSecretFileVariable);
  EXPECT_EQ(secret_from_environment(), kGoodSecret);
  ::setenv(kSecretVariable, "too short", 1);
  EXPECT_NE(
      message_of([] { secret_from_environment(); }).find("this one has 9"),
      std::string::npos);
}

TEST_F(Secrets, OfAFileThatOthersReadAreNone) {
  ::setenv(kSecretFileVariable, path_.c_str(), 1);
  std::filesystem::permissions(path_, std::filesystem::perms(0644));
  EXPECT_NE(
      message_of([] { secret_from_environment(); }).find("chmod 600"),
      std::string::npos);
  ::setenv(kSecretFileVariable, (path_ + ".no").c_str(), 1);
  EXPECT_NE(
      message_of([] { secret_from_environment(); }).find("No such file"),
      std::string::npos);
}

TEST_F(Secrets, AreNeededBetweenHosts) {
  Rendezvous rendezvous;
  rendezvous.host = "192.0.2.1";
  rendezvous.port = 29'500;
  EXPECT_NE(
      message_of([&] {
        const RunStore store(rendezvous);
      }).find("ranks of several hosts need a secret"),
      std::string::npos);
}

}  // namespace
}  // namespace weft
