// SPDX-License-Identifier: Apache-2.0
// Sockets of a run's store. Ranks of one machine meet at a socket that has a
// name and no port: no other machine and no other network namespace gets there,
// and the kernel tells whose process is at the other end.
#pragma once

#include "execute/rendezvous.h"

#include <cstdint>
#include <string>
#include <utility>

namespace weft {

// An open descriptor; closes it.
class Socket {
 public:
  Socket() = default;
  explicit Socket(int fd) : fd_(fd) {}
  ~Socket();
  Socket(Socket&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  Socket& operator=(Socket&& other) noexcept {
    std::swap(fd_, other.fd_);
    return *this;
  }

  int fd() const { return fd_; }
  bool is_open() const { return fd_ >= 0; }

 private:
  int fd_ = -1;
};

struct StoreAddress {
  // Of a socket of this machine, unique for this user; empty: host and port.
  std::string name = {};
  std::string host = {};
  int port = 0;
};

std::string print(const StoreAddress& address);

// Throws UserError that says where and why. Port 0: any; `port_of` tells which.
// On a host, only the address that its name stands for is listened on, where
// that is one of this machine; all are where it is not, or where it is a
// loopback and the name is not one of a loopback.
Socket listen_at(const StoreAddress& address);
int port_of(const Socket& listening);

// One attempt; not open when nobody listens there. Throws UserError for a host
// without an address, and when the socket is another user's.
Socket connect_to(const StoreAddress& address);

// Who is at the other end: "10.0.0.2", or "process 12 of user 1000".
std::string peer_name(const Socket& socket);

// Whether the other end of a socket of this machine is a process of this user
// or of root; true for one of another kind.
bool is_own_user(const Socket& socket);

// The address of this machine by which it reaches the host; empty when there is
// none, or only a loopback.
std::string address_towards(const std::string& host, int port);

}  // namespace weft
