// SPDX-License-Identifier: Apache-2.0
// c10d's Gloo. The headers of the system's libgloo only lend their names: every
// function called here is one that LibTorch exports.
#include "execute/gloo.h"

#include "base/error.h"
#include "execute/store_socket.h"

#include <torch/csrc/distributed/c10d/ProcessGroupGloo.hpp>

#include <algorithm>
#include <cstdlib>
#include <future>
#include <thread>
#include <utility>

namespace weft {
namespace {

using Group = c10::intrusive_ptr<c10d::ProcessGroupGloo>;

// Gloo's own limit comes after ours, which can name the rank at fault.
constexpr int64_t kMoreSeconds = 60;

// Which address this rank's connections are on: a loopback where all ranks are
// of this machine, else the one by which it reaches the store, so that nothing
// listens on another network. GLOO_SOCKET_IFNAME names another; empty: what
// c10d chooses.
std::string own_address(const Rendezvous& rendezvous) {
  if (is_this_machine(rendezvous.host)) {
    return "127.0.0.1";
  }
  return std::getenv("GLOO_SOCKET_IFNAME") != nullptr
             ? ""
             : address_towards(rendezvous.host, rendezvous.port);
}

// Meeting the others has no way to be given up: it gets a thread, which is left
// behind when someone is gone.
Group meet(
    const c10::intrusive_ptr<c10d::Store>& store,
    const std::vector<int64_t>& ranks,
    const Rendezvous& rendezvous,
    Watch& watch) {
  auto options = c10d::ProcessGroupGloo::Options::create_default(
      std::chrono::seconds(rendezvous.timeout_seconds + kMoreSeconds));
  if (const std::string address = own_address(rendezvous); !address.empty()) {
    options->devices = {
        c10d::ProcessGroupGloo::createDeviceForHostname(address)};
  }
  const auto here = std::find(ranks.begin(), ranks.end(), rendezvous.rank);
  auto promise = std::make_shared<std::promise<Group>>();
  std::future<Group> group = promise->get_future();
  std::thread([promise,
               store,
               options,
               member = static_cast<int>(here - ranks.begin()),
               size = static_cast<int>(ranks.size())] {
    try {
      promise->set_value(c10::make_intrusive<c10d::ProcessGroupGloo>(
          store, member, size, options));
    } catch (...) {
      promise->set_exception(std::current_exception());
    }
  }).detach();
  watch.wait(
      [&group](std::chrono::milliseconds limit) {
        return group.wait_for(limit) == std::future_status::ready;
      },
      [&] {
        std::vector<int64_t> others = ranks;
        std::erase(others, rendezvous.rank);
        return others;
      });
  try {
    return group.get();
  } catch (const c10::Error& error) {
    watch.fail(error.what_without_backtrace());
  } catch (const std::exception& error) {
    watch.fail(error.what());
  }
}

}  // namespace

C10dBackend make_gloo_backend(
    c10::intrusive_ptr<c10d::Store> store,
    const std::vector<int64_t>& ranks,
    const Rendezvous& rendezvous,
    Watch& watch) {
  // Its reduce_scatter sums everything everywhere, and the end of its sends can
  // only be waited for.
  return {
      .backend = meet(store, ranks, rendezvous, watch),
      .scatters_sums = false,
      .tells_of_sends = false};
}

}  // namespace weft
