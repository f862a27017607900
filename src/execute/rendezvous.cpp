// SPDX-License-Identifier: Apache-2.0
#include "execute/rendezvous.h"

#include "base/error.h"

#include <arpa/inet.h>
#include <cerrno>
#include <charconv>
#include <cstdlib>
#include <cstring>
#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>
#include <vector>

namespace weft {
namespace {

constexpr const char* kListenFd = "WEFT_LISTEN_FD";

std::string variable(const char* name) {
  const char* text = std::getenv(name);
  WEFT_CHECK_USER(
      text != nullptr,
      "RANK is set, and ",
      name,
      " is not: start ranks with weft --nproc or with torchrun");
  return text;
}

int64_t integer(const char* name) {
  const std::string text = variable(name);
  int64_t value = 0;
  const auto [end, error] =
      std::from_chars(text.data(), text.data() + text.size(), value);
  WEFT_CHECK_USER(
      error == std::errc{} && end == text.data() + text.size() && value >= 0,
      "the environment variable ",
      name,
      " is not a number: ",
      quote(text));
  return value;
}

// A socket that listens on a free port of this machine, so that no other
// process can take the port before rank 0 does.
struct Listener {
  int fd = -1;
  int port = 0;
};

Listener listen_on_free_port() {
  Listener listener;
  listener.fd = ::socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t length = sizeof(address);
  auto* generic = reinterpret_cast<sockaddr*>(&address);
  WEFT_CHECK_USER(
      listener.fd >= 0 && ::bind(listener.fd, generic, length) == 0 &&
          ::listen(listener.fd, SOMAXCONN) == 0 &&
          ::getsockname(listener.fd, generic, &length) == 0,
      "no port to listen on: ",
      std::strerror(errno));
  listener.port = ntohs(address.sin_port);
  return listener;
}

[[noreturn]] void become_rank(
    int64_t rank,
    int64_t ranks,
    const Listener& listener,
    const std::vector<char*>& argv) {
  ::setenv("RANK", std::to_string(rank).c_str(), 1);
  ::setenv("LOCAL_RANK", std::to_string(rank).c_str(), 1);
  ::setenv("WORLD_SIZE", std::to_string(ranks).c_str(), 1);
  ::setenv("MASTER_ADDR", "127.0.0.1", 1);
  ::setenv("MASTER_PORT", std::to_string(listener.port).c_str(), 1);
  if (rank == 0) {
    ::setenv(kListenFd, std::to_string(listener.fd).c_str(), 1);
  } else {
    ::close(listener.fd);
  }
  ::execv("/proc/self/exe", argv.data());
  ::_exit(127);
}

int exit_code(int status) {
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

}  // namespace

std::optional<Rendezvous> rendezvous_from_environment() {
  if (std::getenv("RANK") == nullptr) {
    return std::nullopt;
  }
  Rendezvous rendezvous;
  rendezvous.rank = integer("RANK");
  rendezvous.size = integer("WORLD_SIZE");
  rendezvous.host = variable("MASTER_ADDR");
  rendezvous.port = static_cast<int>(integer("MASTER_PORT"));
  if (std::getenv(kListenFd) != nullptr) {
    rendezvous.listen_fd = static_cast<int>(integer(kListenFd));
  }
  const char* agent = std::getenv("TORCHELASTIC_USE_AGENT_STORE");
  rendezvous.has_agent = agent != nullptr && std::string(agent) == "True";
  WEFT_CHECK_USER(
      rendezvous.rank < rendezvous.size,
      "RANK is ",
      rendezvous.rank,
      ", and WORLD_SIZE ",
      rendezvous.size);
  return rendezvous;
}

int start_ranks(int64_t ranks, const std::vector<std::string>& arguments) {
  // Ready before the fork, after which little is allowed.
  std::string program = "weft";
  std::vector<std::string> copies = arguments;
  std::vector<char*> argv = {program.data()};
  for (std::string& argument : copies) {
    argv.push_back(argument.data());
  }
  argv.push_back(nullptr);
  const Listener listener = listen_on_free_port();
  std::vector<pid_t> running;
  for (int64_t rank = 0; rank < ranks; ++rank) {
    const pid_t child = ::fork();
    if (child == 0) {
      become_rank(rank, ranks, listener, argv);
    }
    WEFT_CHECK_USER(
        child > 0, "cannot start rank ", rank, ": ", std::strerror(errno));
    running.push_back(child);
  }
  ::close(listener.fd);

  int failed = 0;
  while (!running.empty()) {
    int status = 0;
    const pid_t ended = ::waitpid(-1, &status, 0);
    if (ended < 0 && errno == EINTR) {
      continue;
    }
    WEFT_CHECK(ended > 0, "waitpid: ", std::strerror(errno));
    std::erase(running, ended);
    if (exit_code(status) != 0 && failed == 0) {
      failed = exit_code(status);
      // They would only wait for the one that is gone.
      for (const pid_t other : running) {
        ::kill(other, SIGTERM);
      }
    }
  }
  return failed;
}

}  // namespace weft
