// SPDX-License-Identifier: Apache-2.0
#include "execute/store_socket.h"

#include "base/error.h"

#include <arpa/inet.h>
#include <array>
#include <cerrno>
#include <cstddef>
#include <cstring>
#include <memory>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <string_view>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

namespace weft {
namespace {

constexpr int kBacklog = 1024;

struct AnyAddress {
  sockaddr_storage storage = {};
  socklen_t bytes = sizeof(sockaddr_storage);

  sockaddr* get() { return reinterpret_cast<sockaddr*>(&storage); }
  const sockaddr* get() const {
    return reinterpret_cast<const sockaddr*>(&storage);
  }
};

// A name that begins with a zero lies in no folder, and ends with its socket.
AnyAddress address_named(const std::string& name) {
  AnyAddress address;
  auto* local = reinterpret_cast<sockaddr_un*>(&address.storage);
  WEFT_CHECK_USER(
      name.size() + 1 < sizeof(local->sun_path),
      quote(name),
      " is too long for the name of a socket");
  local->sun_family = AF_UNIX;
  std::memcpy(local->sun_path + 1, name.data(), name.size());
  address.bytes =
      static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size());
  return address;
}

using AddressList = std::unique_ptr<addrinfo, void (*)(addrinfo*)>;

AddressList resolve(const std::string& host, int port) {
  addrinfo wanted = {};
  wanted.ai_family = AF_UNSPEC;
  wanted.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  const int error =
      ::getaddrinfo(host.c_str(), cat(port).c_str(), &wanted, &found);
  WEFT_CHECK_USER(
      error == 0,
      "there is no address for ",
      quote(host),
      " (MASTER_ADDR): ",
      ::gai_strerror(error));
  return {found, ::freeaddrinfo};
}

AnyAddress copy_of(const addrinfo& info) {
  AnyAddress address;
  std::memcpy(&address.storage, info.ai_addr, info.ai_addrlen);
  address.bytes = info.ai_addrlen;
  return address;
}

bool is_loopback(const AnyAddress& address) {
  if (address.storage.ss_family == AF_INET) {
    const auto* in = reinterpret_cast<const sockaddr_in*>(&address.storage);
    return (ntohl(in->sin_addr.s_addr) >> 24) == 127;
  }
  const auto* in = reinterpret_cast<const sockaddr_in6*>(&address.storage);
  return IN6_IS_ADDR_LOOPBACK(&in->sin6_addr);
}

std::string number_of(const AnyAddress& address) {
  std::array<char, NI_MAXHOST> text = {};
  if (::getnameinfo(
          address.get(),
          address.bytes,
          text.data(),
          text.size(),
          nullptr,
          0,
          NI_NUMERICHOST) != 0) {
    return "";
  }
  // An IPv4 address at a socket of both kinds.
  constexpr std::string_view kMapped = "::ffff:";
  const std::string_view number = text.data();
  return std::string(
      number.starts_with(kMapped) && number.find('.') != number.npos
          ? number.substr(kMapped.size())
          : number);
}

Socket open_socket(int family) {
  Socket socket(::socket(family, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const int on = 1;
  if (family != AF_UNIX && socket.is_open()) {
    // A start right after another finds its port still closing.
    ::setsockopt(socket.fd(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
    // Questions and answers are small.
    ::setsockopt(socket.fd(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
  }
  return socket;
}

Socket listen_on(const AnyAddress& address) {
  Socket socket = open_socket(address.storage.ss_family);
  if (socket.is_open() &&
      (::bind(socket.fd(), address.get(), address.bytes) != 0 ||
       ::listen(socket.fd(), kBacklog) != 0)) {
    const int reason = errno;
    socket = Socket();
    errno = reason;
  }
  return socket;
}

Socket listen_everywhere(int port) {
  AnyAddress all;
  auto* in6 = reinterpret_cast<sockaddr_in6*>(&all.storage);
  in6->sin6_family = AF_INET6;
  in6->sin6_port = htons(static_cast<uint16_t>(port));
  all.bytes = sizeof(sockaddr_in6);
  Socket socket = listen_on(all);
  if (!socket.is_open() && errno != EADDRINUSE) {
    AnyAddress old;
    auto* in = reinterpret_cast<sockaddr_in*>(&old.storage);
    in->sin_family = AF_INET;
    in->sin_port = htons(static_cast<uint16_t>(port));
    old.bytes = sizeof(sockaddr_in);
    socket = listen_on(old);
  }
  return socket;
}

Socket listen_on_host(const std::string& host, int port) {
  const AddressList found = resolve(host, port);
  const AnyAddress first = copy_of(*found);
  // A host whose own name stands for a loopback, as in many a distribution, or
  // for an address that a router translates.
  if (!is_loopback(first) || is_this_machine(host)) {
    Socket socket = listen_on(first);
    if (socket.is_open() || errno != EADDRNOTAVAIL) {
      return socket;
    }
  }
  return listen_everywhere(port);
}

}  // namespace

Socket::~Socket() {
  if (fd_ >= 0) {
    ::close(fd_);
  }
}

std::string print(const StoreAddress& address) {
  return address.name.empty() ? cat(address.host, ":", address.port)
                              : cat("the socket ", quote(address.name));
}

Socket listen_at(const StoreAddress& address) {
  Socket socket = address.name.empty()
                      ? listen_on_host(address.host, address.port)
                      : listen_on(address_named(address.name));
  WEFT_CHECK_USER(
      socket.is_open(),
      "cannot listen for the ranks at ",
      print(address),
      ": ",
      std::strerror(errno),
      errno == EADDRINUSE ? ": choose another MASTER_PORT" : "");
  return socket;
}

int port_of(const Socket& listening) {
  AnyAddress address;
  WEFT_CHECK(
      ::getsockname(listening.fd(), address.get(), &address.bytes) == 0,
      std::strerror(errno));
  return ntohs(
      address.storage.ss_family == AF_INET
          ? reinterpret_cast<const sockaddr_in*>(&address.storage)->sin_port
          : reinterpret_cast<const sockaddr_in6*>(&address.storage)->sin6_port);
}

Socket connect_to(const StoreAddress& address) {
  if (!address.name.empty()) {
    const AnyAddress there = address_named(address.name);
    Socket socket = open_socket(AF_UNIX);
    if (::connect(socket.fd(), there.get(), there.bytes) != 0) {
      return {};
    }
    WEFT_CHECK_USER(
        is_own_user(socket),
        print(address),
        " is held by ",
        peer_name(socket),
        ", who is not the user of this run: choose another MASTER_PORT");
    return socket;
  }
  const AddressList found = resolve(address.host, address.port);
  for (const addrinfo* each = found.get(); each != nullptr;
       each = each->ai_next) {
    Socket socket = open_socket(each->ai_family);
    if (socket.is_open() &&
        ::connect(socket.fd(), each->ai_addr, each->ai_addrlen) == 0) {
      return socket;
    }
  }
  return {};
}

std::string peer_name(const Socket& socket) {
  AnyAddress address;
  if (::getpeername(socket.fd(), address.get(), &address.bytes) != 0) {
    return "a peer that has gone";
  }
  if (address.storage.ss_family != AF_UNIX) {
    return number_of(address);
  }
  ucred who = {};
  socklen_t bytes = sizeof(who);
  ::getsockopt(socket.fd(), SOL_SOCKET, SO_PEERCRED, &who, &bytes);
  return cat("process ", who.pid, " of user ", who.uid);
}

bool is_own_user(const Socket& socket) {
  int family = 0;
  socklen_t bytes = sizeof(family);
  ::getsockopt(socket.fd(), SOL_SOCKET, SO_DOMAIN, &family, &bytes);
  if (family != AF_UNIX) {
    return true;
  }
  ucred who = {};
  bytes = sizeof(who);
  return ::getsockopt(socket.fd(), SOL_SOCKET, SO_PEERCRED, &who, &bytes) ==
             0 &&
         (who.uid == ::geteuid() || who.uid == 0);
}

std::string address_towards(const std::string& host, int port) {
  const AddressList found = resolve(host, port == 0 ? 1 : port);
  for (const addrinfo* each = found.get(); each != nullptr;
       each = each->ai_next) {
    // Nothing is sent: the kernel only looks which way it would go.
    const Socket socket(
        ::socket(each->ai_family, SOCK_DGRAM | SOCK_CLOEXEC, 0));
    AnyAddress own;
    if (::connect(socket.fd(), each->ai_addr, each->ai_addrlen) == 0 &&
        ::getsockname(socket.fd(), own.get(), &own.bytes) == 0 &&
        !is_loopback(own)) {
      return number_of(own);
    }
  }
  return "";
}

}  // namespace weft
