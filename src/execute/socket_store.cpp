// SPDX-License-Identifier: Apache-2.0
#include "execute/socket_store.h"

#include "base/error.h"
#include "base/number.h"

#include <c10/util/Exception.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <sys/socket.h>
#include <thread>
#include <utility>

namespace weft {
namespace {

using Clock = std::chrono::steady_clock;

// Between two looks for a key: soon at first, then less and less often.
constexpr std::chrono::milliseconds kFirstPause{1};
constexpr std::chrono::milliseconds kLongestPause{50};

void pause_longer(std::chrono::milliseconds& pause) {
  std::this_thread::sleep_for(pause);
  pause = std::min(2 * pause, kLongestPause);
}

void expect_in_time(
    Clock::time_point begin,
    std::chrono::milliseconds timeout,
    const std::string& key) {
  TORCH_CHECK_WITH(
      DistStoreError,
      Clock::now() - begin < timeout,
      "not in the store within ",
      std::chrono::duration<double>(timeout).count(),
      " s: ",
      key);
}

std::string as_field(const std::vector<uint8_t>& value) {
  return {value.begin(), value.end()};
}

std::vector<uint8_t> as_value(const std::string& field) {
  return {field.begin(), field.end()};
}

int64_t number_in(const StoreMessage& answer) {
  const auto number = read_integer(answer.fields.at(0));
  WEFT_CHECK_USER(number, "the store has answered without a number");
  return *number;
}

}  // namespace

SocketStore::SocketStore(
    StoreAddress address,
    std::optional<std::string> secret,
    std::chrono::milliseconds timeout)
    : Store(timeout), address_(std::move(address)), secret_(std::move(secret)) {
  const Clock::time_point begin = Clock::now();
  std::chrono::milliseconds pause = kFirstPause;
  while (true) {
    socket_ = connect_to(address_);
    if (socket_.is_open()) {
      break;
    }
    const int reason = errno;
    TORCH_CHECK_WITH(
        DistNetworkError,
        Clock::now() - begin < timeout,
        "nobody answered at ",
        print(address_),
        " within ",
        std::chrono::duration<double>(timeout).count(),
        " s: ",
        std::strerror(reason));
    pause_longer(pause);
  }
  if (address_.name.empty()) {
    introduce();
  }
}

void SocketStore::introduce() {
  const auto proof = prove_to_store(receive_text(kGreetingBytes), secret_);
  WEFT_CHECK_USER(
      proof,
      "what listens at ",
      print(address_),
      " is no store of weft: is MASTER_PORT another program's?");
  send_text(proof->text);
  const std::string answer = receive_text(sizeof(Proof));
  WEFT_CHECK_USER(
      answer != refusal(),
      "the store at ",
      print(address_),
      " refused this rank: ",
      secret_ ? cat("its secret is another: give all ranks the same ",
                    kSecretFileVariable)
              : cat("it asks for the run's secret: set ",
                    kSecretFileVariable,
                    " to the file that all ranks have"));
  Proof given;
  std::memcpy(given.data(), answer.data(), given.size());
  WEFT_CHECK_USER(
      secret_ && is_equal(given, proof->expected),
      "what listens at ",
      print(address_),
      " does not know the run's secret: it is not this run's store");
}

c10::intrusive_ptr<c10d::Store> SocketStore::clone() {
  return c10::make_intrusive<SocketStore>(address_, secret_, timeout_);
}

void SocketStore::send_text(std::string_view text) {
  while (!text.empty()) {
    const ssize_t count =
        ::send(socket_.fd(), text.data(), text.size(), MSG_NOSIGNAL);
    if (count < 0 && errno == EINTR) {
      continue;
    }
    TORCH_CHECK_WITH(
        DistNetworkError,
        count > 0,
        "the connection to the store broke: ",
        std::strerror(errno));
    text.remove_prefix(static_cast<size_t>(count));
  }
}

std::string SocketStore::receive_text(size_t bytes) {
  std::string text;
  // Grows as it comes: a length alone asks for no memory.
  constexpr size_t kAtOnceBytes = size_t{1} << 20;
  while (text.size() < bytes) {
    const size_t before = text.size();
    text.resize(std::min(bytes, before + kAtOnceBytes));
    const ssize_t count =
        ::recv(socket_.fd(), text.data() + before, text.size() - before, 0);
    if (count < 0 && errno == EINTR) {
      text.resize(before);
      continue;
    }
    TORCH_CHECK_WITH(
        DistNetworkError,
        count > 0,
        "the connection to the store broke: ",
        count == 0 ? "it was closed" : std::strerror(errno));
    text.resize(before + static_cast<size_t>(count));
  }
  return text;
}

StoreMessage SocketStore::ask(const StoreMessage& question) {
  const std::string text = encode(question);
  const std::lock_guard<std::mutex> lock(mutex_);
  send_text(text);
  StoreMessage answer =
      decode(receive_text(body_bytes(receive_text(kLengthBytes))));
  TORCH_CHECK_WITH(
      DistStoreError,
      answer.word != StoreWord::Fault,
      "the store says: ",
      answer.fields.empty() ? "" : answer.fields.front());
  return answer;
}

StoreMessage SocketStore::ask_until_here(
    const StoreMessage& question, std::chrono::milliseconds timeout) {
  const Clock::time_point begin = Clock::now();
  std::chrono::milliseconds pause = kFirstPause;
  while (true) {
    StoreMessage answer = ask(question);
    if (answer.word == StoreWord::Here &&
        answer.fields.size() == question.fields.size()) {
      return answer;
    }
    expect_in_time(begin, timeout, question.fields.front());
    pause_longer(pause);
  }
}

void SocketStore::set(
    const std::string& key, const std::vector<uint8_t>& value) {
  ask({StoreWord::Set, {key, as_field(value)}});
}

std::vector<uint8_t> SocketStore::compareSet(
    const std::string& key,
    const std::vector<uint8_t>& expected,
    const std::vector<uint8_t>& desired) {
  return as_value(
      ask({StoreWord::CompareSet, {key, as_field(expected), as_field(desired)}})
          .fields.at(0));
}

std::vector<uint8_t> SocketStore::get(const std::string& key) {
  return as_value(
      ask_until_here({StoreWord::Get, {key}}, timeout_).fields.at(0));
}

int64_t SocketStore::add(const std::string& key, int64_t value) {
  return number_in(ask({StoreWord::Add, {key, cat(value)}}));
}

bool SocketStore::deleteKey(const std::string& key) {
  return ask({StoreWord::Delete, {key}}).fields.at(0) == "1";
}

bool SocketStore::check(const std::vector<std::string>& keys) {
  return ask({StoreWord::Check, keys}).fields.at(0) == "1";
}

int64_t SocketStore::getNumKeys() { return number_in(ask({StoreWord::Count})); }

void SocketStore::wait(const std::vector<std::string>& keys) {
  wait(keys, timeout_);
}

void SocketStore::wait(
    const std::vector<std::string>& keys,
    const std::chrono::milliseconds& timeout) {
  const Clock::time_point begin = Clock::now();
  std::chrono::milliseconds pause = kFirstPause;
  while (!check(keys)) {
    expect_in_time(begin, timeout, keys.front());
    pause_longer(pause);
  }
}

void SocketStore::append(
    const std::string& key, const std::vector<uint8_t>& value) {
  ask({StoreWord::Append, {key, as_field(value)}});
}

std::vector<std::vector<uint8_t>> SocketStore::multiGet(
    const std::vector<std::string>& keys) {
  std::vector<std::vector<uint8_t>> values;
  for (const std::string& field :
       ask_until_here({StoreWord::Get, keys}, timeout_).fields) {
    values.push_back(as_value(field));
  }
  return values;
}

void SocketStore::multiSet(
    const std::vector<std::string>& keys,
    const std::vector<std::vector<uint8_t>>& values) {
  StoreMessage question{StoreWord::Set};
  for (size_t i = 0; i < keys.size(); ++i) {
    question.fields.push_back(keys[i]);
    question.fields.push_back(as_field(values.at(i)));
  }
  ask(question);
}

}  // namespace weft
