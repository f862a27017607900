// SPDX-License-Identifier: Apache-2.0
#include "execute/store_server.h"

#include "base/error.h"
#include "execute/store_protocol.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstring>
#include <fcntl.h>
#include <iostream>
#include <list>
#include <poll.h>
#include <set>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>
#include <utility>
#include <vector>

namespace weft {
namespace {

using Clock = std::chrono::steady_clock;

// A proof is a few bytes: who takes longer is no rank.
constexpr auto kProofLimit = std::chrono::seconds(10);
// Of connections without a proof; the oldest gives way to a new one.
constexpr size_t kMostUnproved = 256;
// Of lines about those that were refused.
constexpr size_t kMostRefusals = 16;
// How long not to accept when there are no descriptors.
constexpr int kNoDescriptorsMilliseconds = 100;
constexpr size_t kReadBytes = size_t{1} << 16;

}  // namespace

class StoreServer::Loop {
 public:
  Loop(
      Socket listening,
      std::optional<std::string> secret,
      c10::intrusive_ptr<c10d::HashStore> keys,
      int ending)
      : listening_(std::move(listening)),
        secret_(std::move(secret)),
        keys_(std::move(keys)),
        ending_(ending) {}

  void run() {
    while (poll_once()) {
      remove_late();
      connections_.remove_if([](const Connection& each) { return each.over; });
    }
  }

 private:
  struct Connection {
    Socket socket;
    std::string in;
    std::string out;
    // Of `out`, which is let go as a whole.
    size_t sent_bytes = 0;
    bool is_proved = false;
    Challenge challenge = {};
    Clock::time_point begin = Clock::now();
    bool over = false;
  };

  // False when it is to end.
  bool poll_once() {
    std::vector<pollfd> waited = {
        {ending_, POLLIN, 0},
        {listening_.fd(), static_cast<short>(may_accept_ ? POLLIN : 0), 0}};
    for (const Connection& each : connections_) {
      const bool has_more = !each.out.empty();
      waited.push_back(
          {each.socket.fd(),
           static_cast<short>(has_more ? POLLIN | POLLOUT : POLLIN),
           0});
    }
    const int count = ::poll(waited.data(), waited.size(), limit());
    if (count < 0) {
      return errno == EINTR;
    }
    if (waited[0].revents != 0) {
      return false;
    }
    auto event = waited.begin() + 2;
    for (Connection& each : connections_) {
      const short what = (event++)->revents;
      if ((what & POLLOUT) != 0) {
        send_some(each);
      }
      if ((what & (POLLIN | POLLHUP | POLLERR)) != 0) {
        receive(each);
      }
    }
    const bool was_full = !std::exchange(may_accept_, true);
    if (waited[1].revents != 0 || was_full) {
      accept_all();
    }
    return true;
  }

  int limit() const {
    if (!may_accept_) {
      return kNoDescriptorsMilliseconds;
    }
    const bool is_unproved = std::any_of(
        connections_.begin(), connections_.end(), [](const Connection& each) {
          return !each.is_proved;
        });
    return is_unproved ? 1000 : -1;
  }

