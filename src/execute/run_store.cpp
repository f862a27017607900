// SPDX-License-Identifier: Apache-2.0
#include "execute/run_store.h"

#include "base/error.h"
#include "execute/bounded_store.h"
#include "execute/secret.h"
#include "execute/socket_store.h"
#include "execute/store_keeper.h"

#include <torch/csrc/distributed/c10d/PrefixStore.hpp>
#include <torch/csrc/distributed/c10d/TCPStore.hpp>

#include <map>
#include <mutex>
#include <sstream>
#include <unistd.h>
#include <utility>

namespace weft {
namespace {

// In torchrun's store, behind the prefix of this start.
constexpr const char* kAddressKey = "store";

bool is_torchruns(const Rendezvous& rendezvous) {
  return rendezvous.has_agent && rendezvous.launcher_socket.empty();
}

// Whether ranks of other hosts may have to come to the store.
bool is_between_hosts(const Rendezvous& rendezvous) {
  return is_torchruns(rendezvous) || (rendezvous.launcher_socket.empty() &&
                                      !is_this_machine(rendezvous.host));
}

// Worlds of one process, one after the other or side by side, share a store.
std::shared_ptr<StoreServer> keep_once(
    const StoreAddress& address, const std::optional<std::string>& secret) {
  static std::mutex mutex;
  static std::map<std::string, std::weak_ptr<StoreServer>> kept;
  const std::lock_guard<std::mutex> lock(mutex);
  std::weak_ptr<StoreServer>& here = kept[print(address)];
  std::shared_ptr<StoreServer> server = here.lock();
  if (server == nullptr) {
    server = std::make_shared<StoreServer>(
        listen_at(address), address.name.empty() ? secret : std::nullopt);
    here = server;
  }
  return server;
}

// Where nothing but the start is known.
std::optional<StoreAddress> known_address(
    const Rendezvous& rendezvous, const std::optional<std::string>& secret) {
  if (!rendezvous.launcher_socket.empty()) {
    return StoreAddress{.name = rendezvous.launcher_socket};
  }
  if (is_torchruns(rendezvous)) {
    return std::nullopt;
  }
  if (is_this_machine(rendezvous.host)) {
    // Named as a port would be, but by user: ranks know nothing else in common.
    return StoreAddress{
        .name = cat("weft/", ::geteuid(), "/", rendezvous.port)};
  }
  // A rank that has none is refused by the store, which names it there too.
  WEFT_CHECK_USER(
      secret || rendezvous.rank != 0,
      "MASTER_ADDR is ",
      rendezvous.host,
      ", and ranks of several hosts need a secret that all of them know: set ",
      kSecretFileVariable,
      " to a file with one, made by `(umask 077; head -c 32 /dev/urandom | "
      "base64 > FILE)`, on every host");
  return StoreAddress{.host = rendezvous.host, .port = rendezvous.port};
}

}  // namespace

std::chrono::milliseconds first_limit(const Rendezvous& rendezvous) {
  return std::chrono::seconds(
      rendezvous.stall_seconds +
      (rendezvous.launcher_socket.empty() ? rendezvous.timeout_seconds : 0));
}

c10::intrusive_ptr<c10d::Store> behind_prefix(
    const Rendezvous& rendezvous, c10::intrusive_ptr<c10d::Store> root) {
  return c10::make_intrusive<c10d::PrefixStore>(
      rendezvous.prefix, std::move(root));
}

namespace {

// As torchrun's store tells it to the other ranks.
std::string address_text(const StoreAddress& address) {
  return address.name.empty() ? cat("port ", address.port, " ", address.host)
                              : cat("name 0 ", address.name);
}

// What is there may be anyone's: whoever listens at that address still has to
// prove that it knows the secret.
StoreAddress read_address(
    const std::string& text, const Rendezvous& rendezvous) {
  std::istringstream in(text);
  std::string kind;
  std::string where;
  StoreAddress address;
  in >> kind >> address.port >> where;
  WEFT_CHECK_USER(
      !in.fail() && (kind == "port" || kind == "name") && address.port >= 0 &&
          address.port <= 65535,
      "torchrun's store at ",
      meeting_place(rendezvous),
      " does not tell where rank 0 listens: is it used by something else?");
  (kind == "port" ? address.host : address.name) = where;
  return address;
}

BoundedStore::Open torchruns_store(const Rendezvous& rendezvous) {
  c10d::TCPStoreOptions options;
  options.port = static_cast<uint16_t>(rendezvous.port);
  options.waitWorkers = false;
  options.timeout = std::chrono::seconds(rendezvous.timeout_seconds);
  return [host = rendezvous.host, options] {
    return c10::make_intrusive<c10d::TCPStore>(host, options);
  };
}

}  // namespace

RunStore::RunStore(const Rendezvous& rendezvous)
    : rendezvous_(rendezvous),
      secret_(
          is_between_hosts(rendezvous) ? secret_from_environment()
                                       : std::nullopt),
      address_(known_address(rendezvous, secret_)),
      is_there_(std::make_shared<std::atomic<bool>>(
          !rendezvous.launcher_socket.empty())) {
  if (address_) {
    if (rendezvous.rank == 0 && !rendezvous.has_agent) {
      server_ = keep_once(*address_, secret_);
    }
    return;
  }
  if (!secret_) {
    return;
  }
  if (rendezvous.rank == 0) {
    // Without a way to the others but a loopback, they are all here.
    const std::string own = address_towards(rendezvous.host, rendezvous.port);
    StoreAddress own_address;
    (own.empty() ? own_address.name : own_address.host) =
        own.empty() ? cat("weft/", unguessable_name()) : own;
    Socket listening = listen_at(own_address);
    if (!own.empty()) {
      own_address.port = port_of(listening);
    }
    server_ = std::make_shared<StoreServer>(
        std::move(listening), own.empty() ? std::nullopt : secret_);
    open(first_limit(rendezvous))->set(kAddressKey, address_text(own_address));
    address_ = own_address;
  } else {
    address_ = read_address(
        open(first_limit(rendezvous))->get_to_str(kAddressKey), rendezvous);
  }
}

Rendezvous RunStore::with_keeper() const {
  Rendezvous out = rendezvous_;
  out.has_agent = !is_kept_by_rank_0();
  return out;
}

c10::intrusive_ptr<c10d::Store> RunStore::open(
    std::chrono::milliseconds limit) const {
  return behind_prefix(rendezvous_, open_root(limit));
}

c10::intrusive_ptr<c10d::Store> RunStore::open_root(
    std::chrono::milliseconds limit) const {
  BoundedStore::Open connect =
      !address_
          ? torchruns_store(rendezvous_)
          : BoundedStore::Open([address = *address_,
                                secret = secret_,
                                timeout = std::chrono::seconds(
                                    rendezvous_.timeout_seconds)] {
              return c10::make_intrusive<SocketStore>(address, secret, timeout);
            });
  const auto keeper = std::make_shared<StoreKeeper>(with_keeper());
  return c10::make_intrusive<BoundedStore>(
      [connect = std::move(connect), is_there = is_there_] {
        auto store = connect();
        *is_there = true;
        return store;
      },
      limit,
      std::chrono::seconds(rendezvous_.stall_seconds),
      [keeper, is_there = is_there_](std::chrono::milliseconds time) {
        if (*is_there) {
          keeper->waited(time);
        }
      });
}

}  // namespace weft