  void accept_all() {
    while (true) {
      Socket socket(::accept4(
          listening_.fd(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
      if (!socket.is_open()) {
        may_accept_ = errno != EMFILE && errno != ENFILE && errno != ENOMEM;
        return;
      }
      begin(std::move(socket));
    }
  }

  void begin(Socket socket) {
    if (!is_own_user(socket)) {
      say_refused(socket, "is not of the user of this run");
      return;
    }
    make_room();
    Connection& each = connections_.emplace_back();
    each.socket = std::move(socket);
    each.is_proved = !secret_;
    if (secret_) {
      each.challenge = draw_challenge();
      each.out = greeting(each.challenge);
      send_some(each);
    }
  }

  // The list is in the order in which they came.
  void make_room() {
    const auto is_unproved = [](const Connection& each) {
      return !each.is_proved && !each.over;
    };
    if (static_cast<size_t>(std::count_if(
            connections_.begin(), connections_.end(), is_unproved)) >=
        kMostUnproved) {
      std::find_if(connections_.begin(), connections_.end(), is_unproved)
          ->over = true;
    }
  }

  void remove_late() {
    for (Connection& each : connections_) {
      if (!each.is_proved && !each.over &&
          Clock::now() - each.begin > kProofLimit) {
        say_refused(each.socket, "did not say that it knows the run's secret");
        each.over = true;
      }
    }
  }

  void receive(Connection& each) {
    std::array<char, kReadBytes> bytes;
    const ssize_t count =
        ::recv(each.socket.fd(), bytes.data(), bytes.size(), 0);
    if (count < 0 && (errno == EAGAIN || errno == EINTR)) {
      return;
    }
    if (count <= 0) {
      each.over = true;
      return;
    }
    each.in.append(bytes.data(), static_cast<size_t>(count));
    if (!each.is_proved) {
      look_at_proof(each);
    }
    if (each.is_proved && !each.over) {
      answer_all(each);
    }
  }

  void look_at_proof(Connection& each) {
    // What is no greeting is known by its beginning: it may never be so long.
    const std::string_view begin =
        std::string_view(each.in).substr(0, kStoreGreeting.size());
    const bool is_greeting = kStoreGreeting.starts_with(begin);
    if (is_greeting && each.in.size() < kClientProofBytes) {
      return;
    }
    const auto proof =
        is_greeting
            ? admit(
                  std::string_view(each.in).substr(0, kClientProofBytes),
                  each.challenge,
                  *secret_)
            : std::nullopt;
    each.out += proof.value_or(refusal());
    send_some(each);
    if (!proof) {
      say_refused(each.socket, "does not know the run's secret");
      // All was read, so that closing does not take back what was sent.
      each.over = true;
      return;
    }
    each.in.erase(0, kClientProofBytes);
    each.is_proved = true;
  }

  void answer_all(Connection& each) {
    size_t done = 0;
    try {
      while (each.in.size() - done >= kLengthBytes) {
        const std::string_view rest = std::string_view(each.in).substr(done);
        const size_t bytes = body_bytes(rest.substr(0, kLengthBytes));
        if (rest.size() < kLengthBytes + bytes) {
          break;
        }
        each.out +=
            encode(answer(*keys_, decode(rest.substr(kLengthBytes, bytes))));
        done += kLengthBytes + bytes;
      }
    } catch (const UserError&) {
      // Out of step: nothing that follows can be read.
      each.over = true;
      return;
    }
    each.in.erase(0, done);
    send_some(each);
  }

  static void send_some(Connection& each) {
    while (!each.out.empty() && !each.over) {
      const ssize_t count = ::send(
          each.socket.fd(),
          each.out.data() + each.sent_bytes,
          each.out.size() - each.sent_bytes,
          MSG_NOSIGNAL);
      if (count < 0 && errno == EINTR) {
        continue;
      }
      if (count < 0 && errno == EAGAIN) {
        return;
      }
      if (count <= 0) {
        each.over = true;
        return;
      }
      each.sent_bytes += static_cast<size_t>(count);
      if (each.sent_bytes == each.out.size()) {
        each.out.clear();
        each.sent_bytes = 0;
      }
    }
  }

  void say_refused(const Socket& socket, const char* why) {
    const std::string who = peer_name(socket);
    if (refused_.size() < kMostRefusals && refused_.insert(who).second) {
      std::cerr << cat("weft: refused ", who, ": it ", why, "\n") << std::flush;
    }
  }

  const Socket listening_;
  const std::optional<std::string> secret_;
  const c10::intrusive_ptr<c10d::HashStore> keys_;
  const int ending_;
  std::list<Connection> connections_;
  std::set<std::string> refused_;
  // Whether there were descriptors when last seen.
  bool may_accept_ = true;
};

StoreServer::StoreServer(Socket listening, std::optional<std::string> secret)
    : keys_(c10::make_intrusive<c10d::HashStore>()),
      ending_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
  WEFT_CHECK_USER(
      ending_.is_open() && ::fcntl(listening.fd(), F_SETFL, O_NONBLOCK) == 0,
      "cannot keep the ranks' store: ",
      std::strerror(errno));
  auto loop = std::make_shared<Loop>(
      std::move(listening), std::move(secret), keys_, ending_.fd());
  // Signals are for the process's own threads.
  sigset_t all;
  sigset_t before;
  ::sigfillset(&all);
  ::pthread_sigmask(SIG_SETMASK, &all, &before);
  thread_ = std::thread([loop = std::move(loop)] { loop->run(); });
  ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

StoreServer::~StoreServer() {
  const uint64_t one = 1;
  if (::write(ending_.fd(), &one, sizeof(one)) == sizeof(one)) {
    thread_.join();
  } else {
    thread_.detach();
  }
}

}  // namespace weft
